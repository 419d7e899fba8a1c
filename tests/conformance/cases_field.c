/* Field faults that no other file has: P-S13, P-N8, P-N10, P-H3, P-H8, P-M6. docs/field-cases.md says where the others are. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conformance.h"

/* P-N8: a constant added to all scores is added to LSE. The last element of Q is 1, that of K is the constant. */
static void lse_shifts(test_env *env) {
  test_call call;
  test_result plain;
  test_result shifted;
  const float constant = 24;
  test_call_init(&call, env->mode, 1, 33, 33, 2, 2, 16);
  call.attention.scale = 1;
  test_call_fill(&call, &env->random, 0.5);
  float *q = test_call_edit(&call, TEST_QUERY);
  float *k = test_call_edit(&call, TEST_KEY);
  for (int64_t row = 0; row < 33 * 2; ++row) {
    q[row * 16 + 15] = 1;
    k[row * 16 + 15] = 0;
  }
  if (!test_call_ok(env, &call, "plain", &plain)) return;
  k = test_call_edit(&call, TEST_KEY);
  for (int64_t row = 0; row < 33 * 2; ++row) k[row * 16 + 15] = constant;
  if (!test_call_ok(env, &call, "shifted", &shifted)) return;
  for (int o = TEST_LSE; o <= TEST_LSE_SWA; ++o) {
    for (int64_t i = 0; plain.output[o] && i < 33 * 2; ++i) {
      double difference = (double)shifted.output[o][i] - (double)plain.output[o][i];
      if (!(fabs(difference - (double)constant) <= 1e-4))
        test_fail(env->suite, "%s: row %lld differs by %.7g", test_output_name((test_output)o), (long long)i, difference);
    }
  }
}

/* P-N10: no program is built with options that forget infinities and NaN. */
static void build_options(test_env *env) {
  static const char *const environment[] = {"SATTN_TRACE=all", NULL};
  static const char *const forbidden[] = {"finite-math", "fast-relaxed-math", "unsafe-math", "fast_math", "denorms-are-zero"};
  test_child_result result;
  test_child_run("use", env->suite->info.id, environment, &result);
  if (result.status != 0) test_fail(env->suite, "exit status %d, signal %d", result.status, result.signal);
  for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; ++i) {
    if (strstr(result.output, forbidden[i])) test_fail(env->suite, "built with %s: %.300s", forbidden[i], result.output);
  }
  if (env->suite->backend == SATTN_BACKEND_OPENCL && !strstr(result.output, "-cl-std=CL1.2"))
    test_fail(env->suite, "the trace does not tell the options: %.300s", result.output);
}

/* P-H3: gradients at lengths around tiles, and one length beyond a thousand. */
static void gradients_token_counts(test_env *env) {
  static const int64_t counts[] = {2, 15, 16, 17, 31, 33, 63, 65, 127, 129, 257, 1025};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    test_call call;
    char label[32];
    int64_t n = counts[i];
    /* The general kernels of MOBA are allowed to be slow. */
    if (env->mode == SATTN_MOBA && n > 129) continue;
    test_call_init(&call, env->mode, 1, n, n, 2, 1, n > 1000 || env->mode == SATTN_MOBA ? 16 : 64);
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(n < 40 ? n : 40);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(n < 40 ? n : 40);
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    snprintf(label, sizeof label, "n = %lld", (long long)n);
    test_check_oracle(env, &call, label);
  }
}

/* ---- P-H8: offsets and strides beyond 2^31 elements ---- */

#define FAR_STRIDE (INT64_C(1) << 31)
#define FAR_TOKENS 3
#define FAR_DIM    8

/* Two heads, 2^31 elements apart, in one array: rows of head h at h * stride. Only the pages of these rows are ever touched. */
static sattn_status far_copy(sattn_buffer *buffer, int64_t offset, uint16_t *rows, int write, sattn_error *error) {
  sattn_status status = SATTN_OK;
  size_t bytes = FAR_TOKENS * FAR_DIM * sizeof *rows;
  for (int64_t h = 0; h < 2 && !status; ++h) {
    uint64_t at = (uint64_t)(offset + h * FAR_STRIDE) * sizeof *rows;
    uint16_t *here = rows + h * FAR_TOKENS * FAR_DIM;
    status = write ? sattn_buffer_write(buffer, at, here, bytes, error) : sattn_buffer_read(buffer, at, here, bytes, error);
  }
  return status;
}

