/* The support query, workspaces, limits: field faults P-M5, P-M8, P-H8, P-R6. */
#include <stdio.h>

#include "conformance.h"

/* P-R6: what the query says is what happens, for every mode, dtype, head size and pass. */
static void check_support(test_env *env, sattn_dtype dtype, int64_t head_dim, int backward, int in_depth) {
  test_call call;
  sattn_error of_query;
  sattn_error of_create;
  sattn_plan_info queried;
  sattn_plan_info made;
  sattn_plan *plan = NULL;
  char label[64];
  uint32_t passes = SATTN_PASS_FORWARD | (backward ? SATTN_PASS_BACKWARD : 0);
  test_call_init(&call, env->mode, 1, 20, 20, 2, 1, head_dim);
  call.attention.dtype = dtype;
  snprintf(label, sizeof label, "%s, d %lld%s", sattn_dtype_name(dtype), (long long)head_dim, backward ? ", backward" : "");
  sattn_plan_info_init(&queried);
  sattn_plan_info_init(&made);
  sattn_status query = sattn_plan_query(env->context, &call.attention, &call.sizes, passes, &queried, &of_query);
  /* Every question is asked; a promise is kept in some of the cases, for programs take seconds to compile on some drivers. */
  if (query == SATTN_OK && !in_depth) return;
  sattn_status create = sattn_plan_create(env->context, &call.attention, &call.sizes, passes, &plan, &of_create);
  if (query != create) {
    test_fail(env->suite, "%s: query says %s, create says %s", label, sattn_status_name(query), sattn_status_name(create));
  } else if (query) {
    if (query != SATTN_UNSUPPORTED || strcmp(of_query.message, of_create.message) != 0)
      test_fail(env->suite, "%s: %s / %s", label, of_query.message, of_create.message);
    if (!backward) test_fail(env->suite, "%s: %s", label, of_query.message);
  } else {
    sattn_plan_get_info(plan, &made, NULL);
    if (memcmp(&queried, &made, sizeof made) != 0) test_fail(env->suite, "%s: the query promised another plan", label);
    if (made.forward_path != SATTN_PATH_FAST && made.reason[0] == '\0' && env->suite->backend != SATTN_BACKEND_REFERENCE)
      test_fail(env->suite, "%s: no reason for the slow path", label);
    if (made.forward_workspace != sattn_plan_workspace(plan, SATTN_PASS_FORWARD)) test_fail(env->suite, "%s: workspace", label);
  }
  sattn_plan_destroy(&plan);
  if (query) return;
  test_call_fill(&call, &env->random, 1.0);
  if (backward) test_call_fill_gradients(&call, &env->random, 0);
  test_check_oracle(env, &call, label);
}

static void support_query(test_env *env) {
  static const int64_t head_dims[] = {8, 64, 128, 256};
  for (int dtype = SATTN_FP32; dtype <= SATTN_BF16; ++dtype)
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; ++i)
      for (int backward = 0; backward <= 1; ++backward)
        check_support(env, (sattn_dtype)dtype, head_dims[i], backward, i == (size_t)env->mode % 4 && (size_t)dtype == 1 + (i + 1) % 3);
}

/* P-M5: workspace is O(n): doubling n never more than doubles it (rounding apart). */
static void workspace_growth(test_env *env) {
  uint64_t last[2] = {0, 0};
  for (int64_t n = 4096; n <= 131072; n *= 2) {
    test_call call;
    sattn_plan_info info;
    sattn_error error;
    test_call_init(&call, env->mode, 1, n, n, 4, 2, 64);
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(256);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(256);
    call.attention.block = env->mode == SATTN_MOBA ? 128 : 0;
    sattn_plan_info_init(&info);
    uint32_t passes = SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD;
    sattn_status status = sattn_plan_query(env->context, &call.attention, &call.sizes, passes, &info, &error);
    if (status == SATTN_UNSUPPORTED)
      status = sattn_plan_query(env->context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &info, &error);
    if (status) {
      test_fail(env->suite, "n = %lld: %s", (long long)n, error.message);
      return;
    }
    const uint64_t bytes[2] = {info.forward_workspace, info.backward_workspace};
    for (int pass = 0; pass < 2; ++pass) {
      if (last[pass] && bytes[pass] > 2 * last[pass] + 65536)
        test_fail(env->suite, "n = %lld, pass %d: %llu bytes after %llu", (long long)n, pass, (unsigned long long)bytes[pass],
                  (unsigned long long)last[pass]);
      last[pass] = bytes[pass];
      /* Nothing near n squared, and no copies beyond a few of Q, K, V, O. */
      uint64_t arrays = (uint64_t)n * (4 + 2 + 2 + 4) * 64 * 4;
      if (bytes[pass] > 4 * arrays)
        test_fail(env->suite, "n = %lld, pass %d: %llu bytes for arrays of %llu", (long long)n, pass, (unsigned long long)bytes[pass],
                  (unsigned long long)arrays);
    }
  }
}

