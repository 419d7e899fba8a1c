/* The one-call form on host arrays: the same numbers, and the refusals that only it can make. */
#include "conformance.h"

static void same_as_device_form(test_env *env) {
  static const int32_t lengths[2] = {30, 12};
  test_call call;
  test_result of_device;
  test_result of_host;
  sattn_error error;
  test_call_init(&call, env->mode, 2, 30, 30, 4, 2, 64);
  call.attention.has_lengths = call.attention.has_sink_logits = 1;
  call.lengths = lengths;
  test_call_fill(&call, &env->random, 1.0);
  if (!test_call_ok(env, &call, "device", &of_device)) return;
  if (test_run_host(env->context, &call, &of_host, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  test_check_same(env, &call, "host", &of_device, &of_host);
}

static void refuse(test_env *env, test_call *call, const char *label, const char *argument) {
  test_result result;
  sattn_error error;
  test_check_refusal(env, label, test_run_host(env->context, call, &result, &error), SATTN_INVALID_ARGUMENT, &error, argument);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    size_t count = result.output[o] ? test_shape_count(test_output_shape(call, (test_output)o)) : 0;
    for (size_t i = 0; i < count; ++i) {
      if (result.output[o][i] != result.output[o][i]) continue;
      test_fail(env->suite, "%s: %s was written", label, test_output_name((test_output)o));
      break;
    }
  }
}

static void bad_values(test_env *env) {
  static const int32_t too_long[2] = {6, 9};
  static const int32_t negative[2] = {-1, 6};
  static const int32_t start_late[2] = {0, 5};
  static const uint32_t order[8] = {0, 1, 2, 3, 4, 5, 6, 6};
  test_call call;
  test_call_init(&call, SATTN_STOCHASTIC, 2, 4, 8, 2, 2, 16);
  test_call_fill(&call, &env->random, 1.0);
  test_call bad = call;
  bad.lengths = too_long;
  refuse(env, &bad, "length 9 of 8", "lengths");
  bad.lengths = negative;
  refuse(env, &bad, "length -1", "lengths");
  bad = call;
  bad.query_start = start_late;
  refuse(env, &bad, "query_start 5 of 4", "query_start");
  bad.query_start = negative;
  refuse(env, &bad, "query_start -1", "query_start");
  bad = call;
  bad.order = order;
  bad.order_count = 1;
  bad.order_size = 8;
  refuse(env, &bad, "token 6 twice", "order");
  bad.order_size = 7;
  refuse(env, &bad, "order of 7", "order");
  bad.order_size = 8;
  bad.order_count = 2;
  refuse(env, &bad, "2 orders", "order");
  bad = call;
  bad.input[TEST_VALUE] = NULL;
  refuse(env, &bad, "no value", "value");
  bad = call;
  bad.sizes.queries = 9;
  bad.input[TEST_QUERY] = test_random_array(&env->random, SATTN_FP32, 2 * 9 * 2 * 16, 1.0);
  refuse(env, &bad, "9 queries on 8 keys", "quer");
  test_result result;
  sattn_error error;
  if (test_run_host(env->context, &call, &result, &error)) test_fail(env->suite, "afterwards: %s", error.message);
  test_check_result(env, &call, "afterwards", &result);
}

/* A device by its name, and no context kept. */
static void device_by_name(test_env *env) {
  float q[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float out[8] = {0};
  sattn_host_call call;
  sattn_error error;
  sattn_host_call_init(&call);
  call.device_id = env->suite->info.id;
  call.attention.mode = SATTN_FULL;
  call.attention.heads = 1;
  call.attention.head_dim = 8;
  call.batch = call.queries = call.keys = 1;
  call.query.data = call.key.data = call.value.data = q;
  call.out.data = out;
  if (sattn_attention_host(&call, &error)) test_fail(env->suite, "%s", error.message);
  if (memcmp(q, out, sizeof q) != 0) test_fail(env->suite, "one token does not give its value");
}

void cases_host(test_suite *suite) {
  test_case_modes(suite, "host-form", MODES_ALL, same_as_device_form);
  test_case_run(suite, "host-bad-values", bad_values);
  test_case_run(suite, "host-device-by-name", device_by_name);
}
