/* sattn selftest: does every device here compute the right thing? Ends with one line that a user can paste into a bug report. */
#include "selftest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"

enum { MAX_DEVICES = 16, MAX_PROBLEMS = 32, MAX_LINES = 64 };

typedef struct tally {
  int right, wrong, unsupported, failed;
} tally;

typedef struct device {
  sattn_device_info info;
  sattn_context *context;
  sattn_selftest_result results[MAX_PROBLEMS];
  sattn_selftest_answer answers[MAX_PROBLEMS];
} device;

typedef struct session {
  int device_count;
  device *devices;
  tally total;
  int line_count;
  char *lines[MAX_LINES]; /* what went wrong, in words; owned */
} session;

static void note(session *s, const char *who, const char *what, const char *message) {
  char text[1600];
  if (s->line_count == MAX_LINES) return;
  int length = snprintf(text, sizeof text, "%s, %s: %s", who, what, message);
  if (length < 0) return;
  char *line = malloc(strlen(text) + 1);
  if (!line) return;
  strcpy(line, text);
  s->lines[s->line_count++] = line;
}

static void count(session *s, sattn_selftest_result result) {
  switch (result) {
    case SATTN_SELFTEST_RIGHT:
      s->total.right++;
      return;
    case SATTN_SELFTEST_WRONG:
      s->total.wrong++;
      return;
    case SATTN_SELFTEST_UNSUPPORTED:
      s->total.unsupported++;
      return;
    case SATTN_SELFTEST_FAILED:
      s->total.failed++;
      return;
  }
}

static void print_cell(sattn_selftest_result result, double figure, const char *format) {
  char text[32];
  switch (result) {
    case SATTN_SELFTEST_UNSUPPORTED:
      snprintf(text, sizeof text, "not supported");
      break;
    case SATTN_SELFTEST_FAILED:
      snprintf(text, sizeof text, "FAILED");
      break;
    case SATTN_SELFTEST_WRONG:
      snprintf(text, sizeof text, "WRONG %.1e", figure);
      break;
    default:
      snprintf(text, sizeof text, format, figure);
  }
  printf(" %15s", text);
}

/* Every device of every backend that opens; one that does not open is a failure. */
static bool open_devices(session *s, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  for (int b = 1; b <= SATTN_BACKEND_COUNT; b++) {
    uint32_t found = 0;
    if (sattn_backend_probe((sattn_backend)b, &error) != SATTN_OK) {
      printf("%-14s not available: %s\n", sattn_backend_name((sattn_backend)b), error.message);
      continue;
    }
    if (!sattn_tool_check(report, sattn_device_count((sattn_backend)b, &found, &error), &error)) return false;
    for (uint32_t i = 0; i < found && s->device_count < MAX_DEVICES; i++) {
      device *d = &s->devices[s->device_count];
      sattn_device_info_init(&d->info);
      if (!sattn_tool_check(report, sattn_device_get_info((sattn_backend)b, i, &d->info, &error), &error)) return false;
      printf("%-14s %s, driver %s\n", d->info.id, d->info.name, d->info.driver);
      if (sattn_tool_check(report, sattn_context_create(d->info.id, NULL, &d->context, &error), &error)) {
        s->device_count++;
        continue;
      }
      count(s, SATTN_SELFTEST_FAILED);
      note(s, d->info.id, "cannot be opened", report->message);
    }
  }
  return true;
}

static void print_heading(const session *s, const char *title) {
  printf("\n%-18s", title);
  for (int i = 0; i < s->device_count; i++) printf(" %15s", s->devices[i].info.id);
  putchar('\n');
}

static void run_permutations(session *s, sattn_report *report) {
  int known = 0, right = sattn_selftest_permutations(&known, report);
  printf("\npermutation, format %d: %d of %d known answers right\n", SATTN_PERMUTATION_VERSION, right, known);
  s->total.right += right;
  s->total.wrong += known - right;
  if (right < known) note(s, "host", "permutation", "an order differs from the known one");
}

static void run_examples(session *s, sattn_report *report) {
  print_heading(s, "worked example");
  for (int e = 0; e < sattn_selftest_example_count(); e++) {
    printf("  %-16s", sattn_selftest_example_name(e));
    for (int i = 0; i < s->device_count; i++) {
      double error = 0;
      sattn_selftest_result result = sattn_selftest_example(e, s->devices[i].context, &error, report);
      print_cell(result, error, "%.1e");
      count(s, result);
      if (result == SATTN_SELFTEST_WRONG) note(s, s->devices[i].info.id, sattn_selftest_example_name(e), "not the known answer");
      if (result == SATTN_SELFTEST_FAILED) note(s, s->devices[i].info.id, sattn_selftest_example_name(e), report->message);
    }
    putchar('\n');
  }
}

