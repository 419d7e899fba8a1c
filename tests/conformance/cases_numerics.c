/* Field faults P-N1 to P-N10: where softmax, infinities and half types go wrong. Forward; gradients are in cases_gradients.c. */
#include <math.h>
#include <stdio.h>

#include "conformance.h"

/* P-N2: rows past the length are empty, whatever lies there, gates included; the others are as if unpadded. */
static void empty_rows_of(test_env *env, int64_t head_dim, sattn_dtype dtype) {
  static const int32_t lengths[4] = {30, 17, 1, 0};
  test_call call;
  test_call_init(&call, env->mode, 4, 30, 30, 2, 2, head_dim);
  call.attention.dtype = dtype;
  call.attention.has_lengths = 1;
  call.lengths = lengths;
  call.attention.has_sink_logits = 1;
  test_call_fill(&call, &env->random, 1.0);
  for (int input = TEST_QUERY; input <= TEST_GATE_SWA; ++input) {
    if (!call.input[input]) continue;
    float *values = test_call_edit(&call, (test_input)input);
    int64_t row = 2 * test_input_shape(&call, (test_input)input).size[3];
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t at = lengths[b] * row; at < 30 * row; ++at) values[b * 30 * row + at] = (float)NAN;
  }
  test_check_oracle(env, &call, "lengths 30, 17, 1, 0");
}

static void empty_rows(test_env *env) {
  empty_rows_of(env, 16, SATTN_FP32);
  empty_rows_of(env, 64, SATTN_FP32);
  empty_rows_of(env, 64, test_case_dtype(env, 1));
}

/* A right-padded batch gives to the bit what the unpadded sequence gives... within one tile shape; by value always. */
static void padding_changes_nothing(test_env *env) {
  static const int32_t lengths[1] = {23};
  test_call padded;
  test_call alone;
  test_result of_padded;
  test_call_init(&padded, env->mode, 1, 40, 40, 2, 2, 16);
  padded.attention.has_lengths = 1;
  padded.lengths = lengths;
  test_call_fill(&padded, &env->random, 1.0);
  alone = padded;
  alone.attention.has_lengths = 0;
  alone.lengths = NULL;
  alone.sizes = (sattn_sizes){1, 23, 23};
  if (!test_call_ok(env, &padded, "padded", &of_padded)) return;
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_difference difference;
  test_oracle(&alone, TEST_EXACT, &exact);
  test_oracle_tolerances(&alone, &exact, tolerance);
  if (test_compare("out", test_output_shape(&alone, TEST_OUT), exact.output[TEST_OUT], of_padded.output[TEST_OUT], tolerance[TEST_OUT],
                   &difference))
    test_fail(env->suite, "%s", difference.report);
}

/* P-N3: early tiles hold only future tokens. */
static void masked_first_tiles(test_env *env) {
  const int64_t n = 256;
  for (int kind = 0; kind < 2; ++kind) {
    test_call call;
    uint32_t *order = test_memory((size_t)n * sizeof *order);
    for (int64_t s = 0; s < n; ++s) order[s] = (uint32_t)(kind == 0 ? n - 1 - s : (s + n / 2) % n);
    test_call_init(&call, env->mode, 1, n, n, 1, 1, 64);
    call.attention.window_sa = sattn_window_width(64);
    call.order = order;
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(env, &call, kind == 0 ? "reversed" : "second half first");
  }
}

/* P-N4: raw scores of 8,388,608 do not fit fp16; gradients are finite all the same. */
static void raw_scores_overflow_half(test_env *env) {
  test_call call;
  test_result result;
  test_call_init(&call, SATTN_SLIDING_WINDOW, 1, 32, 32, 1, 1, 128);
  call.attention.dtype = SATTN_FP16;
  call.attention.window_swa = sattn_window_width(8);
  float *q = test_call_edit(&call, TEST_QUERY);
  float *k = test_call_edit(&call, TEST_KEY);
  float *v = test_call_edit(&call, TEST_VALUE);
  for (int64_t i = 0; i < 32 * 128; ++i) {
    q[i] = k[i] = 256;
    v[i] = (float)(i / 128 % 8);
  }
  test_call_fill_gradients(&call, &env->random, 0);
  if (!test_call_ok(env, &call, "256", &result)) return;
  test_check_result(env, &call, "256", &result);
  for (int64_t i = 8; i < 32; ++i) {
    double got = (double)result.output[TEST_OUT][i * 128 + 5];
    if (!(fabs(got - 3.5) <= 2e-3)) test_fail(env->suite, "query %lld: %.6g, not 3.5", (long long)i, got);
  }
}

