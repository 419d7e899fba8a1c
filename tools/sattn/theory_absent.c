/* For builds without tools/field. */
#include "commands.h"

static bool refuse(sattn_report *report) {
  return sattn_tool_refuse(report, "this build has no tools/field: build from a whole checkout");
}

bool sattn_command_field(int argc, char **argv, sattn_report *report) {
  (void)argc;
  (void)argv;
  return refuse(report);
}

bool sattn_command_picture(int argc, char **argv, sattn_report *report) {
  (void)argc;
  (void)argv;
  return refuse(report);
}
