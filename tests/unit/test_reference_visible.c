/* The reference backend's visible sets: the contract's worked example, and a direct reading of its table on random problems. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "reference/reference_select.h"
#include "reference/reference_visible.h"

enum { MAX_TOKENS = 24 };

typedef struct slot_memory {
  uint32_t token[MAX_TOKENS], rank[MAX_TOKENS], slot[MAX_TOKENS];
} slot_memory;

static sattn_reference_slots open_slots(slot_memory *memory, const uint32_t *order, int64_t length, int64_t tokens, int gaps) {
  sattn_reference_slots slots = {.token = memory->token, .rank = memory->rank, .slot = memory->slot};
  sattn_reference_permute(order, length, tokens, gaps, &slots);
  return slots;
}

/* "0 1 4 " for the keys, ascending; "twice" if one is listed twice. */
static void print_set(const sattn_reference_bands *bands, int64_t position, char *text, size_t capacity) {
  uint32_t keys[MAX_TOKENS];
  int times[MAX_TOKENS] = {0};
  int64_t count = sattn_reference_visible(bands, position, NULL, 0, keys);
  text[0] = 0;
  for (int64_t k = 0; k < count; ++k) ++times[keys[k]];
  for (int token = 0; token < MAX_TOKENS; ++token) {
    size_t used = strlen(text);
    if (times[token] > 1) snprintf(text, capacity, "twice");
    if (times[token] == 1) snprintf(text + used, capacity - used, "%d ", token);
  }
}

static void expect_sets(sattn_mode mode, int causal, const char *const *expected) {
  static const uint32_t order[6] = {3, 0, 5, 1, 4, 2};
  sattn_attention attention;
  sattn_problem problem;
  slot_memory memory;
  sattn_attention_init(&attention);
  attention.mode = mode;
  attention.heads = 1;
  attention.head_dim = 1;
  attention.causal = causal;
  if (mode == SATTN_STOCHASTIC) attention.window_sa = sattn_window_width(3);
  if (mode == SATTN_SLIDING_WINDOW) attention.window_swa = sattn_window_width(3);
  assert_int_equal(sattn_problem_resolve(&attention, &problem, NULL), SATTN_OK);
  sattn_reference_slots slots = open_slots(&memory, order, 6, 6, 0);
  sattn_reference_bands bands = sattn_reference_bands_of(&problem, SATTN_REFERENCE_WHOLE, 6, &slots);
  for (int64_t p = 0; p < 6; ++p) {
    char text[96];
    print_set(&bands, p, text, sizeof text);
    assert_string_equal(text, expected[p]);
  }
}

static void worked_example(void **state) {
  (void)state;
  static const char *const causal_swa[] = {"0 ", "0 1 ", "0 1 2 ", "1 2 3 ", "2 3 4 ", "3 4 5 "};
  static const char *const causal_sa[] = {"0 ", "0 1 ", "1 2 ", "0 3 ", "1 2 4 ", "0 1 3 4 5 "};
  static const char *const two_way_sa[] = {"0 3 5 ", "1 4 5 ", "2 4 ", "0 3 ", "1 2 4 ", "0 1 5 "};
  expect_sets(SATTN_SLIDING_WINDOW, 1, causal_swa);
  expect_sets(SATTN_STOCHASTIC, 1, causal_sa);
  expect_sets(SATTN_STOCHASTIC, 0, two_way_sa);
}

static void slots_of_missing_tokens(void **state) {
  (void)state;
  static const uint32_t order[6] = {3, 0, 5, 1, 4, 2};
  slot_memory memory;
  sattn_reference_slots slots = open_slots(&memory, order, 6, 4, 0);
  assert_int_equal(slots.total, 4);
  static const uint32_t token[] = {3, 0, 1, 2}, rank[] = {1, 2, 3, 0}, slot_with_gaps[] = {1, 3, 5, 0};
  assert_memory_equal(memory.token, token, sizeof token);
  assert_memory_equal(memory.rank, rank, sizeof rank);
  assert_memory_equal(memory.slot, rank, sizeof rank);
  slots = open_slots(&memory, order, 6, 4, 1);
  assert_int_equal(slots.total, 6);
  assert_memory_equal(memory.rank, rank, sizeof rank);
  assert_memory_equal(memory.slot, slot_with_gaps, sizeof slot_with_gaps);
}

/* ---- the table of the contract, read literally for one pair ---- */

typedef struct pair_rule {
  const sattn_reference_bands *bands;
  const uint32_t *selected;
  int64_t selected_count;
} pair_rule;

static int in_slots(const sattn_reference_bands *bands, int64_t p, int64_t j) {
  int64_t distance = (int64_t)bands->slots->slot[j] - bands->slots->slot[p];
  for (int64_t turn = bands->wrap ? -1 : 0; turn <= (bands->wrap ? 1 : 0); ++turn) {
    int64_t d = distance + turn * bands->slots->total;
    if (-bands->left_sa <= d && d <= bands->right_sa) return 1;
  }
  return 0;
}

static int sees(const pair_rule *rule, int64_t p, int64_t j) {
  const sattn_reference_bands *bands = rule->bands;
  int seen = j < bands->sink_tokens;
  if (bands->has_window) seen |= p - bands->left_swa <= j && j <= p + bands->right_swa;
  if (bands->slots) seen |= in_slots(bands, p, j);
  for (int64_t s = 0; s < rule->selected_count; ++s) seen |= j / bands->block == rule->selected[s];
  return seen && (!bands->causal || j <= p);
}

