/* Which keys are seen: sets read off the output exactly, worked examples, field faults P-S1 to P-S10. */
#include <math.h>
#include <stdio.h>

#include "conformance.h"

/* P-S8: every mode shows its sets; in both directions. The number of tokens is the head size: 40 is one for the general kernels, 64 one
 * for the tuned ones of either type. */
static void sets(test_env *env) {
  for (int kind = 0; kind < 6; ++kind) {
    test_call call;
    const int causal = kind % 2;
    test_probe_sets(&call, env->mode, 2, kind < 2 ? 40 : 64);
    call.attention.dtype = test_case_dtype(env, kind >= 4);
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(7);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(7);
    call.attention.causal = causal;
    test_check_sets(env, &call, causal ? "causal" : "two-way");
  }
}

static void sets_with_options(test_env *env) {
  test_call call;
  test_probe_sets(&call, env->mode, 2, 40);
  call.attention.sink_tokens = 3;
  test_check_sets(env, &call, "sink tokens");
  if (!test_mode_uses_sa(env->mode)) return;
  call.attention.wrap = 1;
  test_check_sets(env, &call, "sink tokens and wrap");
  call.attention.sink_tokens = 0;
  call.attention.order_length = 80;
  test_check_sets(env, &call, "wrap and order length");
  call.attention.wrap = 0;
  test_check_sets(env, &call, "order length");
  call.attention.order_length = 0;
  call.attention.sharing = SATTN_PER_HEAD;
  test_check_sets(env, &call, "an order for every head");
}

/* GATED the other way round: the SWA branch open. */
static void gated_other_branch_of(test_env *env, int64_t n) {
  test_call call;
  test_result result;
  unsigned char *seen = test_memory((size_t)n);
  test_probe_sets(&call, SATTN_GATED, 1, n);
  const float *kept = call.input[TEST_GATE_SA];
  call.input[TEST_GATE_SA] = call.input[TEST_GATE_SWA];
  call.input[TEST_GATE_SWA] = kept;
  if (!test_call_ok(env, &call, "swa open", &result)) return;
  for (int64_t i = 0; i < n; ++i) {
    test_oracle_visible(&call, SATTN_BAND_SWA, 0, 0, i, seen);
    for (int64_t j = 0; j < n; ++j) {
      if ((result.output[TEST_OUT][i * n + j] != 0) != seen[j])
        test_fail(env->suite, "query %lld and key %lld", (long long)i, (long long)j);
    }
  }
}

/* General kernels and tuned ones, as in `sets`. */
static void gated_other_branch(test_env *env) {
  gated_other_branch_of(env, 40);
  gated_other_branch_of(env, 64);
}

/* ---- means: Q = 0, V[j] = j ---- */

static void mean_probe(test_call *call, sattn_mode mode, int64_t queries, int64_t n) {
  test_call_init(call, mode, 1, queries, n, 1, 1, 8);
  test_call_edit(call, TEST_QUERY);
  test_call_edit(call, TEST_KEY);
  float *v = test_call_edit(call, TEST_VALUE);
  for (int64_t j = 0; j < n * 8; ++j) v[j] = (float)(j / 8);
}

static void check_means(test_env *env, const test_call *call, const char *label, const double *means) {
  test_result result;
  if (!test_call_ok(env, call, label, &result)) return;
  for (int64_t i = 0; i < call->sizes.queries; ++i) {
    double got = (double)result.output[TEST_OUT][i * 8];
    if (!(fabs(got - means[i]) <= 1e-4))
      test_fail(env->suite, "%s: query %lld sees mean %.6g, not %.6g", label, (long long)i, got, means[i]);
  }
}

/* P-S1: w counts the token itself. */
static void window_counts_itself(test_env *env) {
  test_call call;
  mean_probe(&call, SATTN_SLIDING_WINDOW, 6, 6);
  call.attention.window_swa = sattn_window_width(3);
  check_means(env, &call, "w = 3", (const double[]){0, 0.5, 1, 2, 3, 4});
}

