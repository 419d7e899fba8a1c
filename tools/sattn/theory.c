/* sattn field, sattn picture: handed on to tools/field, which reports by itself. */
#include <field.h>

#include "commands.h"

/* The words after the subcommand's name begin at argv; the name itself lies just before. */
static bool hand_on(int (*run)(int argc, char **argv), int argc, char **argv, sattn_report *report) {
  report->exit_status = run(argc + 1, argv - 1);
  return report->exit_status == SATTN_EXIT_DONE;
}

bool sattn_command_field(int argc, char **argv, sattn_report *report) {
  return hand_on(sattn_tool_field, argc, argv, report);
}
bool sattn_command_picture(int argc, char **argv, sattn_report *report) {
  return hand_on(sattn_tool_picture, argc, argv, report);
}
