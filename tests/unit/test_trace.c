#include "trace.h"

#include <fcntl.h>
#include <unistd.h>

#include "unit.h"

enum { ALL = SATTN_TRACE_ERROR | SATTN_TRACE_DISPATCH | SATTN_TRACE_BUILD };

static void words_become_levels(void **state) {
  (void)state;
  assert_int_equal(sattn_trace_parse(NULL), 0);
  assert_int_equal(sattn_trace_parse(""), 0);
  assert_int_equal(sattn_trace_parse("error"), SATTN_TRACE_ERROR);
  assert_int_equal(sattn_trace_parse("dispatch,build"), SATTN_TRACE_DISPATCH | SATTN_TRACE_BUILD);
  assert_int_equal(sattn_trace_parse("all"), ALL);
  assert_int_equal(sattn_trace_parse(",,nonsense,errors,erro,,build,"), SATTN_TRACE_BUILD);
}

/* Standard error of `body`, at most capacity - 1 bytes. */
static void capture(char *text, size_t capacity, void (*body)(void)) {
  FILE *file = tmpfile();
  assert_non_null(file);
  fflush(stderr);
  int old = dup(STDERR_FILENO);
  assert_true(old >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
  body();
  fflush(stderr);
  assert_true(dup2(old, STDERR_FILENO) >= 0);
  close(old);
  rewind(file);
  size_t length = fread(text, 1, capacity - 1, file);
  text[length] = '\0';
  fclose(file);
}

static void lines(void) {
  sattn_trace(SATTN_TRACE_BUILD, SATTN_TRACE_ERROR, "not wanted %d", 1);
  sattn_trace(SATTN_TRACE_BUILD, SATTN_TRACE_BUILD, "took %d ms", 7);
  sattn_trace(ALL, SATTN_TRACE_DISPATCH, "chose %s", "a");
  sattn_trace(0, SATTN_TRACE_ERROR, "silence");
}

static void lines_have_the_documented_form(void **state) {
  (void)state;
  char text[512];
  capture(text, sizeof text, lines);
  assert_string_equal(text, "sattn:build: took 7 ms\nsattn:dispatch: chose a\n");
}

static void refuse_twenty_things(void) {
  sattn_context *context = NULL;
  if (sattn_context_create("reference", NULL, &context, NULL) != SATTN_OK) return;
  for (int i = 0; i < 20; ++i) sattn_buffer_create(context, UINT64_MAX - (uint64_t)i, NULL, NULL);
  sattn_context_destroy(&context);
}

static void nothing_is_printed_unless_asked(void **state) {
  (void)state;
  char text[8192];
  unsetenv("SATTN_TRACE");
  capture(text, sizeof text, refuse_twenty_things);
  assert_string_equal(text, "");
  setenv("SATTN_TRACE", "error", 1);
  capture(text, sizeof text, refuse_twenty_things);
  unsetenv("SATTN_TRACE");
  int count = 0;
  for (const char *at = text; (at = strstr(at, "sattn:error: SATTN_INVALID_ARGUMENT: out_buffer")) != NULL; ++at) ++count;
  assert_int_equal(count, 20);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(words_become_levels),
    cmocka_unit_test(lines_have_the_documented_form),
    cmocka_unit_test(nothing_is_printed_unless_asked),
};
UNIT_MAIN(tests)