/* P-S6, contract section 2: the order that is not its own inverse. */
static void worked_example(test_env *env) {
  static const uint32_t order[6] = {3, 0, 5, 1, 4, 2};
  test_call call;
  mean_probe(&call, SATTN_STOCHASTIC, 6, 6);
  call.attention.window_sa = sattn_window_width(3);
  call.order = order;
  check_means(env, &call, "causal", (const double[]){0, 0.5, 1.5, 1.5, 7.0 / 3, 13.0 / 5});
  call.attention.causal = 0;
  check_means(env, &call, "two-way", (const double[]){8.0 / 3, 10.0 / 3, 3, 1.5, 7.0 / 3, 2});
  call.attention.causal = 1;
  call.attention.window_sa = sattn_window_sides(2, 0);
  check_means(env, &call, "one side", (const double[]){0, 0.5, 1.5, 3, 2.5, 8.0 / 3});
}

/* P-S4: the last query stands on the last key, unless query_start says otherwise. */
static void alignment(test_env *env) {
  static const int32_t start[1] = {1};
  test_call call;
  mean_probe(&call, SATTN_FULL, 2, 5);
  check_means(env, &call, "bottom right", (const double[]){1.5, 2});
  call.query_start = start;
  call.attention.has_query_start = 1;
  check_means(env, &call, "query_start 1", (const double[]){0.5, 1});
}

/* P-S9, P-S10. */
static void moba_blocks(test_env *env) {
  const float strength[8] = {5, 5, 1, 1, 3, 3, 2, 2};
  test_call call;
  test_probe_sets(&call, SATTN_MOBA, 1, 8);
  call.attention.block = 2;
  call.attention.topk = 1;
  test_check_sets(env, &call, "topk 1");
  call.attention.topk = 100;
  test_check_sets(env, &call, "topk 100");
  float *q = test_call_edit(&call, TEST_QUERY);
  float *k = test_call_edit(&call, TEST_KEY);
  for (int i = 0; i < 8; ++i) {
    q[i * 8] = 1;
    k[i * 8] = strength[i];
  }
  call.attention.scale = 1;
  for (call.attention.topk = 1; call.attention.topk <= 4; ++call.attention.topk) test_check_oracle(env, &call, "strengths");
}

/* P-D10: equal scores go to the lowest block, every time. */
static void moba_ties(test_env *env) {
  test_call call;
  test_probe_sets(&call, SATTN_MOBA, 1, 64);
  call.attention.block = 8;
  call.attention.topk = 3;
  float *q = test_call_edit(&call, TEST_QUERY);
  float *k = test_call_edit(&call, TEST_KEY);
  for (int64_t i = 0; i < 64; ++i) {
    q[i * 64] = 1;
    k[i * 64] = 2;
  }
  for (int again = 0; again < 3; ++again) test_check_sets(env, &call, "all keys equal");
  call.attention.causal = 0;
  test_check_sets(env, &call, "two-way");
}

/* Scores of small integers, most of them several times: which block pushes out which matters at every place. A tiny scale leaves all keys
 * of the selection with one weight. */
static void moba_many_ties(test_env *env) {
  static const int64_t blocks[] = {1, 2, 4, 8};
  for (int i = 0; i < 16; ++i) {
    test_call call;
    char label[48];
    test_probe_sets(&call, SATTN_MOBA, 2, 64);
    call.attention.causal = i % 2;
    call.attention.block = blocks[i / 2 % 4];
    call.attention.topk = 2 + test_random_below(&env->random, i < 8 ? 3 : 13);
    call.attention.scale = 1e-30;
    float *q = test_call_edit(&call, TEST_QUERY);
    float *k = test_call_edit(&call, TEST_KEY);
    for (int64_t at = 0; at < 64 * 2 * 64; ++at) {
      q[at] = test_random_below(&env->random, 4) ? 0.0f : (float)test_random_below(&env->random, 3) - 1;
      k[at] = test_random_below(&env->random, 2) ? 0.0f : (float)test_random_below(&env->random, 3) - 1;
    }
    snprintf(label, sizeof label, "block %d, topk %d, %s", (int)call.attention.block, (int)call.attention.topk,
             call.attention.causal ? "causal" : "two-way");
    test_check_sets(env, &call, label);
  }
}

