/* Receptive fields: every path to them against brute force; what must hold for all of them. */
#include <stdio.h>
#include <stdlib.h>

#include "bounds.h"
#include "case.h"
#include "growth.h"
#include "reach.h"

static uint64_t seed;

static uint32_t *by_bitsets(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers) {
  uint32_t *field = malloc(sizeof *field * layers * pattern->n);
  sattn_field_progress progress = sattn_field_progress_begin("", 1);
  assert_non_null(field);
  assert_int_equal(sattn_field_reach_bitsets(pattern, orders, layers, field, &progress, NULL), SATTN_OK);
  assert_int_equal(progress.done, sattn_field_reach_bitsets_steps(pattern->n, layers));
  return field;
}

/* All tokens, in descending order: their sequence must not matter. */
static uint32_t *by_search(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers) {
  const uint32_t n = pattern->n;
  uint32_t *tokens = malloc(sizeof *tokens * n);
  uint32_t *found = malloc(sizeof *found * layers * n);
  uint32_t *field = malloc(sizeof *field * layers * n);
  sattn_field_progress progress = sattn_field_progress_begin("", 1);
  assert_non_null(tokens);
  assert_non_null(found);
  assert_non_null(field);
  for (uint32_t t = 0; t < n; t++) tokens[t] = n - 1 - t;
  assert_int_equal(sattn_field_reach_search(pattern, orders, layers, tokens, n, found, &progress, NULL), SATTN_OK);
  for (uint32_t l = 0; l < layers; l++) {
    for (uint32_t t = 0; t < n; t++) field[l * n + tokens[t]] = found[l * n + t];
  }
  free(tokens);
  free(found);
  return field;
}

static void assert_same(const field_case *c, const char *way, const uint32_t *expected, const uint32_t *got) {
  for (size_t k = 0; k < (size_t)c->layers * c->pattern.n; k++) {
    if (expected[k] == got[k]) continue;
    field_case_print(c);
    fail_msg("%s: layer %zu, token %zu: %u, but brute force has %u", way, k / c->pattern.n + 1, k % c->pattern.n, got[k], expected[k]);
  }
}

static void hold_against_brute_force(const field_case *c) {
  sattn_field_orders orders;
  assert_int_equal(sattn_field_orders_make(c->pattern.n, c->layers, c->seed, &orders, NULL), SATTN_OK);
  uint32_t *expected = field_brute_force(&c->pattern, &orders, c->layers);
  uint32_t *bitsets = by_bitsets(&c->pattern, &orders, c->layers);
  uint32_t *search = by_search(&c->pattern, &orders, c->layers);
  assert_same(c, "bitsets", expected, bitsets);
  assert_same(c, "search", expected, search);
  if (!c->pattern.sa.used) {
    for (uint32_t k = 0; k < c->layers * c->pattern.n; k++) {
      search[k] = sattn_field_reach_window(&c->pattern, k / c->pattern.n + 1, k % c->pattern.n);
    }
    assert_same(c, "formula", expected, search);
  }
  free(search);
  free(bitsets);
  free(expected);
  sattn_field_orders_free(&orders);
}

static void all_ways_agree_on_small_cases(void **state) {
  (void)state;
  test_random random = test_random_open(seed, "small");
  for (int k = 0; k < 300; k++) {
    const field_case c = field_case_draw(&random, 70);
    hold_against_brute_force(&c);
  }
}

/* More than one strip of 512 tokens, and sets that are swept instead of walked. */
static void all_ways_agree_across_strips(void **state) {
  (void)state;
  static const sattn_mode modes[] = {SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION};
  for (int k = 0; k < 12; k++) {
    field_case c = {.mode = modes[k % 3], .layers = 3, .width_swa = 9, .width_sa = 9, .seed = seed + (uint64_t)k};
    c.pattern = field_pattern(c.mode, 513 + 100 * (uint32_t)(k / 6), 9, k % 2 == 0, k % 4 >= 2);
    hold_against_brute_force(&c);
  }
}

