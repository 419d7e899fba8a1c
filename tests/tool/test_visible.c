/* The count of visible pairs, against looking at every pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <visible.h>

#include <cmocka.h>

enum { N = 61 };

static uint32_t slot_of[N];

static bool in_window(const sattn_visibility *v, int64_t p, int64_t j) {
  return j - p <= v->right_swa && p - j <= v->left_swa;
}

static bool in_band(const sattn_visibility *v, int64_t p, int64_t j) {
  int64_t distance = (int64_t)slot_of[j] - (int64_t)slot_of[p];
  return distance <= v->right_sa && -distance <= v->left_sa;
}

static uint64_t count_by_looking(const sattn_visibility *v) {
  uint64_t pairs = 0;
  for (int64_t p = v->keys - v->queries; p < v->keys; p++)
    for (int64_t j = 0; j < v->keys; j++) {
      bool sink = j < v->sink_tokens, swa = in_window(v, p, j) || sink, sa = in_band(v, p, j) || sink;
      if (v->causal && j > p) continue;
      switch (v->mode) {
        case SATTN_FULL:
          pairs++;
          break;
        case SATTN_SLIDING_WINDOW:
          pairs += swa;
          break;
        case SATTN_STOCHASTIC:
          pairs += sa;
          break;
        case SATTN_UNION:
          pairs += swa || sa;
          break;
        default:
          pairs += (uint64_t)swa + sa;
      }
    }
  return pairs * (uint64_t)v->planes;
}

static void test_bands_and_windows(void **state) {
  static const int64_t sides[][2] = {{0, 0}, {5, 0}, {0, 7}, {4, 9}, {N, N}, {SATTN_UNBOUNDED, 2}, {SATTN_UNBOUNDED, SATTN_UNBOUNDED}};
  static const int64_t sinks[] = {0, 3, N + 5}, queries[] = {1, 17, N};
  uint32_t order[N];
  sattn_permutation_key key = {12, 0, 0, 0};
  assert_int_equal(sattn_permutation_draw(N, &key, order, slot_of, NULL), SATTN_OK);
  (void)state;
  for (int mode = SATTN_FULL; mode <= SATTN_GATED; mode++)
    for (int causal = 0; causal < 2; causal++)
      for (int s = 0; s < 3; s++)
        for (int q = 0; q < 3; q++)
          for (size_t a = 0; a < 7; a++)
            for (size_t b = 0; b < 7; b++) {
              sattn_report report = {0, ""};
              uint64_t found = 0;
              sattn_visibility v = {(sattn_mode)mode,
                                    causal,
                                    N,
                                    queries[q],
                                    sides[a][0],
                                    sides[a][1],
                                    sides[b][0],
                                    sides[b][1],
                                    mode == SATTN_FULL ? 0 : sinks[s],
                                    0,
                                    0,
                                    order,
                                    NULL,
                                    2};
              assert_true(sattn_visible_pairs(&v, &found, &report));
              if (found != count_by_looking(&v))
                fail_msg("mode %d causal %d sinks %d queries %d sides %zu %zu: %llu, not %llu", mode, causal, s, q, a, b,
                         (unsigned long long)found, (unsigned long long)count_by_looking(&v));
            }
}

/* Causal SA of width w sees exactly as many pairs as causal SWA of width w (contract, section 2). */
static void test_equal_budgets(void **state) {
  enum { LENGTH = 5000 };
  static uint32_t order[LENGTH];
  (void)state;
  for (int64_t w = 1; w <= 3000; w = 3 * w + 1) {
    sattn_permutation_key key = {(uint64_t)w, 1, 2, 3};
    sattn_report report = {0, ""};
    uint64_t sa = 0, swa = 0;
    assert_int_equal(sattn_permutation_draw(LENGTH, &key, order, NULL, NULL), SATTN_OK);
    sattn_visibility v = {SATTN_STOCHASTIC, true, LENGTH, LENGTH, w - 1, w - 1, w - 1, 0, 0, 0, 0, order, NULL, 1};
    assert_true(sattn_visible_pairs(&v, &sa, &report));
    v.mode = SATTN_SLIDING_WINDOW;
    assert_true(sattn_visible_pairs(&v, &swa, &report));
    assert_true(sa == swa);
  }
}

/* Blocks that a causal query selects are full but for its own; with every block selected it is full attention. */
static void test_blocks(void **state) {
  enum { BLOCK = 8, BLOCKS = 8, TOPK = 3 };
  static uint32_t selected[N][TOPK];
  sattn_report report = {0, ""};
  uint64_t closed = 0, listed = 0;
  (void)state;
  for (int64_t p = 0; p < N; p++)
    for (int t = 0; t < TOPK; t++) selected[p][t] = t <= p / BLOCK ? (uint32_t)(p / BLOCK - t) : UINT32_MAX;
  sattn_visibility v = {SATTN_MOBA, true, N, N, 0, 0, 0, 0, 0, BLOCK, TOPK, NULL, NULL, 1};
  assert_false(sattn_visible_needs_selected(&v));
  assert_true(sattn_visible_pairs(&v, &closed, &report));
  v.causal = false;
  assert_true(sattn_visible_needs_selected(&v));
  v.selected = &selected[0][0];
  uint64_t expected = 0;
  for (int64_t p = 0; p < N; p++)
    for (int t = 0; t < TOPK; t++)
      if (selected[p][t] != UINT32_MAX) expected += selected[p][t] == BLOCKS - 1 ? N - BLOCK * (BLOCKS - 1) : BLOCK;
  assert_true(sattn_visible_pairs(&v, &listed, &report));
  assert_true(listed == expected);
  /* Causal with sink tokens: blocks p/8, p/8-1, p/8-2, and tokens 0..4 where block 0 is not among them. */
  v.causal = true;
  v.sink_tokens = 5;
  expected = closed;
  for (int64_t p = 3 * BLOCK; p < N; p++) expected += 5;
  assert_true(sattn_visible_pairs(&v, &listed, &report));
  assert_true(listed == expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bands_and_windows), cmocka_unit_test(test_equal_budgets),
                                     cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
