/* Backward: contract section 6. */
#include <math.h>
#include <stdio.h>

#include "conformance.h"

static void plain(test_env *env) {
  /* Tuned kernels in both directions and in one half type; the general ones in the other. */
  const sattn_dtype half = test_case_dtype(env, 1);
  const sattn_dtype dtypes[4] = {SATTN_FP32, SATTN_FP32, half, half == SATTN_FP16 ? SATTN_BF16 : SATTN_FP16};
  for (int i = 0; i < 4; ++i) {
    test_call call;
    test_call_init(&call, env->mode, 2, 67, 67, 4, i == 1 ? 4 : 2, i == 3 ? 16 : 64);
    call.attention.dtype = dtypes[i];
    call.attention.causal = i != 1;
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    test_check_oracle(env, &call, i == 1 ? "two-way" : sattn_dtype_name(dtypes[i]));
  }
}

static void with_options(test_env *env) {
  static const int32_t lengths[2] = {60, 35};
  test_call call;
  test_call_init(&call, env->mode, 2, 50, 60, 4, 2, env->mode == SATTN_STOCHASTIC ? 64 : 16);
  call.attention.softcap = 3;
  call.attention.has_sink_logits = 1;
  call.attention.has_lengths = 1;
  call.lengths = lengths;
  if (env->mode != SATTN_FULL) call.attention.sink_tokens = 3;
  if (test_mode_uses_sa(env->mode)) call.attention.sharing = SATTN_PER_HEAD;
  call.attention.gate_sa_shape = env->mode == SATTN_GATED ? SATTN_GATE_PER_ELEMENT : SATTN_GATE_PER_HEAD;
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 1);
  test_check_oracle(env, &call, "options");
  if (!test_mode_uses_sa(env->mode)) return;
  call.attention.order_length = 90;
  test_check_oracle(env, &call, "order length");
  call.attention.wrap = 1;
  test_check_oracle(env, &call, "wrap");
}

static void shapes(test_env *env) {
  static const int64_t shapes_tried[][3] = {{1, 1, 16}, {1, 40, 64}, {17, 17, 59}, {64, 65, 128}, {33, 129, 64}, {5, 30, 16}};
  for (size_t i = 0; i < sizeof shapes_tried / sizeof shapes_tried[0]; ++i) {
    test_call call;
    char label[48];
    test_call_init(&call, env->mode, 1, shapes_tried[i][0], shapes_tried[i][1], 2, 1, shapes_tried[i][2]);
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    snprintf(label, sizeof label, "n_q %lld, n_k %lld, d %lld", (long long)shapes_tried[i][0], (long long)shapes_tried[i][1],
             (long long)shapes_tried[i][2]);
    test_check_oracle(env, &call, label);
  }
}

/* P-N1: one token: dV = dO, dQ = dK = 0, exactly. */
static void one_token(test_env *env) {
  test_call call;
  test_result result;
  test_difference difference;
  test_call_init(&call, env->mode, 1, 1, 1, 1, 1, 16);
  call.attention.dtype = SATTN_FP16;
  test_call_fill(&call, &env->random, 3.0);
  test_call_fill_gradients(&call, &env->random, 0);
  if (!test_call_ok(env, &call, "n = 1", &result)) return;
  float *zero = test_memory(16 * sizeof *zero);
  test_shape shape = test_output_shape(&call, TEST_GRAD_QUERY);
  if (test_compare_exact("dq", shape, zero, result.output[TEST_GRAD_QUERY], &difference)) test_fail(env->suite, "%s", difference.report);
  if (test_compare_exact("dk", shape, zero, result.output[TEST_GRAD_KEY], &difference)) test_fail(env->suite, "%s", difference.report);
  if (test_compare_exact("dv", shape, call.input[TEST_GRAD_OUT], result.output[TEST_GRAD_VALUE], &difference))
    test_fail(env->suite, "%s", difference.report);
}