/* P-N5: a score that leads by far takes its value row. */
static void large_scores(test_env *env) {
  for (int other = 0; other <= 1; ++other) {
    for (int large = 0; large <= 1; ++large) {
      test_call call;
      test_call_init(&call, env->mode, 1, 96, 96, 2, 1, 64);
      call.attention.dtype = test_case_dtype(env, other);
      test_call_fill(&call, &env->random, large ? 30.0 : 3.0);
      char label[32];
      snprintf(label, sizeof label, "%s, spread %d", sattn_dtype_name(call.attention.dtype), large ? 30 : 3);
      test_check_oracle(env, &call, label);
    }
  }
}

/* Both runs of P-N6: the same bits, or at least the same values. */
static void check_rows(test_env *env, const test_call *call, int64_t first, int64_t count, const test_result *clean,
                       const test_result *result, int bits) {
  test_shape rows = {{1, count, 2, 64}};
  test_difference difference;
  const float *expected = clean->output[TEST_OUT] + first * 128;
  const float *got = result->output[TEST_OUT] + first * 128;
  if (bits) {
    if (test_compare_bits("out", rows, expected, got, &difference))
      test_fail(env->suite, "rows from %lld: %s", (long long)first, difference.report);
    return;
  }
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_oracle(call, TEST_EXACT, &exact);
  test_oracle_tolerances(call, &exact, tolerance);
  if (test_compare("out", rows, exact.output[TEST_OUT] + first * 128, got, tolerance[TEST_OUT], &difference))
    test_fail(env->suite, "rows from %lld: %s", (long long)first, difference.report);
}

/* P-N6: what a query does not see cannot reach it: not as NaN, not as infinity. */
static void unseen_garbage(test_env *env, int bits) {
  const float garbage[3] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
  const int64_t n = 70;
  const int64_t bad = 60; /* the first garbage key */
  test_call clean;
  test_result of_clean;
  test_call_init(&clean, env->mode, 1, n, n, 2, 2, 64);
  test_call_fill(&clean, &env->random, 1.0);
  for (int input = TEST_KEY; input <= TEST_VALUE; ++input)
    memset(test_call_edit(&clean, (test_input)input) + bad * 2 * 64, 0, (size_t)(n - bad) * 2 * 64 * sizeof(float));
  if (!test_call_ok(env, &clean, "zeros", &of_clean)) return;
  for (int g = 0; g < 3; ++g) {
    test_call call = clean;
    test_result result;
    for (int input = TEST_KEY; input <= TEST_VALUE; ++input) {
      float *values = test_call_edit(&call, (test_input)input);
      for (int64_t at = bad * 2 * 64; at < n * 2 * 64; ++at) values[at] = garbage[g];
    }
    if (!test_call_ok(env, &call, "garbage", &result)) return;
    /* Rows before the garbage; MOBA's block of the first garbage key begins at 56. */
    check_rows(env, &clean, 0, 56, &of_clean, &result, bits);
  }
}

/* The other half: garbage in a query row stays in that row. */
static void garbage_queries(test_env *env, int bits) {
  const int64_t n = 70;
  test_call clean;
  test_result of_clean;
  test_result result;
  test_call_init(&clean, env->mode, 1, n, n, 2, 2, 64);
  test_call_fill(&clean, &env->random, 1.0);
  if (!test_call_ok(env, &clean, "clean", &of_clean)) return;
  test_call call = clean;
  float *q = test_call_edit(&call, TEST_QUERY);
  for (int64_t at = 33 * 2 * 64; at < 34 * 2 * 64; ++at) q[at] = (float)NAN;
  if (!test_call_ok(env, &call, "garbage", &result)) return;
  check_rows(env, &clean, 0, 33, &of_clean, &result, bits);
  check_rows(env, &clean, 34, n - 34, &of_clean, &result, bits);
}

static void unseen_garbage_values(test_env *env) {
  unseen_garbage(env, 0);
}
static void unseen_garbage_bits(test_env *env) {
  unseen_garbage(env, 1);
}
static void garbage_queries_values(test_env *env) {
  garbage_queries(env, 0);
}
static void garbage_queries_bits(test_env *env) {
  garbage_queries(env, 1);
}

/* P-N7: half types are as good as a plain half pipeline; and a bf16 pipeline cannot pass for fp16. */
static void half_types(test_env *env) {
  for (int dtype = SATTN_FP16; dtype <= SATTN_BF16; ++dtype) {
    test_call call;
    int64_t head_dim = (sattn_dtype)dtype == test_case_dtype(env, 1) ? 64 : 16;
    test_call_init(&call, env->mode, 1, 130, 130, 2, 1, head_dim);
    call.attention.dtype = (sattn_dtype)dtype;
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(env, &call, sattn_dtype_name((sattn_dtype)dtype));
  }
}

