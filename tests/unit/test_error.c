#include "error.h"

#include <limits.h>

#include "unit.h"

static void names_of_all_codes(void **state) {
  (void)state;
  const struct {
    sattn_status status;
    int number;
    const char *name;
  } codes[] = {{SATTN_OK, 0, "SATTN_OK"},
               {SATTN_INVALID_ARGUMENT, 10, "SATTN_INVALID_ARGUMENT"},
               {SATTN_UNSUPPORTED, 20, "SATTN_UNSUPPORTED"},
               {SATTN_UNAVAILABLE, 30, "SATTN_UNAVAILABLE"},
               {SATTN_OUT_OF_MEMORY, 40, "SATTN_OUT_OF_MEMORY"},
               {SATTN_BUILD_FAILED, 50, "SATTN_BUILD_FAILED"},
               {SATTN_DRIVER_ERROR, 60, "SATTN_DRIVER_ERROR"},
               {SATTN_MISMATCH, 70, "SATTN_MISMATCH"},
               {SATTN_IO_ERROR, 80, "SATTN_IO_ERROR"},
               {SATTN_INTERNAL, 90, "SATTN_INTERNAL"}};
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; ++i) {
    assert_int_equal((int)codes[i].status, codes[i].number);
    assert_string_equal(sattn_status_name(codes[i].status), codes[i].name);
  }
  assert_string_equal(sattn_status_name((sattn_status)11), "unknown status");
  assert_string_equal(sattn_status_name((sattn_status)-1), "unknown status");
}

static void fail_fills_every_field(void **state) {
  (void)state;
  sattn_error error;
  memset(&error, 0x55, sizeof error);
  assert_int_equal(sattn_fail(&error, SATTN_UNSUPPORTED, "topk", "%s is %d: rule", "topk", 7), SATTN_UNSUPPORTED);
  assert_int_equal(error.status, SATTN_UNSUPPORTED);
  assert_int_equal(error.driver_code, 0);
  assert_string_equal(error.argument, "topk");
  assert_string_equal(error.message, "topk is 7: rule");
  assert_int_equal(sattn_fail_driver(&error, SATTN_DRIVER_ERROR, -54, "it\nbroke"), SATTN_DRIVER_ERROR);
  assert_int_equal(error.driver_code, -54);
  assert_string_equal(error.argument, "");
  assert_string_equal(error.message, "it broke");
}

static void fail_without_error_and_with_long_text(void **state) {
  (void)state;
  assert_int_equal(sattn_fail(NULL, SATTN_INTERNAL, NULL, "nobody reads this"), SATTN_INTERNAL);
  assert_int_equal(sattn_fail_driver(NULL, SATTN_INTERNAL, 1, "nor this"), SATTN_INTERNAL);
  char text[5000];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  struct {
    sattn_error error;
    unsigned char guard;
  } box = {.guard = 0x77};
  sattn_fail(&box.error, SATTN_INTERNAL, text, "%s", text);
  assert_int_equal(strlen(box.error.message), sizeof box.error.message - 1);
  assert_int_equal(strlen(box.error.argument), sizeof box.error.argument - 1);
  assert_int_equal(box.guard, 0x77);
}

static void checked_arithmetic(void **state) {
  (void)state;
  uint64_t result = 1234;
  assert_false(sattn_checked_add(UINT64_MAX, 1, &result));
  assert_false(sattn_checked_multiply(UINT64_MAX / 2 + 1, 2, &result));
  assert_false(sattn_checked_multiply(UINT64_C(1) << 32, UINT64_C(1) << 32, &result));
  assert_true(result == 1234);
  assert_true(sattn_checked_add(UINT64_MAX - 1, 1, &result) && result == UINT64_MAX);
  assert_true(sattn_checked_multiply(UINT64_MAX, 1, &result) && result == UINT64_MAX);
  assert_true(sattn_checked_multiply(UINT64_MAX, 0, &result) && result == 0);
  assert_true(sattn_checked_multiply(0, UINT64_MAX, &result) && result == 0);
  assert_true(sattn_checked_multiply(UINT64_C(0xffffffff), UINT64_C(0xffffffff), &result) && result == UINT64_C(0xfffffffe00000001));
}

typedef struct sample {
  size_t struct_size;
  int64_t old_field;
  int64_t new_field;
} sample;

static void structs_of_older_versions_keep_defaults(void **state) {
  (void)state;
  sattn_error error = {0};
  const sample defaults = {sizeof(sample), 1, 2};
  sample copy = defaults;
  sample caller = {offsetof(sample, new_field), 10, 20};
  unit_ok(sattn_copy_struct("args", &caller, sizeof copy, &copy, &error), &error);
  assert_int_equal(copy.old_field, 10);
  assert_int_equal(copy.new_field, 2);
  assert_int_equal(copy.struct_size, sizeof copy);
  const size_t bad[] = {0, sizeof(size_t) - 1, sizeof(size_t) + 2, sizeof(sample) - 4, sizeof(sample) + 1, SIZE_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    copy = defaults;
    caller.struct_size = bad[i];
    unit_refused(sattn_copy_struct("args", &caller, sizeof copy, &copy, &error), SATTN_INVALID_ARGUMENT, &error, "args.struct_size", NULL);
    assert_memory_equal(&copy, &defaults, sizeof copy);
  }
  unit_refused(sattn_copy_struct("args", NULL, sizeof copy, &copy, &error), SATTN_INVALID_ARGUMENT, &error, "args is NULL", NULL);
}

static void returned_structs_fill_only_what_the_caller_knows(void **state) {
  (void)state;
  const sample from = {sizeof(sample), 10, 20};
  sample target = {offsetof(sample, new_field), 1, 2};
  sattn_error error = {0};
  unit_ok(sattn_check_struct("out", &target, sizeof target, &error), &error);
  sattn_return_struct(&from, &target);
  assert_int_equal(target.struct_size, offsetof(sample, new_field));
  assert_int_equal(target.old_field, 10);
  assert_int_equal(target.new_field, 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_of_all_codes),
    cmocka_unit_test(fail_fills_every_field),
    cmocka_unit_test(fail_without_error_and_with_long_text),
    cmocka_unit_test(checked_arithmetic),
    cmocka_unit_test(structs_of_older_versions_keep_defaults),
    cmocka_unit_test(returned_structs_fill_only_what_the_caller_knows),
};
UNIT_MAIN(tests)
