/* SA as an estimate of full attention: measured bias and variance against the first-order theory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "approximation.h"
#include "case.h"

static uint64_t seed;

static sattn_field_approximation_result compute(bool causal, bool wrap) {
  const sattn_field_settings settings = {
      .n = 128, .window_sa = 64, .head_dim = 8, .seeds = 48, .seed = seed, .causal = causal, .wrap = wrap};
  sattn_field_approximation_result result;
  sattn_error error = {SATTN_OK, 0, "", ""};
  if (sattn_field_approximation_compute(&settings, &result, &error) != SATTN_OK) fail_msg("%s", error.message);
  assert_int_equal(result.rows, 4); /* 8, 16, 32, 64 */
  return result;
}

static void variance_and_bias_fall_as_the_theory_says(void **state) {
  (void)state;
  for (int causal = 0; causal < 2; causal++) {
    sattn_field_approximation_result result = compute(causal, false);
    for (int r = 0; r < result.rows; r++) {
      const sattn_field_approximation_row *row = &result.row[r];
      assert_int_equal(row->window, 8 << r);
      assert_true(row->variance > 0 && row->window_square > 0);
      if (r > 0) assert_true(row->variance < result.row[r - 1].variance);
    }
    /* First order: good where the window holds many of the keys that matter. The first tokens of a causal sequence never have many. */
    const sattn_field_approximation_row *last = &result.row[result.rows - 1];
    const double variance = last->variance / last->variance_theory;
    const double bias = sqrt(last->bias_square / last->bias_square_theory);
    assert_true(causal ? variance > 0.5 && variance < 2 : variance > 0.85 && variance < 1.3);
    assert_true(causal ? bias > 0.5 && bias < 2 : bias > 0.85 && bias < 1.3);
    /* bias is of second order in the distance */
    assert_true(last->bias_square < 0.2 * last->variance);
    sattn_field_sample_free(&result.sample);
  }
}

/* A width of 2 n - 1 sees everything, and then there is nothing to estimate: q = 1 in the theory, and the output is full attention's. */
static void no_distance_where_everything_is_seen(void **state) {
  (void)state;
  const sattn_field_settings settings = {.n = 9, .window_sa = 8, .head_dim = 4, .seeds = 3, .seed = seed, .causal = false, .wrap = true};
  sattn_field_approximation_result result;
  assert_int_equal(sattn_field_approximation_compute(&settings, &result, NULL), SATTN_OK);
  assert_int_equal(result.rows, 1);
  assert_true(fabs(result.row[0].pair_probability - 7.0 / 8.0) < 1e-12);
  /* all but one key of nine are seen */
  assert_true(result.row[0].variance < 1.0);
  sattn_field_sample_free(&result.sample);
}

static void bad_files_are_refused(void **state) {
  (void)state;
  const sattn_field_settings settings = {
      .n = 8, .window_sa = 8, .seeds = 1, .query = "no/such/q.npy", .key = "no/such/k.npy", .value = "no/such/v.npy"};
  sattn_field_approximation_result result;
  sattn_error error = {SATTN_OK, 0, "", ""};
  assert_int_equal(sattn_field_approximation_compute(&settings, &result, &error), SATTN_IO_ERROR);
  assert_non_null(strstr(error.message, "no/such/q.npy"));
}

int main(int argc, char **argv) {
  (void)argc;
  seed = field_test_seed(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(variance_and_bias_fall_as_the_theory_says),
                                     cmocka_unit_test(no_distance_where_everything_is_seen), cmocka_unit_test(bad_files_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
