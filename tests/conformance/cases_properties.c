/* Properties of contract section 2, and exact data. */
#include <math.h>

#include "conformance.h"

/* Results of two calls that the contract calls equal: each within its own tolerance of the same truth. */
static void check_equal(test_env *env, const test_call *a, const test_call *b, const char *label) {
  test_result of_a;
  test_result of_b;
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_difference difference;
  if (!test_call_ok(env, a, label, &of_a) || !test_call_ok(env, b, label, &of_b)) return;
  test_oracle(a, TEST_EXACT, &exact);
  test_oracle_tolerances(a, &exact, tolerance);
  if (test_compare(label, test_output_shape(a, TEST_OUT), exact.output[TEST_OUT], of_a.output[TEST_OUT], tolerance[TEST_OUT],
                   &difference) ||
      test_compare(label, test_output_shape(a, TEST_OUT), exact.output[TEST_OUT], of_b.output[TEST_OUT], tolerance[TEST_OUT], &difference))
    test_fail(env->suite, "%s", difference.report);
}

static void share_inputs(const test_call *from, test_call *to) {
  for (int i = TEST_QUERY; i <= TEST_VALUE; ++i) to->input[i] = from->input[i];
}

/* P-S7: the identity order, and the reversed one, are causal SWA of the same width. */
static void identity_order(test_env *env) {
  static const int64_t sizes[] = {1, 7, 64, 129};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
    test_call sa;
    test_call swa;
    int64_t n = sizes[s];
    int64_t width = n < 9 ? n : 9;
    uint32_t *order = test_memory((size_t)n * sizeof *order);
    test_call_init(&sa, SATTN_STOCHASTIC, 1, n, n, 2, 2, 16);
    test_call_init(&swa, SATTN_SLIDING_WINDOW, 1, n, n, 2, 2, 16);
    sa.attention.window_sa = sattn_window_width(width);
    swa.attention.window_swa = sattn_window_width(width);
    test_call_fill(&sa, &env->random, 1.0);
    share_inputs(&sa, &swa);
    sa.order = order;
    for (int64_t i = 0; i < n; ++i) order[i] = (uint32_t)i;
    check_equal(env, &sa, &swa, "identity");
    for (int64_t i = 0; i < n; ++i) order[i] = (uint32_t)(n - 1 - i);
    check_equal(env, &sa, &swa, "reversed");
  }
}

/* w >= n is FULL: causal; not causal from 2n-1; with wrap from n. */
static void wide_window_is_full(test_env *env) {
  const int64_t n = 45;
  const int64_t widths[3] = {n, 2 * n - 1, n};
  for (int kind = 0; kind < 3; ++kind) {
    test_call wide;
    test_call full;
    if (kind == 2 && !test_mode_uses_sa(env->mode)) continue;
    test_call_init(&wide, env->mode, 1, n, n, 2, 1, 40);
    test_call_init(&full, SATTN_FULL, 1, n, n, 2, 1, 40);
    wide.attention.causal = full.attention.causal = kind == 0;
    wide.attention.wrap = kind == 2;
    if (test_mode_uses_sa(env->mode)) wide.attention.window_sa = sattn_window_width(widths[kind]);
    if (test_mode_uses_swa(env->mode)) wide.attention.window_swa = sattn_window_width(kind == 2 ? 2 * n - 1 : widths[kind]);
    test_call_fill(&wide, &env->random, 1.0);
    share_inputs(&wide, &full);
    if (env->mode == SATTN_GATED) {
      /* sigmoid(0) + sigmoid(0) = 1 */
      memset(test_call_edit(&wide, TEST_GATE_SA), 0, (size_t)n * 2 * sizeof(float));
      memset(test_call_edit(&wide, TEST_GATE_SWA), 0, (size_t)n * 2 * sizeof(float));
    }
    check_equal(env, &wide, &full, kind == 0 ? "causal" : kind == 1 ? "two-way" : "wrap");
  }
}

static void many_blocks_are_full(test_env *env) {
  test_call moba;
  test_call full;
  for (int causal = 0; causal <= 1; ++causal) {
    test_call_init(&moba, SATTN_MOBA, 1, 45, 45, 2, 1, 40);
    test_call_init(&full, SATTN_FULL, 1, 45, 45, 2, 1, 40);
    moba.attention.causal = full.attention.causal = causal;
    moba.attention.topk = 6;
    test_call_fill(&moba, &env->random, 1.0);
    share_inputs(&moba, &full);
    check_equal(env, &moba, &full, "topk = blocks");
  }
}

/* w = 1 gives O = V, to the bit. */
static void width_one_copies(test_env *env) {
  for (int other = 0; other <= 1; ++other) {
    test_call call;
    test_result result;
    sattn_dtype dtype = test_case_dtype(env, other);
    test_call_init(&call, env->mode, 2, 21, 21, 2, 1, 64);
    call.attention.dtype = dtype;
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(1);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(1);
    test_call_fill(&call, &env->random, 1.0);
    if (!test_call_ok(env, &call, sattn_dtype_name(dtype), &result)) continue;
    for (int64_t row = 0; row < 2 * 21 * 2; ++row) {
      if (memcmp(call.input[TEST_VALUE] + row / 2 * 64, result.output[TEST_OUT] + row * 64, 64 * sizeof(float)) != 0)
        test_fail(env->suite, "%s: row %lld is not the value row", sattn_dtype_name(dtype), (long long)row);
    }
  }
}