/* Values at the edges of fp16 and bf16: largest, subnormal, signed zero. w = 1 copies them. */
static void half_extremes(test_env *env) {
  static const float edges[2][6] = {{65504, -65504, 0x1p-24f, -0x1p-20f, 0.0f, 0x1p-14f},
                                    {0x1.fep127f, -0x1p-126f, 0x1p-130f, 1, 0, -3e38f}};
  for (int dtype = SATTN_FP16; dtype <= SATTN_BF16; ++dtype) {
    test_call call;
    test_result result;
    test_difference difference;
    test_call_init(&call, SATTN_SLIDING_WINDOW, 1, 12, 12, 1, 1, 16);
    call.attention.dtype = (sattn_dtype)dtype;
    call.attention.window_swa = sattn_window_width(1);
    test_call_fill(&call, &env->random, 1.0);
    float *v = test_call_edit(&call, TEST_VALUE);
    for (int64_t i = 0; i < 12 * 16; ++i) v[i] = (float)test_round((sattn_dtype)dtype, (double)edges[dtype - SATTN_FP16][i % 6]);
    if (!test_call_ok(env, &call, "edges", &result)) continue;
    if (test_compare_exact("out", test_output_shape(&call, TEST_OUT), v, result.output[TEST_OUT], &difference))
      test_fail(env->suite, "%s: %s", sattn_dtype_name((sattn_dtype)dtype), difference.report);
  }
}

/* P-N8. */
static void what_lse_is(test_env *env) {
  const double expected[4] = {0, 0.6931471805599453, 1.0986122886681098, 1.0986122886681098};
  test_call call;
  test_result result;
  test_difference difference;
  test_call_init(&call, SATTN_SLIDING_WINDOW, 1, 4, 4, 1, 1, 8);
  call.attention.window_swa = sattn_window_width(3);
  test_call_fill(&call, &env->random, 1.0);
  memset(test_call_edit(&call, TEST_QUERY), 0, 4 * 8 * sizeof(float));
  if (!test_call_ok(env, &call, "Q = 0", &result)) return;
  if (test_compare("lse", test_output_shape(&call, TEST_LSE), expected, result.output[TEST_LSE], 2e-6, &difference))
    test_fail(env->suite, "%s", difference.report);
}

/* P-N9: saturated gates are 0 and 1, their gradients 0. */
static void gate_saturation(test_env *env) {
  const float gates[9] = {0, 12, -12, 88.8f, -88.8f, 1e4f, -1e4f, (float)INFINITY, -(float)INFINITY};
  for (int dtype = SATTN_FP32; dtype <= SATTN_BF16; ++dtype) {
    for (int element = 0; element <= 1; ++element) {
      test_call call;
      test_call_init(&call, SATTN_GATED, 1, 27, 27, 1, 1, 16);
      call.attention.dtype = (sattn_dtype)dtype;
      call.attention.gate_dtype = (sattn_dtype)dtype;
      call.attention.gate_sa_shape = element ? SATTN_GATE_PER_ELEMENT : SATTN_GATE_PER_HEAD;
      test_call_fill(&call, &env->random, 1.0);
      float *sa = test_call_edit(&call, TEST_GATE_SA);
      float *swa = test_call_edit(&call, TEST_GATE_SWA);
      for (size_t i = 0; i < test_shape_count(test_input_shape(&call, TEST_GATE_SA)); ++i)
        sa[i] = (float)test_round((sattn_dtype)dtype, (double)gates[i % 9]);
      for (size_t i = 0; i < 27; ++i) swa[i] = (float)test_round((sattn_dtype)dtype, (double)gates[i / 3]);
      test_call_fill_gradients(&call, &env->random, 0);
      test_check_oracle(env, &call, sattn_dtype_name((sattn_dtype)dtype));
    }
  }
}

static void softcap_and_sink_logits(test_env *env) {
  static const double caps[3] = {0, 0.5, 30};
  for (int cap = 0; cap < 3; ++cap) {
    test_call call;
    int64_t head_dim = env->mode == SATTN_STOCHASTIC ? 64 : 16;
    test_call_init(&call, env->mode, 1, 50, 50, 4, 2, head_dim);
    call.attention.softcap = caps[cap];
    call.attention.has_sink_logits = 1;
    test_call_fill(&call, &env->random, 2.0);
    float *sinks = test_call_edit(&call, TEST_SINK_LOGITS);
    sinks[0] = 80;
    sinks[1] = -90;
    test_check_oracle(env, &call, "sink logits");
  }
}

