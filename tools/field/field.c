#include "field.h"

#include <stdio.h>

#include "measures.h"

static sattn_status measure(const sattn_field_settings *settings, sattn_error *out_error) {
  static sattn_status (*const measures[SATTN_FIELD_MEASURES])(const sattn_field_settings *, sattn_error *) = {
      sattn_field_growth, sattn_field_pairs, sattn_field_small_world, sattn_field_spectrum, sattn_field_approximation, sattn_field_picture};
  return measures[settings->measure](settings, out_error);
}

static int run(bool picture, int argc, char **argv) {
  sattn_field_settings settings;
  sattn_report report = {SATTN_EXIT_DONE, ""};
  sattn_error error = {SATTN_OK, 0, "", ""};
  bool help = false;
  bool done = sattn_field_settings_read(picture, argc - 1, argv + 1, &settings, &help, &report);
  if (done && !help) done = sattn_tool_check(&report, measure(&settings, &error), &error);
  if (done && (fflush(stdout) != 0 || ferror(stdout))) done = sattn_tool_refuse(&report, "standard output cannot be written");
  if (done) return SATTN_EXIT_DONE;
  fprintf(stderr, "sattn: %s\n", report.message);
  return report.exit_status;
}

int sattn_tool_field(int argc, char **argv) {
  return run(false, argc, argv);
}

int sattn_tool_picture(int argc, char **argv) {
  return run(true, argc, argv);
}
