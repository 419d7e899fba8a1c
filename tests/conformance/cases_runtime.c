/* Contexts come and go, nothing is printed, kernels of every family: field faults P-C2, P-E2, P-R7, P-R8. */
#include <stdio.h>

#include "conformance.h"

/* P-C2. */
static void contexts_come_and_go(test_env *env) {
  test_call call;
  test_call_init(&call, SATTN_STOCHASTIC, 1, 30, 30, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  for (int i = 0; i < 20; ++i) {
    sattn_context *context = NULL;
    sattn_error error;
    if (sattn_context_create(env->suite->info.id, NULL, &context, &error)) {
      test_fail(env->suite, "context %d: %s", i, error.message);
      return;
    }
    test_env other = *env;
    other.context = context;
    test_check_oracle(&other, &call, "context");
    sattn_context_destroy(&context);
    sattn_context_destroy(&context);
  }
}

/* A call before the first one, for every combination of optional arrays. */
static void warm_up(test_env *env) {
  for (int options = 0; options < 2; ++options) {
    test_call call;
    sattn_plan *plan = NULL;
    sattn_error error;
    const sattn_sizes maxima = options ? (sattn_sizes){3, 40, 300} : (sattn_sizes){1, 1, 1};
    test_call_init(&call, env->mode, 1, 40, 40, 2, 2, 64);
    call.attention.has_lengths = call.attention.has_query_start = call.attention.has_sink_logits = options;
    sattn_status status =
        sattn_plan_create(env->context, &call.attention, &maxima, SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD, &plan, &error);
    if (status == SATTN_OK) status = sattn_plan_warm_up(plan, &error);
    if (status != SATTN_OK) test_fail(env->suite, "options %d: %s: %s", options, sattn_status_name(status), error.message);
    sattn_plan_destroy(&plan);
  }
}

/* Each family that the device takes must give right results; the others are refused by name. */
static void kernel_families(test_env *env) {
  for (int family = SATTN_KERNELS_AUTO; family <= SATTN_KERNELS_GENERAL; ++family) {
    sattn_context *context = NULL;
    sattn_error error;
    sattn_context_options options;
    char label[32];
    snprintf(label, sizeof label, "family %d", family);
    sattn_context_options_init(&options);
    options.kernels = (sattn_kernel_family)family;
    sattn_status status = sattn_context_create(env->suite->info.id, &options, &context, &error);
    if (status) {
      if (status != SATTN_UNSUPPORTED) test_fail(env->suite, "%s: %s: %s", label, sattn_status_name(status), error.message);
      continue;
    }
    test_env other = *env;
    other.context = context;
    test_call call;
    test_call_init(&call, env->mode, 2, 70, 70, 2, 2, 64);
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(&other, &call, label);
    call.attention.causal = 0;
    test_check_oracle(&other, &call, label);
    sattn_context_destroy(&context);
  }
}

/* Small calls that together touch every kernel of the chosen family: what a slow checker of memory and races has time for. */
static void every_kernel(test_env *env) {
  test_call call;
  test_call_init(&call, env->mode, 1, 70, 70, 2, 1, 64);
  /* MoBA with sink tokens takes the general kernels. */
  if (env->mode != SATTN_FULL && env->mode != SATTN_MOBA) call.attention.sink_tokens = 2;
  test_call_fill(&call, &env->random, 1.0);
  test_check_oracle(env, &call, "fp32, causal");
  test_call_init(&call, env->mode, 2, 9, 33, 2, 2, 16);
  call.attention.dtype = SATTN_FP16;
  call.attention.causal = 0;
  call.attention.wrap = test_mode_uses_sa(env->mode);
  test_call_fill(&call, &env->random, 1.0);
  test_check_oracle(env, &call, "fp16, two-way");
}

static void every_gradient(test_env *env) {
  test_call call;
  test_call_init(&call, env->mode, 1, 66, 66, 2, 1, 64);
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 1);
  test_check_oracle(env, &call, "fp32, causal");
}