/* One side without an end, the other with one: their sum is beyond 32 bits. */
static void one_side_unbounded(test_env *env) {
  for (int i = 0; i < 4; ++i) {
    test_call call;
    test_call_init(&call, env->mode, 1, i & 2 ? 1 : 25, 25, 1, 1, 64);
    call.attention.causal = 0;
    const sattn_window window = i & 1 ? sattn_window_sides(2, SATTN_UNBOUNDED) : sattn_window_sides(SATTN_UNBOUNDED, 2);
    if (env->mode != SATTN_STOCHASTIC) call.attention.window_swa = window;
    if (env->mode == SATTN_STOCHASTIC) call.attention.window_sa = window;
    if (env->mode == SATTN_UNION) call.attention.window_sa = sattn_window_width(1);
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    test_check_oracle(env, &call, i & 1 ? "right" : "left");
  }
}

/* MOBA's lists of queries by block: blocks that do and do not fill whole tiles, more places than blocks, heads that share keys, few heads
 * and so many that each is one work-item. */
static void blocks_by_query(test_env *env) {
  static const struct {
    int64_t batch, queries, keys;
    int32_t heads, kv_heads, block, topk, causal;
  } shapes_tried[] = {{1, 300, 300, 6, 2, 50, 3, 1}, {2, 131, 260, 2, 2, 16, 5, 1},  {1, 260, 260, 1, 1, 64, 2, 0},
                      {1, 70, 70, 2, 1, 16, 9, 0},   {1, 130, 130, 17, 17, 7, 4, 1}, {1, 200, 200, 3, 1, 128, 2, 1}};
  static const int32_t lengths[2] = {250, 140};
  for (size_t i = 0; i < sizeof shapes_tried / sizeof shapes_tried[0]; ++i) {
    test_call call;
    char label[32];
    test_call_init(&call, env->mode, shapes_tried[i].batch, shapes_tried[i].queries, shapes_tried[i].keys, shapes_tried[i].heads,
                   shapes_tried[i].kv_heads, 64);
    call.attention.block = shapes_tried[i].block;
    call.attention.topk = shapes_tried[i].topk;
    call.attention.causal = shapes_tried[i].causal;
    call.attention.has_lengths = shapes_tried[i].batch == 2;
    call.lengths = shapes_tried[i].batch == 2 ? lengths : NULL;
    call.attention.has_sink_logits = i & 1;
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    snprintf(label, sizeof label, "block %d, topk %d", (int)shapes_tried[i].block, (int)shapes_tried[i].topk);
    test_check_oracle(env, &call, label);
  }
}

/* Keys beyond the length, side by side with keys that every query sees, get exact zeros. */
static void missing_keys(test_env *env) {
  static const int32_t lengths[2] = {65, 37};
  for (int i = 0; i < 4; ++i) {
    test_call call;
    test_result result;
    test_call_init(&call, env->mode, 2, 82, 82, 2, 1, i & 1 ? 80 : 64);
    call.attention.dtype = i & 1 ? SATTN_FP16 : test_case_dtype(env, 1);
    call.attention.causal = 0;
    const sattn_window window = sattn_window_width(i & 2 ? 200 : 63);
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = window;
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = window;
    call.attention.has_lengths = 1;
    call.lengths = lengths;
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    if (!test_call_ok(env, &call, "missing keys", &result)) return;
    test_check_result(env, &call, i & 2 ? "everything in the window" : "a window", &result);
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t x = lengths[b] * call.attention.head_dim; x < 82 * call.attention.head_dim; ++x) {
        int64_t at = b * 82 * call.attention.head_dim + x;
        if (result.output[TEST_GRAD_KEY][at] == 0 && result.output[TEST_GRAD_VALUE][at] == 0) continue;
        test_fail(env->suite, "batch entry %d: key %d beyond the length has a gradient", (int)b, (int)(x / call.attention.head_dim));
        return;
      }
    }
  }
}

/* P-M3: keys that no query sees get exact zeros. */
static void unseen_keys(test_env *env) {
  test_call call;
  test_result result;
  static const int32_t start[1] = {0};
  test_call_init(&call, env->mode, 1, 20, 129, 2, 1, 64);
  call.attention.has_query_start = 1;
  call.query_start = start;
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 0);
  if (!test_call_ok(env, &call, "unseen", &result)) return;
  test_check_result(env, &call, "unseen", &result);
  for (int64_t at = 20 * 64; at < 129 * 64; ++at) {
    if (result.output[TEST_GRAD_KEY][at] == 0 && result.output[TEST_GRAD_VALUE][at] == 0) continue;
    test_fail(env->suite, "key %lld got a gradient", (long long)(at / 64));
    return;
  }
}