static void far_check(test_env *env, sattn_buffer *buffer, sattn_plan *plan) {
  uint16_t rows[2 * FAR_TOKENS * FAR_DIM];
  sattn_forward_args args;
  sattn_error error;
  sattn_queue queue = {NULL};
  const sattn_sizes sizes = {1, FAR_TOKENS, FAR_TOKENS};
  const int64_t room = FAR_TOKENS * FAR_DIM;
  sattn_forward_args_init(&args);
  args.sizes = sizes;
  for (int i = 0; i < 3; ++i) {
    sattn_tensor tensor = {buffer, i * room, 2 * FAR_STRIDE, FAR_DIM, FAR_STRIDE};
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; ++at) rows[at] = sattn_fp16_from_float(i < 2 ? 0.0f : (float)(at / FAR_DIM));
    if (far_copy(buffer, tensor.offset, rows, 1, &error)) {
      test_fail(env->suite, "%s", error.message);
      return;
    }
    *(i == 0 ? &args.query : i == 1 ? &args.key : &args.value) = tensor;
  }
  args.out = (sattn_tensor){buffer, 3 * room, 2 * FAR_STRIDE, FAR_DIM, FAR_STRIDE};
  uint64_t workspace = sattn_plan_workspace(plan, SATTN_PASS_FORWARD);
  if (workspace && sattn_buffer_create(env->context, workspace, &args.workspace, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  if (sattn_forward(plan, &args, queue, NULL, 0, NULL, &error) || sattn_queue_finish(env->context, queue, &error) ||
      far_copy(buffer, args.out.offset, rows, 0, &error))
    test_fail(env->suite, "%s", error.message);
  /* Q = 0: token i is the mean of the value rows 0..i of its head. */
  for (int row = 0; row < 2 * FAR_TOKENS; ++row) {
    float expected = (float)(row / FAR_TOKENS * FAR_TOKENS) + (float)(row % FAR_TOKENS) / 2;
    float got = sattn_fp16_to_float(rows[row * FAR_DIM]);
    if (!(fabsf(got - expected) <= 4e-3f)) test_fail(env->suite, "row %d is %g, not %g", row, (double)got, (double)expected);
  }
  sattn_buffer_destroy(&args.workspace);
}

static void far_offsets(test_env *env) {
  sattn_buffer *buffer = NULL;
  sattn_plan *plan = NULL;
  sattn_error error;
  test_call call;
  test_call_init(&call, SATTN_FULL, 1, FAR_TOKENS, FAR_TOKENS, 2, 2, FAR_DIM);
  call.attention.dtype = SATTN_FP16;
  uint64_t bytes = ((uint64_t)FAR_STRIDE + 4 * FAR_TOKENS * FAR_DIM) * 2;
  /* Drivers allow less, or the machine has less: a status that names both sizes is the other right answer. */
  sattn_status status = sattn_buffer_create(env->context, bytes, &buffer, &error);
  if (status) {
    test_check_refusal(env, "4 GiB", status, SATTN_OUT_OF_MEMORY, &error, "");
    return;
  }
  if (sattn_plan_create(env->context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &plan, &error)) {
    test_fail(env->suite, "%s", error.message);
  } else {
    far_check(env, buffer, plan);
  }
  sattn_plan_destroy(&plan);
  sattn_buffer_destroy(&buffer);
}

/* ---- P-M6 ---- */

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  fclose(file);
  return resident;
}

/* Thousands of calls leave nothing behind. SATTN_TEST_CALLS asks for more of them. */
static void many_calls(test_env *env) {
  const char *more = getenv("SATTN_TEST_CALLS");
  int calls = more ? atoi(more) : 400;
  long before = 0;
  test_call call;
  test_run run;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_call_init(&call, env->mode, 1, 8, 8, 2, 1, 16);
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 0);
  if (test_run_open(env->context, &call, NULL, &run, &error) || test_run_send(&run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  for (int i = 0; i < calls + 100; ++i) {
    sattn_event event = {NULL};
    if (i == 100) before = resident_pages();
    if (test_run_enqueue(&run, queue, NULL, 0, &event, &error) || sattn_event_wait(env->context, event, &error)) {
      test_fail(env->suite, "call %d: %s", i, error.message);
      break;
    }
    sattn_event_release(env->context, &event);
  }
  test_run_close(&run);
  /* An event or a kernel object left by every call would be 64 bytes and more. */
  long grown = (resident_pages() - before) * (sysconf(_SC_PAGESIZE) / 1024);
  if (grown > 256 + calls / 32) test_fail(env->suite, "%d calls, and %ld KiB more in memory", calls, grown);
}

/* P-S13: a plan keeps what it was told; the description may go. */
static void description_may_go(test_env *env) {
  test_call call;
  test_call gone;
  test_run run;
  test_result result;
  sattn_error error;
  sattn_plan *plan = NULL;
  sattn_queue queue = {NULL};
  test_call_init(&call, env->mode, 1, 20, 20, 2, 1, 64);
  test_call_fill(&call, &env->random, 1.0);
  gone = call;
  if (sattn_plan_create(env->context, &gone.attention, &gone.sizes, SATTN_PASS_FORWARD, &plan, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  memset(&gone, 0xff, sizeof gone);
  if (test_run_open(env->context, &call, plan, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
  } else {
    if (test_run_send(&run, &error) || test_run_enqueue(&run, queue, NULL, 0, NULL, &error) ||
        sattn_queue_finish(env->context, queue, &error)) {
      test_fail(env->suite, "%s", error.message);
    } else {
      const char *fault = test_run_fetch(&run, &result, &error);
      if (fault) test_fail(env->suite, "%s", fault);
      test_check_result(env, &call, "after the description is gone", &result);
    }
    test_run_close(&run);
  }
  sattn_plan_destroy(&plan);
}

void cases_field(test_suite *suite) {
  test_case_modes(suite, "lse-shifts", MODES_ALL, lse_shifts);
  test_case_run(suite, "build-options", build_options);
  test_case_modes(suite, "gradients-token-counts", MODES_ALL, gradients_token_counts);
  test_case_run(suite, "far-offsets", far_offsets);
  test_case_modes(suite, "many-calls", MODE(SATTN_STOCHASTIC) | MODE(SATTN_MOBA), many_calls);
  test_case_modes(suite, "description-may-go", MODE(SATTN_FULL) | MODE(SATTN_UNION), description_may_go);
}
