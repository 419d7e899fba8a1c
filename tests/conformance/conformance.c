#include "conformance.h"

#include <stdio.h>

static void run_named(test_suite *suite, const char *name, sattn_mode mode, test_case function) {
  if (!test_suite_begin(suite, name)) return;
  test_env env = {suite, suite->context, mode, test_random_open(suite->seed, name)};
  function(&env);
  test_suite_end(suite);
}

void test_case_run(test_suite *suite, const char *name, test_case function) {
  run_named(suite, name, (sattn_mode)0, function);
}

void test_case_modes(test_suite *suite, const char *name, unsigned modes, test_case function) {
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    char full_name[128];
    if (!(modes & MODE(mode))) continue;
    snprintf(full_name, sizeof full_name, "%s/%s", name, sattn_mode_name((sattn_mode)mode));
    run_named(suite, full_name, (sattn_mode)mode, function);
  }
}

sattn_dtype test_case_dtype(const test_env *env, int other) {
  if (!other) return SATTN_FP32;
  return env->mode % 2 ? SATTN_FP16 : SATTN_BF16;
}

int test_call_ok(test_env *env, const test_call *call, const char *label, test_result *out_result) {
  sattn_error error;
  const char *fault;
  if (test_run_call(env->context, call, out_result, &fault, &error)) {
    test_fail(env->suite, "%s: %s: %s", label, sattn_status_name(error.status), error.message);
    return 0;
  }
  if (fault) test_fail(env->suite, "%s: %s", label, fault);
  return fault == NULL;
}

int test_check_result(test_env *env, const test_call *call, const char *label, const test_result *result) {
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  int right = 1;
  test_oracle(call, TEST_EXACT, &exact);
  test_oracle_tolerances(call, &exact, tolerance);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!exact.output[o]) continue;
    test_shape shape = test_output_shape(call, (test_output)o);
    if (!test_compare(test_output_name((test_output)o), shape, exact.output[o], result->output[o], tolerance[o], &difference)) continue;
    test_fail(env->suite, "%s: %s", label, difference.report);
    right = 0;
  }
  return right;
}

int test_check_oracle(test_env *env, const test_call *call, const char *label) {
  test_result result;
  return test_call_ok(env, call, label, &result) && test_check_result(env, call, label, &result);
}

int test_check_same(test_env *env, const test_call *call, const char *label, const test_result *expected, const test_result *got) {
  int right = 1;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!test_call_has_output(call, (test_output)o)) continue;
    test_shape shape = test_output_shape(call, (test_output)o);
    if (!test_compare_bits(test_output_name((test_output)o), shape, expected->output[o], got->output[o], &difference)) continue;
    test_fail(env->suite, "%s: %s", label, difference.report);
    right = 0;
  }
  return right;
}

void test_probe_sets(test_call *call, sattn_mode mode, int64_t heads, int64_t n) {
  test_call_init(call, mode, 1, n, n, heads, heads, n);
  test_call_edit(call, TEST_QUERY);
  test_call_edit(call, TEST_KEY);
  float *v = test_call_edit(call, TEST_VALUE);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t h = 0; h < heads; ++h) v[(j * heads + h) * n + j] = 1;
  if (mode != SATTN_GATED) return;
  /* One branch wide open, the other shut: the sum of both is the open one. */
  float *open = test_call_edit(call, TEST_GATE_SA);
  float *shut = test_call_edit(call, TEST_GATE_SWA);
  for (int64_t i = 0; i < n * heads; ++i) {
    open[i] = (float)INFINITY;
    shut[i] = -(float)INFINITY;
  }
}

/* Tuned kernels of UNION and MOBA join passes by their LSE, which is exact in no base; halves are rounded once. */
static double set_tolerance(const sattn_attention *attention) {
  if (attention->dtype == SATTN_FP16) return 0x1p-10;
  if (attention->dtype == SATTN_BF16) return 0x1p-7;
  return attention->mode == SATTN_UNION || attention->mode == SATTN_MOBA ? 2e-6 : 5e-7;
}

/* Zero exactly where the key is not seen, 1/m to a few units in the last place where it is. */
static void check_set_row(test_env *env, const char *label, const float *out, const unsigned char *seen, int64_t n, int64_t count,
                          double tolerance, int64_t i) {
  for (int64_t j = 0; j < n; ++j) {
    double weight = (double)out[j] * (double)count;
    int right = seen[j] ? weight > 1 - tolerance && weight < 1 + tolerance : out[j] == 0;
    if (right) continue;
    test_fail(env->suite, "%s: query %lld has weight %.9g on key %lld, which it %s (%lld visible)", label, (long long)i, (double)out[j],
              (long long)j, seen[j] ? "sees" : "does not see", (long long)count);
    return;
  }
}

void test_check_sets(test_env *env, const test_call *call, const char *label) {
  test_result result;
  int64_t n = call->sizes.keys;
  int64_t heads = call->attention.heads;
  unsigned char *seen = test_memory((size_t)n);
  if (!test_call_ok(env, call, label, &result)) return;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t count = test_oracle_visible(call, SATTN_BAND_SA, 0, h, i, seen);
      check_set_row(env, label, result.output[TEST_OUT] + (i * heads + h) * n, seen, n, count, set_tolerance(&call->attention), i);
    }
  }
}

void test_check_refusal(test_env *env, const char *label, sattn_status status, sattn_status expected, const sattn_error *error,
                        const char *argument) {
  if (status != expected) {
    test_fail(env->suite, "%s: status %s, not %s (%s)", label, sattn_status_name(status), sattn_status_name(expected),
              status ? error->message : "");
    return;
  }
  if (error->status != status) test_fail(env->suite, "%s: the error says %s", label, sattn_status_name(error->status));
  if (error->message[0] == '\0' || strchr(error->message, '\n')) test_fail(env->suite, "%s: message '%s'", label, error->message);
  if (!strstr(error->argument, argument))
    test_fail(env->suite, "%s: the error blames '%s', not '%s': %s", label, error->argument, argument, error->message);
}
