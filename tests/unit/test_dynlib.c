#include "dynlib.h"

#include "unit.h"

typedef struct table {
  double (*cosine)(double);
  void (*absent)(void);
} table;

static const char *const libm[] = {"libsattn-no-such-library.so.9", "libm.so.6", "libm.so", NULL};
static const char *const nothing[] = {"libsattn-no-such-library.so.9", "libsattn-no-such-library.so", NULL};

static void opens_the_first_that_is_there(void **state) {
  (void)state;
  const sattn_symbol symbols[] = {{"cos", offsetof(table, cosine), 1}, {"sattn_no_such_function", offsetof(table, absent), 0}};
  table functions;
  memset(&functions, 0x55, sizeof functions);
  void *library = NULL;
  sattn_error error = {0};
  unit_ok(sattn_dynlib_open(libm, symbols, 2, &functions, "install a C library", &library, &error), &error);
  assert_non_null(library);
  assert_true(functions.cosine(0.0) == 1.0);
  assert_true(functions.absent == NULL);
  sattn_dynlib_close(&library);
  assert_null(library);
  sattn_dynlib_close(&library);
  sattn_dynlib_close(NULL);
}

static void absence_says_what_to_install(void **state) {
  (void)state;
  const sattn_symbol symbols[] = {{"cos", offsetof(table, cosine), 1}};
  table functions;
  memset(&functions, 0x55, sizeof functions);
  void *library = NULL;
  sattn_error error = {0};
  unit_refused(sattn_dynlib_open(nothing, symbols, 1, &functions, "install the driver", &library, &error), SATTN_UNAVAILABLE, &error,
               "libsattn-no-such-library.so.9, libsattn-no-such-library.so", "install the driver");
  assert_null(library);
  assert_true(functions.cosine == NULL);
}

static void missing_symbol_is_named(void **state) {
  (void)state;
  const sattn_symbol symbols[] = {{"cos", offsetof(table, cosine), 1}, {"sattn_no_such_function", offsetof(table, absent), 1}};
  table functions = {0};
  void *library = NULL;
  sattn_error error = {0};
  unit_refused(sattn_dynlib_open(libm, symbols, 2, &functions, "update it", &library, &error), SATTN_UNAVAILABLE, &error,
               "sattn_no_such_function", "update it");
  assert_null(library);
  assert_true(functions.cosine == NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(opens_the_first_that_is_there),
    cmocka_unit_test(absence_says_what_to_install),
    cmocka_unit_test(missing_symbol_is_named),
};
UNIT_MAIN(tests)