/* A block with a NaN scores -infinity: it comes after all others, and the queries that chose others never meet it. */
static void moba_nan_scores(test_env *env) {
  for (int bad = 0; bad < 3; ++bad) {
    test_call call;
    test_call_init(&call, SATTN_MOBA, 1, 16, 64, 1, 1, 64);
    call.attention.block = 8;
    call.attention.topk = 3;
    test_call_fill(&call, &env->random, 1.0);
    float *q = test_call_edit(&call, TEST_QUERY);
    float *k = test_call_edit(&call, TEST_KEY);
    for (int64_t i = 0; i < 16 * 64; ++i) q[i] = i % 64 == 0;
    for (int64_t i = 0; i < 64 * 64; ++i) k[i] = i % 64 == 0 ? 2 : 0;
    k[(bad * 8 + 3) * 64] = (float)NAN;
    test_check_oracle(env, &call, "equal blocks but one");
  }
}

/* P-S2: a window as long as the sequence keeps causality. */
static void long_windows(test_env *env) {
  static const int64_t widths[] = {7, 8, 9, 1000, INT32_MAX, INT64_MAX / 2};
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; ++i) {
    test_call call;
    char label[48];
    test_probe_sets(&call, env->mode, 1, 8);
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(widths[i]);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(widths[i]);
    snprintf(label, sizeof label, "w = %lld", (long long)widths[i]);
    test_check_sets(env, &call, label);
  }
}

static void unbounded_sides(test_env *env) {
  const int64_t sides[4][2] = {{0, SATTN_UNBOUNDED}, {SATTN_UNBOUNDED, 0}, {SATTN_UNBOUNDED, SATTN_UNBOUNDED}, {0, 0}};
  for (int i = 0; i < 8; ++i) {
    test_call call;
    sattn_window window = sattn_window_sides(sides[i / 2][0], sides[i / 2][1]);
    test_probe_sets(&call, env->mode, 1, 40);
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = window;
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = window;
    call.attention.causal = i % 2;
    test_check_sets(env, &call, "sides");
  }
}

/* A circular window that nearly meets itself: lists with the keys of both ends once more have tokens twice within a block. */
static void wrap_short(test_env *env) {
  for (int i = 0; i < 8; ++i) {
    test_call call;
    const int64_t n = i & 4 ? 50 : 32;
    test_call_init(&call, env->mode, 2, n, n, 2, 1, 64);
    call.attention.window_sa = sattn_window_sides(4, 19);
    call.attention.wrap = 1;
    call.attention.causal = i & 1;
    call.attention.dtype = i & 2 ? SATTN_FP16 : SATTN_FP32;
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(env, &call, call.attention.causal ? "causal" : "two-way");
  }
}

void cases_visible(test_suite *suite) {
  test_case_modes(suite, "sets", MODES_ALL, sets);
  test_case_modes(suite, "sets-with-options", MODES_ALL & ~MODE(SATTN_FULL), sets_with_options);
  test_case_run(suite, "gated-other-branch", gated_other_branch);
  test_case_run(suite, "window-counts-itself", window_counts_itself);
  test_case_run(suite, "worked-example", worked_example);
  test_case_run(suite, "alignment", alignment);
  test_case_run(suite, "moba-blocks", moba_blocks);
  test_case_run(suite, "moba-ties", moba_ties);
  test_case_run(suite, "moba-many-ties", moba_many_ties);
  test_case_run(suite, "moba-nan-scores", moba_nan_scores);
  test_case_modes(suite, "wrap-short", MODE(SATTN_STOCHASTIC) | MODE(SATTN_UNION) | MODE(SATTN_GATED), wrap_short);
  test_case_modes(suite, "long-windows", MODES_WINDOW, long_windows);
  test_case_modes(suite, "unbounded-sides", MODES_WINDOW, unbounded_sides);
}
