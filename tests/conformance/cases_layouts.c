/* Field faults P-M1 to P-M7: the same numbers lying differently in memory. Guards around every array are always on (P-M3, P-M4). */
#include <stdio.h>

#include "conformance.h"

static void fill_attention(test_call *call, test_env *env) {
  test_call_init(call, env->mode, 2, 37, 37, 4, 2, 64);
  test_call_fill(call, &env->random, 1.0);
}

/* P-M1, P-M2: heads first, gaps, one packed buffer, and mixtures: the same bits as packed arrays. */
static void layouts(test_env *env) {
  static const test_layout kinds[][3] = {{TEST_BHND, TEST_BHND, TEST_BHND},
                                         {TEST_BNHD, TEST_BNHD, TEST_BHND},
                                         {TEST_BHND, TEST_BNHD, TEST_GAPS},
                                         {TEST_GAPS, TEST_GAPS, TEST_GAPS},
                                         {TEST_QKV, TEST_QKV, TEST_QKV}};
  test_call packed;
  test_result of_packed;
  fill_attention(&packed, env);
  if (!test_call_ok(env, &packed, "packed", &of_packed)) return;
  if (!test_check_result(env, &packed, "packed", &of_packed)) return;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    test_call call = packed;
    test_result result;
    char label[32];
    memcpy(call.layout, kinds[i], sizeof call.layout);
    snprintf(label, sizeof label, "layout %zu", i);
    if (test_call_ok(env, &call, label, &result)) test_check_result(env, &call, label, &result);
  }
}

/* P-M7: any element offset, also one that no vector load likes. */
static void offsets(test_env *env) {
  static const int64_t values[] = {1, 2, 3, 33};
  const struct {
    sattn_dtype dtype;
    int64_t head_dim;
  } kinds[] = {{SATTN_FP32, 64}, {SATTN_FP16, 59}, {SATTN_FP16, 8}, {test_case_dtype(env, 1), 64}};
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; ++k) {
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
      test_call call;
      char label[48];
      test_call_init(&call, env->mode, 1, 37, 37, 2, 1, kinds[k].head_dim);
      call.attention.dtype = kinds[k].dtype;
      call.offset = values[i];
      test_call_fill(&call, &env->random, 1.0);
      test_call_fill_gradients(&call, &env->random, 0);
      snprintf(label, sizeof label, "%s, d %lld, offset %lld", sattn_dtype_name(kinds[k].dtype), (long long)kinds[k].head_dim,
               (long long)values[i]);
      test_check_oracle(env, &call, label);
    }
  }
}

/* Host memory in place gives the same bits as the device's own. */
static void wrapped_host_memory(test_env *env) {
  test_call call;
  test_result own;
  test_result wrapped;
  fill_attention(&call, env);
  if (!sattn_context_device(env->context)->shares_host_memory) {
    sattn_error error;
    sattn_buffer *buffer = NULL;
    sattn_status status = sattn_buffer_wrap_host(env->context, test_memory(64), 64, &buffer, &error);
    test_check_refusal(env, "a device apart", status, SATTN_UNSUPPORTED, &error, "");
    return;
  }
  if (!test_call_ok(env, &call, "own", &own)) return;
  for (int64_t offset = 0; offset <= 3; offset += 3) {
    call.wrap = 1;
    call.offset = offset;
    if (test_call_ok(env, &call, "wrapped", &wrapped)) test_check_result(env, &call, "wrapped", &wrapped);
  }
}

/* A stride of zero repeats an input: one value row for all heads, one key sequence for all batches. */
static void repeated_inputs(test_env *env) {
  test_call call;
  test_run run;
  test_result result;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_call_init(&call, env->mode, 2, 20, 20, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  float *v = test_call_edit(&call, TEST_VALUE);
  for (int64_t t = 0; t < 40; ++t) memcpy(v + (t * 2 + 1) * 64, v + t * 2 * 64, 64 * sizeof *v);
  if (test_run_open(env->context, &call, NULL, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  run.forward.value.stride_batch = 20 * 2 * 64;
  run.forward.value.stride_token = 2 * 64;
  run.forward.value.stride_head = 0;
  if (test_run_send(&run, &error) || test_run_enqueue(&run, queue, NULL, 0, NULL, &error) ||
      sattn_queue_finish(env->context, queue, &error)) {
    test_fail(env->suite, "%s", error.message);
  } else {
    const char *fault = test_run_fetch(&run, &result, &error);
    if (fault) test_fail(env->suite, "%s", fault);
    test_check_result(env, &call, "one value row for both heads", &result);
  }
  test_run_close(&run);
}

/* Without LSE and without anything kept for backward the output is the same. */
static void lse_is_optional(test_env *env) {
  test_call call;
  test_run run;
  test_result result;
  test_result with_lse;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_difference difference;
  fill_attention(&call, env);
  if (!test_call_ok(env, &call, "with", &with_lse)) return;
  if (test_run_open(env->context, &call, NULL, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  run.forward.lse.buffer = run.forward.lse_sa.buffer = run.forward.lse_swa.buffer = NULL;
  if (test_run_send(&run, &error) || test_run_enqueue(&run, queue, NULL, 0, NULL, &error) ||
      sattn_queue_finish(env->context, queue, &error)) {
    test_fail(env->suite, "%s", error.message);
  } else {
    const char *fault = test_run_fetch(&run, &result, &error);
    if (fault) test_fail(env->suite, "%s", fault);
    if (test_compare_bits("out", test_output_shape(&call, TEST_OUT), with_lse.output[TEST_OUT], result.output[TEST_OUT], &difference))
      test_fail(env->suite, "%s", difference.report);
  }
  test_run_close(&run);
}

void cases_layouts(test_suite *suite) {
  test_case_modes(suite, "layouts", MODES_ALL, layouts);
  test_case_modes(suite, "offsets", MODES_ALL, offsets);
  test_case_modes(suite, "wrapped-host-memory", MODES_ALL, wrapped_host_memory);
  test_case_modes(suite, "repeated-inputs", MODES_ALL, repeated_inputs);
  test_case_modes(suite, "lse-is-optional", MODES_ALL, lse_is_optional);
}
