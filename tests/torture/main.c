/* sattn-torture: random problems over the whole contract, on every device and family of kernels that is there, until time is up.
 *
 *     sattn-torture [--seconds N] [--seed S] [--first ROUND] [--rounds N] [--backends LIST] [--kernels LIST] [--folder F]
 *                   [--mode M] [--dtype T] [--tolerance FACTOR] [--fault] [--verbose]
 *
 * Every result is held against a dense double-precision oracle with the tolerances of the contract, the reference backend's too. A failure
 * is made as small as possible; then its description is printed, its arrays are written to the folder, and the command line of the tool
 * that shows it is printed, with the one that repeats it here. Exit status: 0 clean, 1 a failure or nothing run, 2 wrong usage.
 * --mode and --dtype pass over the rounds that draw another one. --tolerance 0 and --fault see to it that failures are found.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "show.h"
#include "shrink.h"

#define SHRINK_SECONDS 120

typedef struct options {
  double seconds;
  uint64_t seed;
  int64_t first;
  int64_t rounds; /* -1: until time is up */
  const char *backends;
  const char *kernels;
  const char *folder;
  const char *mode, *dtype; /* NULL: all */
  double tolerance;
  int fault;
  int verbose;
} options;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int usage(void) {
  fprintf(stderr,
          "usage: sattn-torture [--seconds N] [--seed S] [--first ROUND] [--rounds N] [--backends LIST] [--kernels LIST]\n"
          "                     [--folder F] [--mode M] [--dtype T] [--tolerance FACTOR] [--fault] [--verbose]\n");
  return 2;
}

static int read_number(const char *text, double *out_value) {
  char *end = NULL;
  *out_value = strtod(text, &end);
  return end == text || *end ? -1 : 0;
}

static int read_whole(const char *text, uint64_t *out_value) {
  char *end = NULL;
  *out_value = strtoull(text, &end, 0);
  return end == text || *end || *text == '-' ? -1 : 0;
}

static int read_option(options *o, const char *name, const char *value) {
  uint64_t whole = 0;
  if (strcmp(name, "--seconds") == 0) return read_number(value, &o->seconds);
  if (strcmp(name, "--tolerance") == 0) return read_number(value, &o->tolerance);
  if (strcmp(name, "--backends") == 0) return o->backends = value, 0;
  if (strcmp(name, "--kernels") == 0) return o->kernels = value, 0;
  if (strcmp(name, "--folder") == 0) return o->folder = value, 0;
  if (strcmp(name, "--mode") == 0) return o->mode = value, 0;
  if (strcmp(name, "--dtype") == 0) return o->dtype = value, 0;
  if (read_whole(value, &whole)) return -1;
  if (strcmp(name, "--seed") == 0) return o->seed = whole, 0;
  if (strcmp(name, "--first") == 0) return o->first = (int64_t)whole, 0;
  if (strcmp(name, "--rounds") == 0) return o->rounds = (int64_t)whole, 0;
  return -1;
}

static int read_options(options *o, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--fault") == 0) {
      o->fault = 1;
    } else if (strcmp(argv[i], "--verbose") == 0) {
      o->verbose = 1;
    } else if (i + 1 == argc || read_option(o, argv[i], argv[i + 1])) {
      return -1;
    } else {
      ++i;
    }
  }
  return 0;
}

static void report_failure(torture_judge *judge, const options *o, int64_t round, int target, torture_problem *problem, char *report,
                           size_t capacity) {
  const torture_target *at = &judge->targets[target];
  const char *device = sattn_context_device(at->context)->id;
  printf("FAILED round %" PRId64 " on %s, kernels %s: %s\n  ", round, device, at->family, report);
  torture_describe(problem, stdout);
  fflush(stdout);
  int steps = torture_shrink(judge, target, problem, SHRINK_SECONDS, report, capacity);
  printf("smallest (%d steps): %s\n  ", steps, report);
  torture_describe(problem, stdout);
  if (torture_show(problem, at, o->folder, stdout)) printf("  (files could not be written to %s)\n", o->folder);
  printf("  sattn-torture --seed %" PRIu64 " --first %" PRId64 " --rounds 1 --backends %s --kernels %s\n", o->seed, round,
         sattn_backend_name(sattn_context_device(at->context)->backend), at->family);
  fflush(stdout);
}

static int is_wanted(const options *o, const torture_problem *problem) {
  return (!o->mode || strcmp(o->mode, sattn_mode_name((sattn_mode)problem->mode)) == 0) &&
         (!o->dtype || strcmp(o->dtype, sattn_dtype_name((sattn_dtype)problem->dtype)) == 0);
}

/* Returns 1 after the first failure: one at a time is enough to work on. */
static int run(torture_judge *judge, const options *o) {
  double end = now() + o->seconds;
  int64_t round = o->first;
  for (; o->rounds < 0 ? now() < end : round < o->first + o->rounds; ++round) {
    torture_problem drawn;
    torture_draw(o->seed, round, &drawn);
    if (!is_wanted(o, &drawn)) continue;
    if (o->verbose) torture_describe(&drawn, stdout);
    for (int target = 0; target < judge->count; ++target) {
      torture_problem problem = drawn; /* a failure makes it smaller */
      char report[640];
      if (!torture_judge_run(judge, target, &problem, report, sizeof report)) continue;
      report_failure(judge, o, round, target, &problem, report, sizeof report);
      return 1;
    }
  }
  int nothing = 0;
  for (int target = 0; target < judge->count; ++target) {
    const torture_target *at = &judge->targets[target];
    printf("%s, kernels %s: %ld problems, all right\n", sattn_context_device(at->context)->id, at->family, at->problems);
    nothing |= at->problems == 0;
  }
  return nothing;
}

int main(int argc, char **argv) {
  options o = {10, (uint64_t)time(NULL), 0, -1, "reference,opencl,cuda", "auto,gpu,general", "torture-failure", NULL, NULL, 1, 0, 0};
  torture_judge judge;
  if (read_options(&o, argc, argv)) return usage();
  printf("seed %" PRIu64 "\n", o.seed);
  if (torture_judge_open(&judge, o.backends, o.kernels)) return 2;
  judge.tolerance = o.tolerance;
  judge.fault = o.fault;
  int failed = run(&judge, &o);
  torture_judge_close(&judge);
  return failed;
}