/* No queries: dK, dV and dsink_logits are zeros, and written. */
static void no_queries(test_env *env) {
  test_call call;
  test_call_init(&call, env->mode, 2, 0, 9, 2, 1, 64);
  call.attention.has_sink_logits = 1;
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 0);
  test_check_oracle(env, &call, "n_q = 0");
}

/* P-D1. */
static void same_bits(test_env *env) {
  test_call call;
  test_result first;
  test_result again;
  test_call_init(&call, env->mode, 1, 140, 140, 4, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 0);
  if (!test_call_ok(env, &call, "first", &first)) return;
  for (int i = 0; i < 4; ++i) {
    if (test_call_ok(env, &call, "again", &again)) test_check_same(env, &call, "again", &first, &again);
  }
}

static void layouts(test_env *env) {
  static const test_layout kinds[] = {TEST_BHND, TEST_GAPS, TEST_QKV};
  for (size_t i = 0; i < 3; ++i) {
    test_call call;
    test_call_init(&call, env->mode, 2, 37, 37, 4, 2, 64);
    call.layout[0] = call.layout[1] = call.layout[2] = kinds[i];
    call.offset = (int64_t)i * 3;
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 1);
    test_check_oracle(env, &call, "layout");
  }
}

/* P-N5. */
static void large_scores(test_env *env) {
  test_call call;
  test_call_init(&call, env->mode, 1, 60, 60, 2, 1, 64);
  test_call_fill(&call, &env->random, 10.0);
  test_call_fill_gradients(&call, &env->random, 0);
  test_check_oracle(env, &call, "spread 10");
}

/* P-N6: NaN in a dO row does not reach keys that it does not see, nor other rows' dQ. */
static void garbage_rows(test_env *env) {
  test_call call;
  test_call_init(&call, env->mode, 1, 60, 60, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 0);
  float *grad_out = test_call_edit(&call, TEST_GRAD_OUT);
  for (int64_t at = 40 * 128; at < 41 * 128; ++at) grad_out[at] = (float)NAN;
  test_result result;
  if (!test_call_ok(env, &call, "NaN in dO row 40", &result)) return;
  unsigned char seen[60];
  unsigned char seen_too[60];
  for (int64_t h = 0; h < 2; ++h) {
    test_oracle_visible(&call, SATTN_BAND_SA, 0, h, 40, seen);
    test_oracle_visible(&call, SATTN_BAND_SWA, 0, h, 40, seen_too);
    for (int64_t j = 0; j < 60; ++j) {
      int64_t at = (j * 2 + h) * 64;
      if (j != 40 && isnan(result.output[TEST_GRAD_QUERY][at])) test_fail(env->suite, "dq of query %lld is NaN", (long long)j);
      if (!seen[j] && !seen_too[j] && isnan(result.output[TEST_GRAD_VALUE][at]))
        test_fail(env->suite, "dv of key %lld is NaN, though query 40 does not see it", (long long)j);
    }
  }
}

/* ---- what is saved must fit ---- */

static void expect_mismatch(test_env *env, test_run *run, const char *label) {
  sattn_error error;
  sattn_queue queue = {NULL};
  sattn_status status = sattn_backward(run->plan, &run->backward, queue, NULL, 0, NULL, &error);
  test_check_refusal(env, label, status, SATTN_MISMATCH, &error, "");
}

