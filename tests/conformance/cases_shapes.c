/* Field faults P-H1 to P-H10: empty, tiny, odd and huge shapes. */
#include <stdio.h>

#include "conformance.h"

/* P-H1: no batch, no queries: success, nothing is written. */
static void empty_work(test_env *env) {
  static const sattn_sizes sizes[4] = {{0, 5, 9}, {2, 0, 9}, {2, 0, 0}, {0, 0, 0}};
  for (int i = 0; i < 4; ++i) {
    test_call call;
    test_result result;
    char label[48];
    test_call_init(&call, env->mode, sizes[i].batch, sizes[i].queries, sizes[i].keys, 2, 2, 16);
    /* The plan is for more than nothing in one half of the cases. */
    if (i % 2) call.maxima = (sattn_sizes){2, 9, 9};
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "B %lld, n_q %lld, n_k %lld", (long long)sizes[i].batch, (long long)sizes[i].queries,
             (long long)sizes[i].keys);
    test_call_ok(env, &call, label, &result);
  }
}

/* P-H2, P-N1: one token sees itself. */
static void one_token(test_env *env) {
  test_call call;
  test_call_init(&call, env->mode, 1, 1, 1, 8, 2, 16);
  test_call_fill(&call, &env->random, 3.0);
  test_check_oracle(env, &call, "n = 1");
  if (env->mode == SATTN_GATED) return;
  test_result result;
  if (!test_call_ok(env, &call, "n = 1", &result)) return;
  for (int64_t h = 0; h < 8; ++h) {
    if (memcmp(result.output[TEST_OUT] + h * 16, call.input[TEST_VALUE] + h / 4 * 16, 16 * sizeof(float)) != 0)
      test_fail(env->suite, "head %lld is not the value row of its key head", (long long)h);
  }
}

/* P-H3: lengths around tiles. One plan for the largest serves all. */
static void token_counts(test_env *env) {
  static const int64_t counts[] = {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    test_call call;
    char label[32];
    int64_t n = counts[i];
    test_call_init(&call, env->mode, 1, n, n, 1, 1, 64);
    call.maxima = (sattn_sizes){1, 257, 257};
    /* One description for all counts, so that one plan could serve them. */
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(40);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(40);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "n = %lld", (long long)n);
    test_check_oracle(env, &call, label);
  }
}

/* Fewer queries than keys, the decode step included. */
static void query_counts(test_env *env) {
  static const int64_t counts[] = {1, 2, 17, 64, 65, 100};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    test_call call;
    char label[32];
    test_call_init(&call, env->mode, 2, counts[i], 130, 2, 1, 64);
    call.maxima = (sattn_sizes){2, 130, 130};
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "n_q = %lld", (long long)counts[i]);
    test_check_oracle(env, &call, label);
  }
}

static void check_head_size(test_env *env, int64_t head_dim, sattn_dtype dtype) {
  test_call call;
  char label[32];
  test_call_init(&call, env->mode, 1, 37, 37, 2, 2, head_dim);
  call.attention.dtype = dtype;
  test_call_fill(&call, &env->random, 1.0);
  snprintf(label, sizeof label, "d = %lld, %s", (long long)head_dim, sattn_dtype_name(dtype));
  test_check_oracle(env, &call, label);
}

/* P-H4: head sizes, those with tuned kernels and the others. All of them for SA, and one with a kernel of its own for each other mode:
 * programs take seconds to compile on some drivers. */
static void head_sizes(test_env *env) {
  static const int64_t sizes[] = {1, 3, 8, 16, 40, 59, 64, 72, 80, 96, 128, 160, 192, 256};
  static const int64_t of_mode[] = {[SATTN_FULL] = 80,   [SATTN_SLIDING_WINDOW] = 96, [SATTN_STOCHASTIC] = 128,
                                    [SATTN_UNION] = 128, [SATTN_GATED] = 256,         [SATTN_MOBA] = 80};
  check_head_size(env, of_mode[env->mode], test_case_dtype(env, 1));
  if (env->mode != SATTN_STOCHASTIC) return;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) check_head_size(env, sizes[i], SATTN_FP32);
}

/* P-H5: query head h reads key head h / (H / H_kv). */
static void head_groups(test_env *env) {
  static const int64_t groups[7][2] = {{4, 4}, {4, 2}, {6, 3}, {8, 2}, {7, 1}, {28, 4}, {64, 8}};
  for (int i = 0; i < 7; ++i) {
    test_call call;
    test_result result;
    int64_t heads = groups[i][0];
    int64_t kv_heads = groups[i][1];
    test_call_init(&call, env->mode, 1, 9, 9, heads, kv_heads, 64);
    test_call_fill(&call, &env->random, 1.0);
    float *v = test_call_edit(&call, TEST_VALUE);
    for (int64_t at = 0; at < 9 * kv_heads * 64; ++at) v[at] = (float)(at / 64 % kv_heads);
    if (!test_call_ok(env, &call, "groups", &result)) return;
    for (int64_t at = 0; at < 9 * heads * 64; ++at) {
      int64_t h = at / 64 % heads;
      double expected = (double)(h / (heads / kv_heads));
      double got = (double)result.output[TEST_OUT][at];
      if (got >= expected - 1e-5 * expected && got <= expected + 1e-5 * expected) continue;
      test_fail(env->suite, "%lld/%lld: head %lld reads %.6g, not %.0f", (long long)heads, (long long)kv_heads, (long long)h, got,
                expected);
      break;
    }
  }
}