/* No folder for compiled programs: none at all, one that cannot be made, one that is a file. */
static void cache_folders(test_env *env) {
  static const char *const folders[] = {"", "/dev/null/sattn", "/dev/null", "/proc/no/such"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; ++i) {
    sattn_context *context = NULL;
    sattn_error error;
    sattn_context_options options;
    sattn_context_options_init(&options);
    options.cache_directory = folders[i];
    if (sattn_context_create(env->suite->info.id, &options, &context, &error)) {
      test_fail(env->suite, "'%s': %s", folders[i], error.message);
      continue;
    }
    test_env other = *env;
    other.context = context;
    test_call call;
    test_call_init(&call, SATTN_SLIDING_WINDOW, 1, 20, 20, 1, 1, 16);
    test_call_fill(&call, &env->random, 1.0);
    test_check_oracle(&other, &call, folders[i]);
    sattn_context_destroy(&context);
  }
}

/* ---- children: what can only be seen from outside ---- */

/* Open for ever, and reachable for ever, so that leak checkers see what is meant. */
static sattn_context *left_open;

static int use_library(const char *device) {
  test_random random = test_random_open(1, "child");
  test_call call;
  test_result result;
  sattn_error error;
  const char *fault;
  if (sattn_context_create(device, NULL, &left_open, &error)) return 3;
  test_call_init(&call, SATTN_STOCHASTIC, 1, 20, 20, 1, 1, 64);
  test_call_fill(&call, &random, 1.0);
  if (test_run_call(left_open, &call, &result, &fault, &error) || fault) return 4;
  call.attention.head_dim = 1000;
  if (test_run_call(left_open, &call, &result, &fault, &error) != SATTN_INVALID_ARGUMENT) return 5;
  test_memory_release();
  return 0;
}

const test_child runtime_children[] = {{"use", use_library}, {NULL, NULL}};

/* P-R7: a process that ends with everything still open ends well; P-E2: and nothing was printed. */
static void exit_with_everything_open(test_env *env) {
  test_child_result result;
  static const char *const environment[] = {"SATTN_TRACE=", NULL};
  test_child_run("use", env->suite->info.id, environment, &result);
  if (result.status != 0) test_fail(env->suite, "exit status %d, signal %d", result.status, result.signal);
  if (result.output[0]) test_fail(env->suite, "printed: %s", result.output);
}

/* P-F15: the trace tells what was chosen, and what was refused. */
static void trace_tells(test_env *env) {
  static const char *const environment[] = {"SATTN_TRACE=all", NULL};
  test_child_result result;
  test_child_run("use", env->suite->info.id, environment, &result);
  if (result.status != 0) test_fail(env->suite, "exit status %d, signal %d", result.status, result.signal);
  if (!strstr(result.output, "sattn:dispatch:")) test_fail(env->suite, "no line about dispatch: %s", result.output);
  if (!strstr(result.output, "sattn:error:") || !strstr(result.output, "head_dim")) test_fail(env->suite, "no refusal: %s", result.output);
}

/* The family of kernels can be chosen by the environment, and nonsense there is no reason to fail silently. */
static void family_by_environment(test_env *env) {
  static const char *const environment[] = {"SATTN_KERNELS=general", NULL};
  test_child_result result;
  test_child_run("use", env->suite->info.id, environment, &result);
  if (result.status != 0) test_fail(env->suite, "exit status %d, signal %d: %s", result.status, result.signal, result.output);
}

void cases_runtime(test_suite *suite) {
  test_case_run(suite, "contexts-come-and-go", contexts_come_and_go);
  test_case_modes(suite, "warm-up", MODES_ALL, warm_up);
  test_case_modes(suite, "kernel-families", MODES_ALL, kernel_families);
  test_case_modes(suite, "every-kernel", MODES_ALL, every_kernel);
  test_case_modes(suite, "every-gradient", MODES_ALL, every_gradient);
  test_case_run(suite, "cache-folders", cache_folders);
  test_case_run(suite, "exit-with-everything-open", exit_with_everything_open);
  test_case_run(suite, "trace-tells", trace_tells);
  test_case_run(suite, "family-by-environment", family_by_environment);
}
