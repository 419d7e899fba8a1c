/* What all unit tests share. cmocka's float assertions are never used: the version in use lets NaN pass. */
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sattn/sattn.h>

/* Runs the group and, if anything failed, prints the command that runs it again. */
#define UNIT_MAIN_WITH(tests, open, close)                    \
  int main(int argc, char **argv) {                           \
    (void)argc;                                               \
    int failed = cmocka_run_group_tests(tests, open, close);  \
    if (failed != 0) fprintf(stderr, "rerun: %s\n", argv[0]); \
    return failed;                                            \
  }
#define UNIT_MAIN(tests) UNIT_MAIN_WITH(tests, NULL, NULL)

/* A refusal must have the status, say it in the error as well, be one line, and contain every word given (NULL: none). */
static inline void unit_refused(sattn_status got, sattn_status expected, const sattn_error *error, const char *word, const char *second) {
  if (got != expected) print_error("got %s, message: %s\n", sattn_status_name(got), error->message);
  assert_int_equal(got, expected);
  assert_int_equal(error->status, expected);
  assert_null(strchr(error->message, '\n'));
  assert_true(strlen(error->message) > 10);
  if ((word != NULL && strstr(error->message, word) == NULL) || (second != NULL && strstr(error->message, second) == NULL)) {
    fail_msg("\"%s\" lacks \"%s\" or \"%s\"", error->message, word != NULL ? word : "", second != NULL ? second : "");
  }
}

static inline void unit_ok(sattn_status got, const sattn_error *error) {
  if (got != SATTN_OK) fail_msg("%s: %s", sattn_status_name(got), error->message);
}

static inline sattn_context *unit_context(void) {
  sattn_error error = {0};
  sattn_context *context = NULL;
  unit_ok(sattn_context_create("reference", NULL, &context, &error), &error);
  return context;
}

#endif