/* P-H7: more than 65535 of something; the last one alone gives the same bits. */
static void huge_counts(test_env *env, int64_t batch, int64_t heads) {
  test_call all;
  test_call last;
  test_result of_all;
  test_result of_last;
  test_call_init(&all, SATTN_SLIDING_WINDOW, batch, 2, 2, heads, heads, 8);
  all.attention.window_swa = sattn_window_width(2);
  test_call_fill(&all, &env->random, 1.0);
  if (!test_call_ok(env, &all, "all", &of_all)) return;
  last = all;
  last.sizes.batch = 1;
  last.attention.heads = last.attention.kv_heads = 1;
  for (int input = TEST_QUERY; input <= TEST_VALUE; ++input) {
    float *values = test_memory(2 * 8 * sizeof *values);
    for (int64_t t = 0; t < 2; ++t)
      memcpy(values + t * 8, all.input[input] + (((batch - 1) * 2 + t) * heads + heads - 1) * 8, 8 * sizeof *values);
    last.input[input] = values;
  }
  if (!test_call_ok(env, &last, "last", &of_last)) return;
  for (int64_t t = 0; t < 2; ++t) {
    const float *there = of_all.output[TEST_OUT] + (((batch - 1) * 2 + t) * heads + heads - 1) * 8;
    if (memcmp(there, of_last.output[TEST_OUT] + t * 8, 8 * sizeof(float)) != 0) test_fail(env->suite, "token %lld differs", (long long)t);
  }
  size_t count = test_shape_count(test_output_shape(&all, TEST_OUT));
  for (size_t i = 0; i < count; ++i) {
    if (of_all.output[TEST_OUT][i] == of_all.output[TEST_OUT][i]) continue;
    test_fail(env->suite, "element %zu was not written", i);
    return;
  }
}

static void many_batches(test_env *env) {
  huge_counts(env, 65537, 1);
}
static void many_heads(test_env *env) {
  huge_counts(env, 1, 65537);
}

/* P-H9: any width. */
static void widths(test_env *env) {
  static const int64_t values[] = {1, 2, 3, 13, 14, 15, 64, 65, 1000};
  static const int64_t counts[] = {2, 3, 64, 100};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
    for (size_t j = 0; j < sizeof counts / sizeof counts[0]; ++j) {
      test_call call;
      char label[48];
      test_call_init(&call, env->mode, 1, counts[j], counts[j], 1, 1, 64);
      call.attention.causal = (i + j) % 2 == 0;
      if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(values[i]);
      if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(values[i]);
      test_call_fill(&call, &env->random, 1.0);
      snprintf(label, sizeof label, "w = %lld, n = %lld", (long long)values[i], (long long)counts[j]);
      test_check_oracle(env, &call, label);
    }
  }
}

/* P-H10: any block; one to three of them, by the general kernels and by those for common head sizes. */
static void moba_block_sizes(test_env *env) {
  static const int64_t blocks[] = {1, 5, 48, 64, 100};
  static const int64_t counts[] = {1, 47, 48, 49, 130};
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; ++i) {
    for (size_t j = 0; j < sizeof counts / sizeof counts[0]; ++j) {
      test_call call;
      char label[48];
      test_call_init(&call, SATTN_MOBA, 1, counts[j], counts[j], 2, 1, i % 2 ? 64 : 16);
      call.attention.causal = j % 2 == 0;
      call.attention.block = blocks[i];
      call.attention.topk = 1 + (int64_t)(i + j) % 3;
      /* Blocks of one token offer so many scores that no draw is free of near ties. */
      if (blocks[i] == 1) call.attention.topk = 1;
      test_call_fill(&call, &env->random, 1.0);
      snprintf(label, sizeof label, "block %lld, n = %lld", (long long)blocks[i], (long long)counts[j]);
      test_check_oracle(env, &call, label);
    }
  }
}

void cases_shapes(test_suite *suite) {
  test_case_modes(suite, "empty-work", MODES_ALL, empty_work);
  test_case_modes(suite, "one-token", MODES_ALL, one_token);
  test_case_modes(suite, "token-counts", MODES_ALL, token_counts);
  test_case_modes(suite, "query-counts", MODES_ALL, query_counts);
  test_case_modes(suite, "head-sizes", MODES_ALL, head_sizes);
  test_case_modes(suite, "head-groups", MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC) | MODE(SATTN_MOBA), head_groups);
  test_case_run(suite, "many-batches", many_batches);
  test_case_run(suite, "many-heads", many_heads);
  test_case_modes(suite, "widths", MODES_WINDOW, widths);
  test_case_run(suite, "moba-block-sizes", moba_block_sizes);
}