static int64_t random_side(test_random *random) {
  return test_random_below(random, 8) == 0 ? INT32_MAX : test_random_below(random, MAX_TOKENS);
}

static void random_bands(test_random *random, const sattn_reference_slots *slots, int64_t tokens, sattn_reference_bands *bands) {
  *bands = (sattn_reference_bands){.tokens = tokens, .causal = test_random_below(random, 2) == 1};
  if (test_random_below(random, 3) == 0) bands->sink_tokens = test_random_below(random, MAX_TOKENS + 4);
  int64_t kind = test_random_below(random, 4);
  if (kind == 0 || kind == 2) {
    bands->has_window = true;
    bands->left_swa = random_side(random);
    bands->right_swa = random_side(random);
  }
  if (kind == 1 || kind == 2) {
    bands->slots = slots;
    bands->left_sa = random_side(random);
    bands->right_sa = random_side(random);
    bands->wrap = test_random_below(random, 2) == 1;
  }
  if (kind == 3) bands->block = 1 + test_random_below(random, 6);
}

static void compare_sets(const pair_rule *rule, int64_t tokens, int round) {
  for (int64_t p = 0; p < tokens; ++p) {
    uint32_t keys[MAX_TOKENS];
    int times[MAX_TOKENS] = {0};
    int64_t count = sattn_reference_visible(rule->bands, p, rule->selected, rule->selected_count, keys);
    assert_in_range(count, 0, tokens);
    for (int64_t k = 0; k < count; ++k) ++times[keys[k]];
    for (int64_t j = 0; j < tokens; ++j) {
      if (times[j] != sees(rule, p, j)) {
        fail_msg("round %d: query at %d lists key %d %d times. Rerun: SATTN_TEST_SEED=%llu unit_reference_visible", round, (int)p, (int)j,
                 times[j], (unsigned long long)test_seed());
      }
    }
  }
}

static void random_problems(void **state) {
  (void)state;
  test_random random = test_random_open(test_seed(), "reference visible");
  for (int round = 0; round < 4000; ++round) {
    uint32_t order[MAX_TOKENS], selected[MAX_TOKENS];
    slot_memory memory;
    int64_t length = 1 + test_random_below(&random, MAX_TOKENS), tokens = 1 + test_random_below(&random, length);
    for (int64_t s = 0; s < length; ++s) order[s] = (uint32_t)s;
    for (int64_t s = length - 1; s > 0; --s) {
      int64_t other = test_random_below(&random, s + 1);
      uint32_t kept = order[s];
      order[s] = order[other];
      order[other] = kept;
    }
    sattn_reference_slots slots = open_slots(&memory, order, length, tokens, (int)test_random_below(&random, 2));
    sattn_reference_bands bands;
    random_bands(&random, &slots, tokens, &bands);
    pair_rule rule = {&bands, selected, 0};
    for (int64_t b = 0; bands.block > 0 && b * bands.block < tokens; ++b) {
      if (test_random_below(&random, 2) == 1) selected[rule.selected_count++] = (uint32_t)b;
    }
    compare_sets(&rule, tokens, round);
  }
}

/* ---- MOBA's selection ---- */

static void selection_prefers_score_then_lowest_block(void **state) {
  (void)state;
  /* One number a block, so that the query 1 makes it the score. */
  const double query = 1;
  const float mean[] = {2, 5, 5, NAN, 5, -1};
  float score[6];
  uint32_t selected[6];
  assert_int_equal(sattn_reference_select(&query, mean, 6, 1, 4, 3, true, 23, score, selected), 3);
  assert_int_equal(selected[0], 1);
  assert_int_equal(selected[1], 2);
  assert_int_equal(selected[2], 5);
  /* NaN counts as -infinity: last, but taken when nothing else is left. */
  assert_int_equal(sattn_reference_select(&query, mean, 6, 1, 4, 5, true, 23, score, selected), 5);
  assert_int_equal(selected[3], 4);
  assert_int_equal(sattn_reference_select(&query, mean, 6, 1, 4, 6, true, 23, score, selected), 6);
  /* Causal looks only before the own block, two-way on both sides. */
  assert_int_equal(sattn_reference_select(&query, mean, 6, 1, 4, 2, true, 3, score, selected), 1);
  assert_int_equal(selected[0], 0);
  assert_int_equal(sattn_reference_select(&query, mean, 6, 1, 4, 2, false, 3, score, selected), 2);
  assert_int_equal(selected[0], 0);
  assert_int_equal(selected[1], 1);
}

static void means_of_short_blocks(void **state) {
  (void)state;
  const double key[] = {1, 10, 3, 20, 5, 60};
  float mean[4];
  assert_int_equal(sattn_reference_block_count(3, 2), 2);
  sattn_reference_block_means(key, 3, 2, 2, mean);
  const float expected[] = {2, 15, 5, 60};
  assert_memory_equal(mean, expected, sizeof expected);
}

int main(void) {
  printf("seed %llu\n", (unsigned long long)test_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(worked_example),        cmocka_unit_test(slots_of_missing_tokens),
      cmocka_unit_test(random_problems),       cmocka_unit_test(selection_prefers_score_then_lowest_block),
      cmocka_unit_test(means_of_short_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
