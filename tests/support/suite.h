/* Cases, verdicts and exception lists: shared by the programs that run on every backend and device.
 *
 * A backend may have exceptions: `unsupported` (it never will; the call must be refused) and `expected failure` (should shrink). Every one
 * has a reason. A case that passes although it is listed fails the run, so that the lists cannot go stale.
 */
#ifndef TEST_SUITE_H
#define TEST_SUITE_H

#include <sattn/sattn.h>

typedef enum test_exception_kind { TEST_UNSUPPORTED, TEST_EXPECTED_FAILURE } test_exception_kind;

typedef struct test_exception {
  const char *backend; /* NULL ends a list */
  test_exception_kind kind;
  const char *pattern; /* of case names, as a shell would match them */
  const char *reason;
} test_exception;

#define TEST_PATTERNS 8

typedef struct test_suite {
  const char *program; /* argv[0] */
  sattn_backend backend;
  const char *device;                  /* NULL: every device of the backend */
  const char *patterns[TEST_PATTERNS]; /* all NULL: every case */
  const char *skipped[TEST_PATTERNS];
  const char *folder; /* what is left of the command line; may be NULL */
  uint64_t seed;
  const test_exception *exceptions;
  /* --- the device that cases run on now --- */
  sattn_device_info info;
  sattn_context *context;
  /* --- the case that runs now --- */
  char name[128];
  const test_exception *exception; /* NULL: none */
  int failures;
  double started;
  /* --- sums --- */
  int passed, failed, excepted;
} test_suite;

/* Reads --backend B [--device ID] [--case PATTERN]... [--skip PATTERN]... [--seed S] [FOLDER] and prints the seed. Returns 0, or 2 after a
 * message. */
int test_suite_parse(test_suite *suite, const test_exception *exceptions, int argc, char **argv);

/* Runs `cases` once for every device that was asked for, with a context each. Returns the exit status: 0, 1 if anything failed, 77 if the
 * machine has no such device (which is a failure where a driver is installed). */
int test_suite_run(test_suite *suite, void (*cases)(test_suite *suite));

/* Starts a case; 0 when the command line leaves it out. */
int test_suite_begin(test_suite *suite, const char *name);
/* Ends it: verdict, counts, and the memory of the case. */
void test_suite_end(test_suite *suite);

/* Records a failure of the running case. */
void test_fail(test_suite *suite, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
