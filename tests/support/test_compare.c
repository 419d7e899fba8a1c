/* The comparator must be able to fail. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compare.h"
#include "half.h"

#define N 6

static const test_shape shape = {{1, 1, 2, 3}};

static size_t compare_one(double expected, float got, double tolerance) {
  double e[N] = {1, 2, 3, 4, 5, 6};
  float g[N] = {1, 2, 3, 4, 5, 6};
  test_difference difference;
  e[4] = expected;
  g[4] = got;
  size_t wrong = test_compare("x", shape, e, g, tolerance, &difference);
  assert_int_equal(wrong, difference.wrong);
  if (wrong) {
    assert_int_equal(difference.worst, 4);
    assert_non_null(strstr(difference.report, "x[0,0,1,1]"));
  } else {
    assert_string_equal(difference.report, "");
  }
  return wrong;
}

static void nan_never_passes(void **state) {
  (void)state;
  assert_int_equal(compare_one(1, NAN, 1e30), 1);
  assert_int_equal(compare_one(0, -NAN, INFINITY), 1);
  assert_int_equal(compare_one((double)INFINITY, NAN, INFINITY), 1);
  /* A tolerance that is NaN itself lets nothing pass. */
  assert_int_equal(test_compare("x", (test_shape){{1, 1, 1, 1}}, (double[]){1}, (float[]){1}, (double)NAN, &(test_difference){0}), 1);
}

static void infinities_must_be_met(void **state) {
  (void)state;
  assert_int_equal(compare_one((double)INFINITY, INFINITY, 0), 0);
  assert_int_equal(compare_one(-(double)INFINITY, -INFINITY, 0), 0);
  assert_int_equal(compare_one(-(double)INFINITY, INFINITY, 1), 1);
  assert_int_equal(compare_one(-(double)INFINITY, -3e38f, INFINITY), 1);
  assert_int_equal(compare_one(3, INFINITY, 1e300), 1);
  assert_int_equal(compare_one(3, INFINITY, (double)INFINITY), 1);
}

static void expected_nan_is_not_compared(void **state) {
  (void)state;
  assert_int_equal(compare_one((double)NAN, 17, 0), 0);
  assert_int_equal(compare_one((double)NAN, NAN, 0), 0);
}

static void zeros_and_tolerance(void **state) {
  (void)state;
  assert_int_equal(compare_one(0, 0.0f, 0), 0);
  assert_int_equal(compare_one(0, -0.0f, 0), 0);
  assert_int_equal(compare_one(0, 1e-30f, 0), 1);
  assert_int_equal(compare_one(5, 5.25f, 0.25), 0);
  assert_int_equal(compare_one(5, 5.25f, 0.2499), 1);
  assert_int_equal(compare_one(5, 4.75f, 0.25), 0);
  assert_int_equal(compare_one(5, 0.0f, 0.25), 1);
}

static void one_wrong_element_is_found(void **state) {
  (void)state;
  double expected[N] = {0};
  for (size_t i = 0; i < N; ++i) {
    float got[N] = {0};
    test_difference difference;
    got[i] = 1e-3f;
    assert_int_equal(test_compare("x", shape, expected, got, 1e-6, &difference), 1);
    assert_int_equal(difference.worst, i);
  }
}

static void worst_is_reported(void **state) {
  (void)state;
  double expected[N] = {0};
  float got[N] = {0, 1, -3, 2, 0, 0};
  test_difference difference;
  assert_int_equal(test_compare("x", shape, expected, got, 0.5, &difference), 3);
  assert_int_equal(difference.worst, 2);
  assert_true(difference.largest == 3);
  got[5] = NAN;
  assert_int_equal(test_compare("x", shape, expected, got, 0.5, &difference), 4);
  assert_int_equal(difference.worst, 5);
  assert_true(difference.largest == 3);
}

static void bits_and_values_differ_in_zero_and_nan(void **state) {
  (void)state;
  const test_shape one = {{1, 1, 1, 1}};
  float plus = 0.0f;
  float minus = -0.0f;
  float nothing = NAN;
  test_difference difference;
  assert_int_equal(test_compare_bits("x", one, &plus, &minus, &difference), 1);
  assert_int_equal(test_compare_exact("x", one, &plus, &minus, &difference), 0);
  assert_int_equal(test_compare_bits("x", one, &nothing, &nothing, &difference), 0);
  assert_int_equal(test_compare_exact("x", one, &nothing, &nothing, &difference), 1);
}

static void nothing_is_equal_to_nothing(void **state) {
  (void)state;
  test_difference difference;
  assert_int_equal(test_compare("x", (test_shape){{1, 0, 2, 3}}, NULL, NULL, 0, &difference), 0);
}

/* Known bits, and all 65536 values there and back. */
static void half_formats(void **state) {
  (void)state;
  assert_int_equal(test_encode(SATTN_FP16, 1.0), 0x3c00);
  assert_int_equal(test_encode(SATTN_FP16, -2.0), 0xc000);
  assert_int_equal(test_encode(SATTN_FP16, 65504.0), 0x7bff);
  assert_int_equal(test_encode(SATTN_FP16, 65520.0), 0x7c00);
  assert_int_equal(test_encode(SATTN_FP16, 1.0 + 1.0 / 2048), 0x3c00);
  assert_int_equal(test_encode(SATTN_FP16, 1.0 + 3.0 / 2048), 0x3c02);
  assert_int_equal(test_encode(SATTN_BF16, 1.0), 0x3f80);
  assert_int_equal(test_encode(SATTN_BF16, 3.4e38), 0x7f80);
  assert_int_equal(test_encode(SATTN_FP16, ldexp(1, -24)), 1);
  assert_int_equal(test_encode(SATTN_FP16, ldexp(1, -25)), 0);
  for (int dtype = SATTN_FP16; dtype <= SATTN_BF16; ++dtype) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      double value = test_decode((sattn_dtype)dtype, bits);
      if (!isnan(value)) assert_int_equal(test_encode((sattn_dtype)dtype, value), bits);
    }
  }
}

/* The library's conversions and these were written apart. */
static void half_formats_agree_with_the_library(void **state) {
  (void)state;
  for (uint64_t step = 0; step < UINT64_C(1) << 32; step += 65521) {
    uint32_t bits = (uint32_t)step;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (isnan(value)) continue;
    assert_int_equal(sattn_fp16_from_float(value), test_encode(SATTN_FP16, (double)value));
    assert_int_equal(sattn_bf16_from_float(value), test_encode(SATTN_BF16, (double)value));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nan_never_passes),
      cmocka_unit_test(infinities_must_be_met),
      cmocka_unit_test(expected_nan_is_not_compared),
      cmocka_unit_test(zeros_and_tolerance),
      cmocka_unit_test(one_wrong_element_is_found),
      cmocka_unit_test(worst_is_reported),
      cmocka_unit_test(bits_and_values_differ_in_zero_and_nan),
      cmocka_unit_test(nothing_is_equal_to_nothing),
      cmocka_unit_test(half_formats),
      cmocka_unit_test(half_formats_agree_with_the_library),
  };
  return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