/* The largest sink logit leaves nothing to the keys: zeros, no NaN, and an LSE that is huge and finite. */
static void largest_sink_logit(test_env *env) {
  /* One mode in every type: each costs a driver a program. */
  for (int dtype = SATTN_FP32; dtype <= (env->mode == SATTN_FULL ? SATTN_BF16 : SATTN_FP32); ++dtype) {
    test_call call;
    test_result result;
    test_call_init(&call, env->mode, 1, 50, 50, 2, 1, 64);
    call.attention.dtype = (sattn_dtype)dtype;
    call.attention.has_sink_logits = 1;
    test_call_fill(&call, &env->random, 2.0);
    float *sinks = test_call_edit(&call, TEST_SINK_LOGITS);
    sinks[0] = sinks[1] = 3e38f;
    if (!test_call_ok(env, &call, "largest sink logit", &result)) return;
    for (int64_t i = 0; i < 50 * 2 * 64; ++i) {
      if (result.output[TEST_OUT][i] == 0) continue;
      test_fail(env->suite, "%s: out is %g, not 0", sattn_dtype_name((sattn_dtype)dtype), result.output[TEST_OUT][i]);
      return;
    }
    for (int64_t i = 0; i < 50 * 2 && result.output[TEST_LSE]; ++i) {
      if (result.output[TEST_LSE][i] >= 2.35e38 && isfinite(result.output[TEST_LSE][i])) continue;
      test_fail(env->suite, "%s: LSE is %g", sattn_dtype_name((sattn_dtype)dtype), result.output[TEST_LSE][i]);
      return;
    }
  }
}

static void scales(test_env *env) {
  static const double values[4] = {-0.3, 1.0, 1e-6, 4.0};
  for (int i = 0; i < 4; ++i) {
    test_call call;
    test_call_init(&call, env->mode, 1, 50, 50, 2, 2, 64);
    call.attention.scale = values[i];
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(env, &call, "scale");
  }
}

/* Values within a factor of 30000 of the largest number: weights far above 1, which some kernels keep for a while, must not make infinities
 * of them. A hidden NaN among them changes no bit. */
static void large_values(test_env *env) {
  test_call call, spoilt;
  test_result result, again;
  test_call_init(&call, env->mode, 1, 150, 150, 2, 1, 64);
  if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(100);
  if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(100);
  test_call_fill(&call, &env->random, 3.0);
  float *value = test_call_edit(&call, TEST_VALUE);
  for (int64_t i = 0; i < 150 * 64; ++i) value[i] *= 1e33f;
  if (!test_call_ok(env, &call, "1e34", &result)) return;
  test_check_result(env, &call, "1e34", &result);
  spoilt = call;
  float *last = test_call_edit(&spoilt, TEST_VALUE) + 149 * 64;
  for (int64_t c = 0; c < 64; ++c) last[c] = (float)NAN;
  if (!test_call_ok(env, &spoilt, "NaN", &again)) return;
  test_difference difference;
  if (test_compare_bits("out", (test_shape){{1, 149, 2, 64}}, result.output[TEST_OUT], again.output[TEST_OUT], &difference))
    test_fail(env->suite, "NaN: %s", difference.report);
}

void cases_numerics(test_suite *suite) {
  test_case_modes(suite, "empty-rows", MODES_ALL, empty_rows);
  test_case_modes(suite, "padding-changes-nothing", MODES_ALL, padding_changes_nothing);
  test_case_modes(suite, "masked-first-tiles", MODES_SA, masked_first_tiles);
  test_case_run(suite, "raw-scores-overflow-half", raw_scores_overflow_half);
  test_case_modes(suite, "large-scores", MODES_ALL, large_scores);
  test_case_modes(suite, "unseen-garbage", MODES_ALL, unseen_garbage_values);
  test_case_modes(suite, "unseen-garbage-bits", MODES_ALL, unseen_garbage_bits);
  test_case_modes(suite, "garbage-queries", MODES_ALL, garbage_queries_values);
  test_case_modes(suite, "garbage-queries-bits", MODES_ALL, garbage_queries_bits);
  test_case_modes(suite, "half-types", MODES_ALL, half_types);
  test_case_run(suite, "half-extremes", half_extremes);
  test_case_run(suite, "what-lse-is", what_lse_is);
  test_case_run(suite, "gate-saturation", gate_saturation);
  test_case_modes(suite, "softcap-and-sink-logits", MODES_ALL, softcap_and_sink_logits);
  test_case_modes(suite, "largest-sink-logit", MODES_ALL, largest_sink_logit);
  test_case_modes(suite, "scales", MODES_ALL, scales);
  test_case_modes(suite, "large-values", MODES_ALL, large_values);
}