static void fields_only_grow(void **state) {
  (void)state;
  test_random random = test_random_open(seed, "grow");
  for (int k = 0; k < 60; k++) {
    const field_case c = field_case_draw(&random, 300);
    const uint32_t n = c.pattern.n;
    sattn_field_orders orders;
    assert_int_equal(sattn_field_orders_make(n, c.layers, c.seed, &orders, NULL), SATTN_OK);
    uint32_t *field = by_bitsets(&c.pattern, &orders, c.layers);
    const sattn_field_pattern wider =
        field_pattern(c.mode, n, (c.width_sa > c.width_swa ? c.width_sa : c.width_swa) + 1, c.pattern.causal, c.pattern.wrap);
    uint32_t *wide = by_bitsets(&wider, &orders, c.layers);
    sattn_field_pattern joined = field_pattern(SATTN_UNION, n, 3, c.pattern.causal, c.pattern.wrap);
    if (c.pattern.swa.used) joined.swa = c.pattern.swa;
    if (c.pattern.sa.used) joined.sa = c.pattern.sa;
    uint32_t *both = by_bitsets(&joined, &orders, c.layers);
    for (uint32_t l = 0; l < c.layers; l++) {
      for (uint32_t i = 0; i < n; i++) {
        const uint32_t value = field[l * n + i];
        if (l > 0) assert_true(value >= field[(l - 1) * n + i]);
        assert_true(wide[l * n + i] >= value);
        assert_true(both[l * n + i] >= value);
      }
    }
    free(both);
    free(wide);
    free(field);
    sattn_field_orders_free(&orders);
  }
}

/* |R_L(i)| <= min(allowed, degree^L); hence no depth below log_degree n. Sliding windows grow by addition. */
static void theorems_hold(void **state) {
  (void)state;
  test_random random = test_random_open(seed, "theorems");
  for (int k = 0; k < 100; k++) {
    const field_case c = field_case_draw(&random, 400);
    const uint32_t n = c.pattern.n;
    const uint32_t degree = sattn_field_max_degree(&c.pattern);
    sattn_field_orders orders;
    assert_int_equal(sattn_field_orders_make(n, c.layers, c.seed, &orders, NULL), SATTN_OK);
    uint32_t *field = by_bitsets(&c.pattern, &orders, c.layers);
    for (uint32_t l = 0; l < c.layers; l++) {
      int complete = 1;
      for (uint32_t i = 0; i < n; i++) {
        const uint32_t value = field[l * n + i];
        assert_true(value <= sattn_field_allowed(&c.pattern, i));
        assert_true(value <= sattn_field_tree_bound(degree, l + 1, n));
        if (!c.pattern.sa.used) assert_true(value <= 1 + (uint64_t)(l + 1) * (degree - 1));
        complete = complete && value == sattn_field_allowed(&c.pattern, i);
      }
      if (complete) assert_true(l + 1 >= sattn_field_tree_depth(degree, n));
      if (!c.pattern.sa.used) {
        const uint64_t depth = sattn_field_window_depth(&c.pattern);
        assert_int_equal(complete, depth != 0 && l + 1 >= depth);
      }
    }
    free(field);
    sattn_field_orders_free(&orders);
  }
}

static void depth_of_a_window_is_the_first_complete_layer(void **state) {
  (void)state;
  for (uint32_t n = 2; n <= 40; n++) {
    for (int64_t width = 1; width <= 2 * (int64_t)n; width++) {
      for (int causal = 0; causal < 2; causal++) {
        const sattn_field_pattern pattern = field_pattern(SATTN_SLIDING_WINDOW, n, width, causal, false);
        const uint64_t depth = sattn_field_window_depth(&pattern);
        const uint32_t last = n - 1;
        for (uint64_t layers = 1; layers <= n; layers++) {
          const int complete = sattn_field_reach_window(&pattern, layers, 0) == sattn_field_allowed(&pattern, 0) &&
                               sattn_field_reach_window(&pattern, layers, last) == sattn_field_allowed(&pattern, last);
          assert_int_equal(complete, depth != 0 && layers >= depth);
        }
      }
    }
  }
}

