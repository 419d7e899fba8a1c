/* Visible sets: the contract's worked example, ranges against the definition, and the equal number of pairs. */
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "case.h"
#include "pairs.h"

static uint64_t seed;

/* "0,1 0,3" and so on: the visible set of every token. */
static void assert_sets(const sattn_field_pattern *pattern, const uint32_t *slot, const char *expected) {
  char text[256] = "";
  for (uint32_t i = 0; i < pattern->n; i++) {
    for (uint32_t j = 0; j < pattern->n; j++) {
      const char digit[2] = {(char)('0' + j), '\0'};
      if (sattn_field_sees(pattern, slot, i, j)) strcat(text, digit);
    }
    strcat(text, " ");
  }
  assert_string_equal(text, expected);
}

static void worked_example(void **state) {
  (void)state;
  static const uint32_t order[6] = {3, 0, 5, 1, 4, 2};
  uint32_t slot[6];
  for (uint32_t s = 0; s < 6; s++) slot[order[s]] = s;
  sattn_field_pattern pattern = field_pattern(SATTN_SLIDING_WINDOW, 6, 3, true, false);
  assert_sets(&pattern, slot, "0 01 012 123 234 345 ");
  pattern = field_pattern(SATTN_STOCHASTIC, 6, 3, true, false);
  assert_sets(&pattern, slot, "0 01 12 03 124 01345 ");
  pattern = field_pattern(SATTN_STOCHASTIC, 6, 3, false, false);
  assert_sets(&pattern, slot, "035 145 24 03 124 015 ");
  pattern = field_pattern(SATTN_STOCHASTIC, 6, 3, false, true);
  assert_sets(&pattern, slot, "035 145 234 023 124 015 ");
  pattern = field_pattern(SATTN_FULL, 6, 1, true, false);
  assert_sets(&pattern, slot, "0 01 012 0123 01234 012345 ");
}

static void ranges_are_the_definition(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 9; n++) {
    for (uint32_t left = 0; left < n; left++) {
      for (uint32_t right = 0; right < n; right++) {
        for (int wrap = 0; wrap < 2; wrap++) {
          uint32_t slot[9];
          for (uint32_t s = 0; s < n; s++) slot[s] = s;
          const sattn_field_pattern pattern = {.n = n, .wrap = wrap, .sa = {true, left, right}};
          for (uint32_t at = 0; at < n; at++) {
            int seen[9] = {0};
            sattn_field_range ranges[2];
            const int parts = sattn_field_band_ranges(n, wrap, at, left, right, ranges);
            for (int part = 0; part < parts; part++) {
              for (uint32_t s = ranges[part].first; s <= ranges[part].last; s++) seen[s]++;
            }
            for (uint32_t j = 0; j < n; j++) assert_int_equal(seen[j], sattn_field_sees_sa(&pattern, slot, at, j));
          }
        }
      }
    }
  }
}

/* For every order of a few tokens, not only random ones. */
static void causal_sa_has_as_many_pairs_as_swa(void **state) {
  (void)state;
  uint32_t order[5] = {0, 1, 2, 3, 4};
  for (int64_t width = 1; width <= 6; width++) {
    const sattn_field_pattern sa = field_pattern(SATTN_STOCHASTIC, 5, width, true, false);
    for (int k = 0; k < 3125; k++) {
      int used = 0;
      for (int s = 0, rest = k; s < 5; s++, rest /= 5) {
        order[s] = (uint32_t)(rest % 5);
        used |= 1 << order[s];
      }
      if (used != 31) continue;
      assert_int_equal(sattn_field_count_visible(&sa, order), sattn_field_causal_total(5, (uint32_t)width));
    }
  }
  for (int64_t width = 1; width <= 70; width += 3) {
    uint64_t total = 0;
    const sattn_field_pattern swa = field_pattern(SATTN_SLIDING_WINDOW, 61, width, true, false);
    for (uint32_t i = 0; i < 61; i++) {
      for (uint32_t j = 0; j < 61; j++) total += sattn_field_sees_swa(&swa, i, j);
    }
    assert_int_equal(total, sattn_field_causal_total(61, (uint32_t)width));
  }
}

static void largest_visible_set_is_a_bound(void **state) {
  (void)state;
  test_random random = test_random_open(seed, "degree");
  for (int k = 0; k < 100; k++) {
    const field_case c = field_case_draw(&random, 40);
    sattn_field_orders orders;
    assert_int_equal(sattn_field_orders_make(c.pattern.n, 1, c.seed, &orders, NULL), SATTN_OK);
    for (uint32_t i = 0; i < c.pattern.n; i++) {
      uint32_t seen = 0;
      for (uint32_t j = 0; j < c.pattern.n; j++) seen += sattn_field_sees(&c.pattern, orders.slot, i, j);
      if (seen > sattn_field_max_degree(&c.pattern) || seen > sattn_field_allowed(&c.pattern, i)) field_case_print(&c);
      assert_true(seen <= sattn_field_max_degree(&c.pattern));
      assert_true(seen <= sattn_field_allowed(&c.pattern, i));
    }
    sattn_field_orders_free(&orders);
  }
}

static void bad_width_is_refused(void **state) {
  (void)state;
  sattn_field_pattern pattern;
  sattn_error error = {SATTN_OK, 0, "", ""};
  assert_int_equal(sattn_field_pattern_make(SATTN_STOCHASTIC, 8, 4, 0, true, false, &pattern, &error), SATTN_INVALID_ARGUMENT);
  assert_non_null(strstr(error.message, "width"));
}

int main(int argc, char **argv) {
  (void)argc;
  seed = field_test_seed(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(worked_example), cmocka_unit_test(ranges_are_the_definition),
                                     cmocka_unit_test(causal_sa_has_as_many_pairs_as_swa), cmocka_unit_test(largest_visible_set_is_a_bound),
                                     cmocka_unit_test(bad_width_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