/* P-H8: sizes beyond 2^31 elements are planned for, or refused by name; nothing overflows quietly. */
static void huge_sizes(test_env *env) {
  static const sattn_sizes sizes[] = {{1, 1000, 1 << 30}, {100000, 4096, 4096}, {1, INT32_MAX, INT32_MAX}, {INT32_MAX, 1000, 1000}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    test_call call;
    sattn_plan_info info;
    sattn_error error;
    test_call_init(&call, env->mode, 1, 1, 8, 64, 8, 128);
    call.attention.dtype = SATTN_FP16;
    sattn_plan_info_init(&info);
    sattn_status status = sattn_plan_query(env->context, &call.attention, &sizes[i], SATTN_PASS_FORWARD, &info, &error);
    if (status != SATTN_OK && status != SATTN_OUT_OF_MEMORY && status != SATTN_INVALID_ARGUMENT)
      test_fail(env->suite, "sizes %zu: %s: %s", i, sattn_status_name(status), error.message);
    if (status && error.message[0] == '\0') test_fail(env->suite, "sizes %zu: no message", i);
  }
}

/* P-R9: the programs of a description are compiled once for a context. */
static void compiled_once(test_env *env) {
  test_call call;
  test_result result;
  uint64_t first = 0;
  uint64_t last = 0;
  test_call_init(&call, SATTN_STOCHASTIC, 1, 40, 40, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  test_call_ok(env, &call, "first", &result);
  sattn_context_program_counts(env->context, &first, NULL);
  for (int i = 0; i < 5; ++i) {
    call.sizes.keys = call.sizes.queries = i % 2 ? 40 : 33;
    test_call_ok(env, &call, "again", &result);
  }
  sattn_context_program_counts(env->context, &last, NULL);
  if (last != first) test_fail(env->suite, "%llu programs were compiled again", (unsigned long long)(last - first));
}

/* What the device is, is told in full. */
static void device_facts(test_env *env) {
  const sattn_device_info *info = sattn_context_device(env->context);
  char id[32];
  snprintf(id, sizeof id, "%s:%u", sattn_backend_name(env->suite->backend), info->index);
  if (strcmp(id, info->id) != 0) test_fail(env->suite, "id %s, not %s", info->id, id);
  if (info->backend != env->suite->backend) test_fail(env->suite, "backend");
  if (info->name[0] == '\0' || info->driver[0] == '\0') test_fail(env->suite, "no name");
  if (info->compute_units == 0) test_fail(env->suite, "no compute units");
  uint32_t count = 0;
  sattn_error error;
  sattn_device_info again;
  sattn_device_info_init(&again);
  if (sattn_device_count(env->suite->backend, &count, &error) || info->index >= count) test_fail(env->suite, "count %u", count);
  if (sattn_device_get_info(env->suite->backend, info->index, &again, &error)) test_fail(env->suite, "%s", error.message);
  if (strcmp(again.name, info->name) != 0) test_fail(env->suite, "name %s, not %s", again.name, info->name);
  test_check_refusal(env, "a device too many", sattn_device_get_info(env->suite->backend, count, &again, &error), SATTN_INVALID_ARGUMENT,
                     &error, "");
}

void cases_support(test_suite *suite) {
  test_case_modes(suite, "support-query", MODES_ALL, support_query);
  test_case_modes(suite, "workspace-growth", MODES_ALL, workspace_growth);
  test_case_modes(suite, "huge-sizes", MODES_ALL, huge_sizes);
  test_case_run(suite, "compiled-once", compiled_once);
  test_case_run(suite, "device-facts", device_facts);
}