/* Neighbours i and i - 1 have nothing between them: in causal SA they must meet in a layer of their own. */
static void causal_neighbours_must_meet(void **state) {
  (void)state;
  enum { TOKENS = 200, LAYERS = 12 };
  const sattn_field_pattern pattern = field_pattern(SATTN_STOCHASTIC, TOKENS, 8, true, false);
  sattn_field_orders orders;
  assert_int_equal(sattn_field_orders_make(TOKENS, LAYERS, seed, &orders, NULL), SATTN_OK);
  const uint32_t token = 1;
  uint32_t field[LAYERS];
  sattn_field_progress progress = sattn_field_progress_begin("", 1);
  assert_int_equal(sattn_field_reach_search(&pattern, &orders, LAYERS, &token, 1, field, &progress, NULL), SATTN_OK);
  int met = 0;
  for (uint32_t l = 0; l < LAYERS; l++) {
    met = met || sattn_field_sees(&pattern, sattn_field_slot(&orders, l), 1, 0);
    assert_int_equal(field[l], 1 + met);
  }
  sattn_field_orders_free(&orders);
}

static void growth_sums_up_what_was_found(void **state) {
  (void)state;
  sattn_field_settings settings = {
      .mode = SATTN_STOCHASTIC, .n = 300, .window_sa = 10, .window_swa = 10, .layers = 5, .seeds = 3, .seed = seed};
  sattn_field_growth_result exact;
  assert_int_equal(sattn_field_growth_compute(&settings, &exact, NULL), SATTN_OK);
  assert_int_equal(exact.method, SATTN_FIELD_BY_BITSETS);
  settings.tokens = 300;
  sattn_field_growth_result searched;
  assert_int_equal(sattn_field_growth_compute(&settings, &searched, NULL), SATTN_OK);
  assert_int_equal(searched.method, SATTN_FIELD_BY_SEARCH);
  for (uint32_t l = 0; l < settings.layers; l++) {
    assert_int_equal(exact.layer[l].min, searched.layer[l].min);
    assert_int_equal(exact.layer[l].max, searched.layer[l].max);
    assert_true(exact.layer[l].mean.mean == searched.layer[l].mean.mean);
    assert_true(exact.layer[l].coverage.mean == searched.layer[l].coverage.mean);
    /* the prediction is an approximation, but a close one */
    assert_true(exact.layer[l].mean.mean > 0.97 * exact.layer[l].expected && exact.layer[l].mean.mean < 1.03 * exact.layer[l].expected);
  }
  assert_int_equal(exact.layer[0].min, 5); /* the token in slot 0: itself and the 4 to its right */
  assert_true(exact.depth.count > 0 && exact.depth.mean >= exact.least_depth);
  sattn_field_growth_free(&searched);
  sattn_field_growth_free(&exact);
}

static void too_many_tokens_for_bitsets(void **state) {
  (void)state;
  const sattn_field_pattern pattern = field_pattern(SATTN_SLIDING_WINDOW, SATTN_FIELD_EXACT_MAX + 1, 4, true, false);
  sattn_error error = {SATTN_OK, 0, "", ""};
  uint32_t untouched = 7;
  assert_int_equal(sattn_field_reach_bitsets(&pattern, NULL, 1, &untouched, NULL, &error), SATTN_INVALID_ARGUMENT);
  assert_int_equal(untouched, 7);
  assert_string_equal(error.argument, "n");
}

int main(int argc, char **argv) {
  (void)argc;
  seed = field_test_seed(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_ways_agree_on_small_cases),
                                     cmocka_unit_test(all_ways_agree_across_strips),
                                     cmocka_unit_test(fields_only_grow),
                                     cmocka_unit_test(theorems_hold),
                                     cmocka_unit_test(causal_neighbours_must_meet),
                                     cmocka_unit_test(depth_of_a_window_is_the_first_complete_layer),
                                     cmocka_unit_test(growth_sums_up_what_was_found),
                                     cmocka_unit_test(too_many_tokens_for_bitsets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
