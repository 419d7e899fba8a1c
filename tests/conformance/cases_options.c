/* Everything at once: descriptions drawn at random, all options mixed, against the oracle. */
#include <stdio.h>

#include "conformance.h"

static int64_t pick(test_env *env, const int64_t *values, int64_t count) {
  return values[test_random_below(&env->random, count)];
}
static int coin(test_env *env) {
  return (int)test_random_below(&env->random, 2);
}

static sattn_window draw_window(test_env *env, int64_t keys) {
  if (coin(env)) return sattn_window_width(1 + test_random_below(&env->random, keys));
  int64_t left = coin(env) ? test_random_below(&env->random, keys) : pick(env, (const int64_t[]){0, SATTN_UNBOUNDED}, 2);
  int64_t right = coin(env) ? test_random_below(&env->random, keys) : pick(env, (const int64_t[]){0, SATTN_UNBOUNDED}, 2);
  return sattn_window_sides(left, right);
}

static void draw_arrays(test_env *env, test_call *call) {
  sattn_attention *a = &call->attention;
  size_t batch = (size_t)call->sizes.batch;
  if (coin(env)) {
    int32_t *lengths = test_memory(batch * sizeof *lengths);
    for (size_t b = 0; b < batch; ++b) lengths[b] = (int32_t)test_random_below(&env->random, call->sizes.keys + 1);
    call->lengths = lengths;
    a->has_lengths = 1;
  }
  if (coin(env)) {
    int32_t *start = test_memory(batch * sizeof *start);
    for (size_t b = 0; b < batch; ++b) start[b] = (int32_t)test_random_below(&env->random, call->sizes.keys - call->sizes.queries + 1);
    call->query_start = start;
    a->has_query_start = 1;
  }
}

static void draw_description(test_env *env, test_call *call) {
  static const int64_t head_dims[] = {16, 16, 64};
  static const int64_t heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {3, 1}};
  int64_t keys = 1 + test_random_below(&env->random, 90);
  int64_t queries = coin(env) ? keys : 1 + test_random_below(&env->random, keys);
  int64_t head_dim = pick(env, head_dims, 3);
  /* Tuned kernels are compiled for each combination of some options, in seconds: keep to a few of them. */
  int general = head_dim == 16;
  const int64_t *group = heads[test_random_below(&env->random, general ? 4 : 2)];
  test_call_init(call, env->mode, 1 + test_random_below(&env->random, 3), queries, keys, group[0], group[1], head_dim);
  sattn_attention *a = &call->attention;
  a->causal = coin(env);
  a->softcap = coin(env) && general ? 3.0 : 0;
  if (general) a->dtype = (sattn_dtype)(SATTN_FP32 + test_random_below(&env->random, 3));
  a->scale = coin(env) ? 0 : 0.2;
  a->has_sink_logits = coin(env);
  if (env->mode != SATTN_FULL && coin(env)) a->sink_tokens = test_random_below(&env->random, 9);
  if (test_mode_uses_swa(env->mode)) a->window_swa = draw_window(env, keys);
  if (env->mode == SATTN_MOBA) {
    a->block = 3 + test_random_below(&env->random, 14);
    a->topk = 1 + test_random_below(&env->random, 3);
  }
  if (env->mode == SATTN_GATED) {
    a->gate_sa_shape = coin(env) ? SATTN_GATE_PER_ELEMENT : SATTN_GATE_PER_HEAD;
    a->gate_swa_shape = coin(env) ? SATTN_GATE_PER_ELEMENT : SATTN_GATE_PER_HEAD;
  }
  if (!test_mode_uses_sa(env->mode)) return;
  a->window_sa = draw_window(env, keys);
  a->wrap = coin(env);
  a->sharing = (sattn_sharing)test_random_below(&env->random, 4);
  if (coin(env)) a->order_length = keys + test_random_below(&env->random, 40);
  call->key.seed = test_random_next(&env->random);
}

static void mixed(test_env *env) {
  for (int round = 0; round < 16; ++round) {
    test_call call;
    char label[32];
    draw_description(env, &call);
    draw_arrays(env, &call);
    if (env->mode == SATTN_GATED && coin(env)) call.attention.gate_dtype = call.attention.dtype;
    if (coin(env)) call.layout[0] = call.layout[1] = call.layout[2] = TEST_BHND;
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "round %d", round);
    test_check_oracle(env, &call, label);
    test_memory_release();
  }
}

/* The caller's own orders, one for every batch and key head. */
static void explicit_orders(test_env *env) {
  for (int sharing = SATTN_SHARED; sharing <= SATTN_PER_BATCH_AND_HEAD; ++sharing) {
    test_call call;
    const int64_t n = 41;
    uint32_t *orders = test_memory((size_t)(6 * n) * sizeof *orders);
    for (int64_t i = 0; i < 6; ++i) memcpy(orders + i * n, test_random_order(&env->random, n), (size_t)n * sizeof *orders);
    test_call_init(&call, env->mode, 3, n, n, 4, 2, 64);
    call.attention.sharing = (sattn_sharing)sharing;
    call.order = orders;
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(env, &call, "orders");
  }
}

/* Device arrays are clamped by kernels: values outside the ranges act as the nearest bound. */
static void bad_device_values_are_clamped(test_env *env) {
  static const int32_t wild_lengths[3] = {-5, 1000, 20};
  static const int32_t tame_lengths[3] = {0, 24, 20};
  static const int32_t wild_start[3] = {-7, 999, 3};
  static const int32_t tame_start[3] = {0, 14, 3};
  test_call call;
  test_result result;
  test_call_init(&call, env->mode, 3, 10, 24, 2, 2, 64);
  call.attention.has_lengths = call.attention.has_query_start = 1;
  call.lengths = wild_lengths;
  call.query_start = wild_start;
  call.attention.dtype = SATTN_FP32;
  test_call tame = call;
  tame.lengths = tame_lengths;
  tame.query_start = tame_start;
  test_call_fill(&tame, &env->random, 1.0);
  for (int i = 0; i < TEST_INPUTS; ++i) call.input[i] = tame.input[i];
  if (test_call_ok(env, &call, "wild", &result)) test_check_result(env, &tame, "wild", &result);
}

void cases_options(test_suite *suite) {
  test_case_modes(suite, "mixed-options", MODES_ALL, mixed);
  test_case_modes(suite, "explicit-orders", MODES_SA, explicit_orders);
  test_case_modes(suite, "bad-device-values-are-clamped", MODES_ALL, bad_device_values_are_clamped);
}
