/* The subcommands. Each takes the words after its own name and returns false with a sentence and an exit status in report. */
#ifndef SATTN_TOOL_COMMANDS_H
#define SATTN_TOOL_COMMANDS_H

#include "report.h"

bool sattn_command_info(int argc, char **argv, sattn_report *report);
bool sattn_command_selftest(int argc, char **argv, sattn_report *report);
bool sattn_command_attend(int argc, char **argv, sattn_report *report);
bool sattn_command_compare(int argc, char **argv, sattn_report *report);
bool sattn_command_permute(int argc, char **argv, sattn_report *report);
bool sattn_command_bench(int argc, char **argv, sattn_report *report);
bool sattn_command_field(int argc, char **argv, sattn_report *report);
bool sattn_command_picture(int argc, char **argv, sattn_report *report);

#endif
