/* Decoding: few queries against many keys, with plans for few queries, as a generation loop makes them. Backends have kernels of their own
 * for it that split the keys, so the counts lie around the pieces, and every option meets more than one piece. */
#include <math.h>
#include <stdio.h>

#include "conformance.h"

static void window_of(test_call *call, int64_t width) {
  if (test_mode_uses_sa(call->attention.mode)) call->attention.window_sa = sattn_window_width(width);
  if (test_mode_uses_swa(call->attention.mode)) call->attention.window_swa = sattn_window_width(width);
}

/* Cache lengths around pieces of 16, 64 and 256 keys. */
static void decode_lengths(test_env *env) {
  static const int64_t keys[] = {1, 15, 17, 64, 255, 256, 257, 600};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
    test_call call;
    char label[32];
    int64_t queries = i % 2 && keys[i] > 3 ? 3 : 1;
    test_call_init(&call, env->mode, 1, queries, keys[i], 4, 2, 64);
    call.maxima = (sattn_sizes){1, 3, 600};
    window_of(&call, 300);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "n_q = %lld, n_k = %lld", (long long)queries, (long long)keys[i]);
    test_check_oracle(env, &call, label);
  }
}

/* Caches that are longer than their text: what lies behind the text is garbage. */
static void decode_batches(test_env *env) {
  static const int32_t lengths[3] = {300, 1, 519};
  static const int32_t starts[3] = {298, 0, 516};
  const int64_t keys = 520, kv_heads = 2, d = 64;
  /* Groups of heads where a kernel of its own meets them, and all dtypes: programs take seconds to compile. */
  const int own = env->mode <= SATTN_SLIDING_WINDOW;
  for (int layout = TEST_BNHD; layout <= TEST_GAPS; ++layout) {
    test_call call;
    test_call_init(&call, env->mode, 3, 2, keys, own ? 4 : 2, kv_heads, d);
    call.attention.causal = layout != TEST_BHND;
    if (own) call.attention.dtype = (sattn_dtype)(SATTN_FP32 + layout);
    call.attention.has_lengths = call.attention.has_query_start = 1;
    call.lengths = lengths;
    call.query_start = starts;
    call.layout[1] = call.layout[2] = (test_layout)layout;
    window_of(&call, 290);
    test_call_fill(&call, &env->random, 1.0);
    float *k = test_call_edit(&call, TEST_KEY), *v = test_call_edit(&call, TEST_VALUE);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t at = lengths[b] * kv_heads * d; at < keys * kv_heads * d; ++at) {
        k[b * keys * kv_heads * d + at] = at % 2 ? NAN : INFINITY;
        v[b * keys * kv_heads * d + at] = at % 3 ? NAN : -INFINITY;
      }
    }
    test_check_oracle(env, &call, call.attention.causal ? "causal" : "two-way");
  }
}

/* Softcap, scale, sink logits and sink tokens. */
static void decode_options(test_env *env) {
  for (int option = 0; option < 4; ++option) {
    test_call call;
    char label[32];
    test_call_init(&call, env->mode, 1, 1, 530, 4, 1, 80);
    window_of(&call, 40);
    if (option == 0) call.attention.softcap = 3.0f;
    if (option == 1) call.attention.scale = 0.5f;
    if (option == 2) call.attention.has_sink_logits = 1;
    if (option == 3 && env->mode != SATTN_FULL) call.attention.sink_tokens = 20;
    test_call_fill(&call, &env->random, 2.0);
    snprintf(label, sizeof label, "option %d", option);
    test_check_oracle(env, &call, label);
  }
}

void cases_decode(test_suite *suite) {
  test_case_modes(suite, "decode-lengths", MODES_ALL, decode_lengths);
  test_case_modes(suite, "decode-batches", MODES_ALL, decode_batches);
  test_case_modes(suite, "decode-options", MODE(SATTN_FULL) | MODE(SATTN_SLIDING_WINDOW), decode_options);
}