/* V = ones gives ones: probabilities sum to one. */
static void ones(test_env *env) {
  test_call call;
  test_result result;
  test_call_init(&call, env->mode, 1, 70, 70, 2, 2, 16);
  test_call_fill(&call, &env->random, 2.0);
  float *v = test_call_edit(&call, TEST_VALUE);
  size_t count = test_shape_count(test_input_shape(&call, TEST_VALUE));
  for (size_t i = 0; i < count; ++i) v[i] = 1;
  if (env->mode == SATTN_GATED) {
    memset(test_call_edit(&call, TEST_GATE_SA), 0, 70 * 2 * sizeof(float));
    memset(test_call_edit(&call, TEST_GATE_SWA), 0, 70 * 2 * sizeof(float));
  }
  if (!test_call_ok(env, &call, "ones", &result)) return;
  for (size_t i = 0; i < count; ++i) {
    if (fabs((double)result.output[TEST_OUT][i] - 1) <= 1e-6) continue;
    test_fail(env->suite, "element %zu is %.9g", i, (double)result.output[TEST_OUT][i]);
    return;
  }
}

/* Small integers, Q = 0, rows that see 1, 2, 4, 8 keys: sums and quotients are exact, so the result is, too. (UNION may join two passes by
 * their LSE, which is exact in no base, so it is allowed its few units in the last place.) */
static void exact_integers(test_env *env) {
  test_call call;
  test_result result;
  test_oracle_result exact;
  unsigned char seen[50];
  test_call_init(&call, env->mode, 1, 50, 50, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  memset(test_call_edit(&call, TEST_QUERY), 0, 50 * 2 * 64 * sizeof(float));
  float *v = test_call_edit(&call, TEST_VALUE);
  for (int64_t i = 0; i < 50 * 2 * 64; ++i) v[i] = (float)(test_random_below(&env->random, 17) - 8);
  if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(8);
  if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(8);
  if (!test_call_ok(env, &call, "integers", &result)) return;
  test_oracle(&call, TEST_EXACT, &exact);
  double tolerance = env->mode == SATTN_UNION ? 2e-6 * 8 : 0;
  for (int64_t i = 0; i < 50; ++i) {
    int64_t count = test_oracle_visible(&call, SATTN_BAND_SA, 0, 0, i, seen);
    if (count & (count - 1)) continue;
    for (int64_t c = 0; c < 64; ++c) {
      size_t at = (size_t)(i * 2 * 64 + c);
      if (!(fabs((double)result.output[TEST_OUT][at] - exact.output[TEST_OUT][at]) <= tolerance))
        test_fail(env->suite, "query %lld of %lld visible keys: %.9g, not %.9g", (long long)i, (long long)count,
                  (double)result.output[TEST_OUT][at], exact.output[TEST_OUT][at]);
    }
  }
}

/* With order_length the visible sets never change as the sequence grows: one shot, chunks and single tokens agree. P-F6. */
static void growing_sequence(test_env *env) {
  const int64_t n = 40;
  test_call all;
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_call_init(&all, env->mode, 1, n, n, 1, 1, 16);
  if (test_mode_uses_sa(env->mode)) all.attention.order_length = 64;
  test_call_fill(&all, &env->random, 1.0);
  test_oracle(&all, TEST_EXACT, &exact);
  test_oracle_tolerances(&all, &exact, tolerance);
  for (int64_t seen = 1; seen <= n; seen += 13) {
    for (int64_t queries = 1; queries <= 5 && queries <= seen; queries += 4) {
      test_call part = all;
      test_result result;
      test_difference difference;
      part.sizes = (sattn_sizes){1, queries, seen};
      part.maxima = all.sizes;
      part.input[TEST_QUERY] = all.input[TEST_QUERY] + (seen - queries) * 16;
      if (env->mode == SATTN_GATED) {
        part.input[TEST_GATE_SA] = all.input[TEST_GATE_SA] + seen - queries;
        part.input[TEST_GATE_SWA] = all.input[TEST_GATE_SWA] + seen - queries;
      }
      if (!test_call_ok(env, &part, "part", &result)) return;
      if (test_compare("out", test_output_shape(&part, TEST_OUT), exact.output[TEST_OUT] + (seen - queries) * 16, result.output[TEST_OUT],
                       tolerance[TEST_OUT], &difference))
        test_fail(env->suite, "%lld queries at %lld tokens: %s", (long long)queries, (long long)seen, difference.report);
    }
  }
}

void cases_properties(test_suite *suite) {
  test_case_run(suite, "identity-order", identity_order);
  test_case_modes(suite, "wide-window-is-full", MODES_WINDOW, wide_window_is_full);
  test_case_run(suite, "many-blocks-are-full", many_blocks_are_full);
  test_case_modes(suite, "width-one-copies", MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC) | MODE(SATTN_UNION), width_one_copies);
  test_case_modes(suite, "ones", MODES_ALL, ones);
  test_case_modes(suite, "exact-integers", MODES_ALL & ~MODE(SATTN_GATED), exact_integers);
  test_case_modes(suite, "growing-sequence", MODES_ALL, growing_sequence);
}
