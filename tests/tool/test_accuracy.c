/* The comparison behind `selftest` and `compare` must be able to fail: NaN, infinities, one wrong element. And JSON is JSON. */
#include <accuracy.h>
#include <json.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_difference(void **state) {
  const float inf = (float)INFINITY, nan = (float)NAN;
  static const float zeros[4] = {0, 0, 0, 0};
  const float one[4] = {0, 0, 0.25f, 0}, with_nan[4] = {0, nan, 0, 0}, with_inf[4] = {0, 0, 0, inf}, with_minus_inf[4] = {0, 0, 0, -inf};
  (void)state;
  assert_true(sattn_accuracy_difference(zeros, zeros, 4) == 0);
  assert_true(sattn_accuracy_difference(zeros, one, 4) == 0.25);
  assert_true(isinf(sattn_accuracy_difference(zeros, with_nan, 4)));
  assert_true(isinf(sattn_accuracy_difference(with_nan, with_nan, 4)));
  assert_true(isinf(sattn_accuracy_difference(zeros, with_inf, 4)));
  assert_true(isinf(sattn_accuracy_difference(with_inf, with_minus_inf, 4)));
  assert_true(sattn_accuracy_difference(with_inf, with_inf, 4) == 0);
}

static void test_bounds(void **state) {
  (void)state;
  double fp32 = sattn_accuracy_output_bound(SATTN_FP32, 1, 1, false), fp16 = sattn_accuracy_output_bound(SATTN_FP16, 1, 1, false);
  double bf16 = sattn_accuracy_output_bound(SATTN_BF16, 1, 1, false);
  assert_true(fp32 > 0 && fp32 < 1e-5);
  assert_true(fp16 > fp32 && fp16 < 4e-3);
  assert_true(bf16 > 4 * fp16); /* a bf16 pipeline must not pass for fp16 */
}

static void test_json(void **state) {
  char text[512] = "";
  sattn_json json;
  FILE *file = tmpfile();
  (void)state;
  assert_non_null(file);
  sattn_json_begin(&json, file);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "text", "a \"quoted\" \\ line\n");
  sattn_json_text(&json, "nothing", NULL);
  sattn_json_real(&json, "nan", (double)NAN);
  sattn_json_real(&json, "half", 0.5);
  sattn_json_bool(&json, "yes", true);
  sattn_json_open(&json, "list", '[');
  sattn_json_integer(&json, NULL, -1);
  sattn_json_unsigned(&json, NULL, UINT64_MAX);
  sattn_json_close(&json, ']');
  sattn_json_open(&json, "empty", '[');
  sattn_json_close(&json, ']');
  sattn_json_close(&json, '}');
  rewind(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  assert_string_equal(text,
                      "{\n  \"text\": \"a \\\"quoted\\\" \\\\ line\\u000a\",\n  \"nothing\": null,\n  \"nan\": null,\n  \"half\": 0.5,\n"
                      "  \"yes\": true,\n  \"list\": [\n    -1,\n    18446744073709551615\n  ],\n  \"empty\": []\n}\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_difference), cmocka_unit_test(test_bounds), cmocka_unit_test(test_json)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