/* Device 0 is the reference. The second run of a problem must give the bits of the first. */
static sattn_selftest_result run_problem(session *s, int p, int i, double *out_share, sattn_report *report) {
  device *d = &s->devices[i];
  sattn_selftest_answer again;
  *out_share = (double)NAN;
  d->results[p] = sattn_selftest_problem(p, d->context, &d->answers[p], report);
  if (d->results[p] != SATTN_SELFTEST_RIGHT) return d->results[p];
  *out_share = sattn_selftest_compare(p, &s->devices[0].answers[p], &d->answers[p]);
  if (!(*out_share <= 1)) {
    note(s, d->info.id, sattn_selftest_problem_name(p), "differs from the reference by more than the contract allows");
    d->results[p] = SATTN_SELFTEST_WRONG;
  }
  bool repeats = sattn_selftest_problem(p, d->context, &again, report) == SATTN_SELFTEST_RIGHT;
  for (size_t a = 0; repeats && a < sizeof again.values / sizeof again.values[0]; a++)
    if (again.values[a] && memcmp(again.values[a], d->answers[p].values[a], (size_t)again.counts[a] * sizeof(float)) != 0) repeats = false;
  sattn_selftest_answer_free(&again);
  if (!repeats) {
    note(s, d->info.id, sattn_selftest_problem_name(p), "two runs differ");
    d->results[p] = SATTN_SELFTEST_WRONG;
  }
  return d->results[p];
}

static void run_problems(session *s, sattn_report *report) {
  print_heading(s, "against reference");
  for (int p = 0; p < sattn_selftest_problem_count(); p++) {
    printf("  %-16s", sattn_selftest_problem_name(p));
    for (int i = 0; i < s->device_count; i++) {
      double share = 0;
      sattn_selftest_result result = run_problem(s, p, i, &share, report);
      print_cell(result, share, "%.3f");
      fflush(stdout);
      count(s, result);
      if (result == SATTN_SELFTEST_FAILED) note(s, s->devices[i].info.id, sattn_selftest_problem_name(p), report->message);
    }
    putchar('\n');
  }
  printf("  (1 is the largest difference that the contract allows; each problem ran twice and must repeat to the bit)\n");
}

static bool has_answer(sattn_selftest_result result) {
  return result == SATTN_SELFTEST_RIGHT || result == SATTN_SELFTEST_WRONG;
}

/* Which devices agree with which: when one of three is wrong, this shows who. */
static void print_pairs(const session *s) {
  print_heading(s, "between devices");
  for (int i = 0; i < s->device_count; i++) {
    printf("  %-16s", s->devices[i].info.id);
    for (int j = 0; j < s->device_count; j++) {
      double worst = 0;
      for (int p = 0; p < sattn_selftest_problem_count(); p++) {
        sattn_selftest_result a = s->devices[i].results[p], b = s->devices[j].results[p];
        if (!has_answer(a) || !has_answer(b)) continue;
        worst = fmax(worst, sattn_selftest_compare(p, &s->devices[i].answers[p], &s->devices[j].answers[p]));
      }
      printf(" %15.3f", worst);
    }
    putchar('\n');
  }
}

static bool verdict(const session *s, sattn_report *report) {
  const tally *t = &s->total;
  if (s->line_count) putchar('\n');
  for (int i = 0; i < s->line_count; i++) printf("%s\n", s->lines[i]);
  bool fine = t->wrong == 0 && t->failed == 0 && t->right > 0;
  printf("\nsattn %s selftest: %s: %d right, %d wrong, %d failed, %d not supported, on", sattn_version_string(), fine ? "PASSED" : "FAILED",
         t->right, t->wrong, t->failed, t->unsupported);
  for (int i = 0; i < s->device_count; i++) printf("%s %s (%s)", i ? "," : "", s->devices[i].info.id, s->devices[i].info.name);
  putchar('\n');
  return fine || sattn_tool_refuse(report, "selftest failed; please report the lines above");
}

static void end_session(session *s) {
  for (int i = 0; s->devices && i < MAX_DEVICES; i++) {
    for (int p = 0; p < MAX_PROBLEMS; p++) sattn_selftest_answer_free(&s->devices[i].answers[p]);
    sattn_context_destroy(&s->devices[i].context);
  }
  for (int i = 0; i < s->line_count; i++) free(s->lines[i]);
  free(s->devices);
}

bool sattn_command_selftest(int argc, char **argv, sattn_report *report) {
  const sattn_option options[] = {{SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  const sattn_command command = {
      "selftest",
      "Runs known answers and small random problems on every device of every backend present, compares the devices with "
      "the reference and with each other, and ends with a verdict to paste into a bug report.",
      options};
  bool help = false;
  session s;
  if (!sattn_options_read(options, argc, argv, &help, report)) return false;
  if (help) return sattn_options_print_help(&command), true;
  memset(&s, 0, sizeof s);
  s.devices = sattn_tool_allocate(report, "devices", MAX_DEVICES, sizeof *s.devices);
  bool fine = s.devices && open_devices(&s, report);
  if (fine && s.device_count == 0) fine = sattn_tool_refuse(report, "no device could be opened, not even the reference");
  if (fine) {
    run_permutations(&s, report);
    run_examples(&s, report);
    run_problems(&s, report);
    print_pairs(&s);
    fine = verdict(&s, report);
  }
  end_session(&s);
  return fine;
}