/* P-D8: another plan, another permutation, a redrawn one, other sizes: refused. */
static void mismatches(test_env *env) {
  test_call call;
  test_run run;
  test_run other;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_call_init(&call, env->mode, 1, 20, 20, 1, 1, 16);
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 0);
  if (test_run_open(env->context, &call, NULL, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  expect_mismatch(env, &run, "before any forward call");
  if (test_run_open(env->context, &call, NULL, &other, &error)) {
    test_fail(env->suite, "%s", error.message);
    test_run_close(&run);
    return;
  }
  if (test_run_send(&run, &error) || sattn_forward(run.plan, &run.forward, queue, NULL, 0, NULL, &error))
    test_fail(env->suite, "forward: %s", error.message);
  sattn_saved kept = run.saved;
  run.saved.plan_id = other.saved.plan_id + 12345;
  expect_mismatch(env, &run, "another plan");
  run.saved = kept;
  run.saved.sizes.queries = 21;
  expect_mismatch(env, &run, "sizes that no such call had");
  run.saved = kept;
  if (test_mode_uses_sa(env->mode)) {
    run.saved.permutation_hash ^= 1;
    expect_mismatch(env, &run, "another hash");
    run.saved = kept;
    sattn_permutation_key key = call.key;
    key.step = 5;
    sattn_queue_finish(env->context, queue, &error);
    if (sattn_permutation_redraw(run.permutation, &key, &error)) test_fail(env->suite, "%s", error.message);
    expect_mismatch(env, &run, "a redrawn permutation");
  }
  sattn_queue_finish(env->context, queue, &error);
  test_run_close(&other);
  test_run_close(&run);
}

/* The slope of the softcap keeps its digits where all scores are far beyond the cap, and where the cap is small beside LSE. Scores are
 * exact in fp32: Q is a unit vector, K a multiple of it. */
static void softcap_slopes(test_env *env) {
  static const double caps[] = {0x1p-10, 3.0, 0x1p-3};
  for (int i = 0; i < 3; ++i) {
    test_call call;
    char label[48];
    test_call_init(&call, env->mode, 1, 70, 70, 1, 1, 64);
    call.attention.softcap = caps[i];
    call.attention.scale = 1;
    if (env->mode == SATTN_MOBA) call.attention.topk = 70;
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    float *query = test_call_edit(&call, TEST_QUERY), *key = test_call_edit(&call, TEST_KEY);
    for (int64_t j = 0; j < 70; ++j) {
      const double beyond = i == 0 ? (double)(j * 7 % 17) / 4 : 6 + (double)(j * 7 % 9) / 4;
      for (int64_t c = 0; c < 64; ++c) query[j * 64 + c] = key[j * 64 + c] = 0;
      query[j * 64] = 1;
      key[j * 64] = (float)(beyond * caps[i]) * (j % 2 ? 1.0f : -1.0f);
    }
    snprintf(label, sizeof label, "softcap %g", caps[i]);
    test_check_oracle(env, &call, label);
  }
}

void cases_gradients(test_suite *suite) {
  test_case_modes(suite, "gradients", MODES_ALL, plain);
  test_case_modes(suite, "gradients-with-options", MODES_ALL, with_options);
  test_case_modes(suite, "gradients-shapes", MODES_ALL, shapes);
  test_case_modes(suite, "gradients-one-token", MODES_ALL & ~MODE(SATTN_GATED), one_token);
  test_case_modes(suite, "gradients-one-side", MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC) | MODE(SATTN_UNION), one_side_unbounded);
  test_case_modes(suite, "gradients-blocks", MODE(SATTN_MOBA), blocks_by_query);
  test_case_modes(suite, "gradients-missing-keys", MODES_ALL, missing_keys);
  test_case_modes(suite, "gradients-unseen-keys", MODES_ALL & ~MODE(SATTN_MOBA), unseen_keys);
  test_case_modes(suite, "gradients-no-queries", MODES_ALL, no_queries);
  test_case_modes(suite, "gradients-same-bits", MODES_ALL, same_bits);
  test_case_modes(suite, "gradients-layouts", MODES_ALL, layouts);
  test_case_modes(suite, "gradients-large-scores", MODES_ALL, large_scores);
  test_case_modes(suite, "gradients-garbage-rows", MODES_ALL, garbage_rows);
  test_case_modes(suite, "gradients-mismatches", MODES_ALL, mismatches);
  test_case_modes(suite, "gradients-softcap-slopes", MODES_ALL, softcap_slopes);
}
