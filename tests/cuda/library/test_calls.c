/* What calls do on the driver: no allocation and no waiting while they are enqueued, recordable into a graph, the caller's context left
 * alone, several streams and devices, and the caller's own CUcontext and device pointers.
 */
#include <stdlib.h>

#include "common.h"

static const sattn_queue own_queue = {NULL};

static void expect(const test_call *call, test_result *out_result) {
  const char *fault = NULL;
  sattn_error error;
  OK(run_alone("cuda:0", call, out_result, &fault, &error));
  CHECK(!fault, "%s", fault);
}

static void fetch_and_compare(test_run *run, const test_result *expected, const char *what) {
  test_result result;
  sattn_error error;
  const char *fault = test_run_fetch(run, &result, &error);
  if (fault) {
    fail(__FILE__, __LINE__, "%s: %s", what, fault);
  } else {
    same_bits(run->call, expected, &result, what);
  }
}

/* ---- enqueueing ---- */

/* Functions that no call may use between its start and its return. Each is armed to fail, which would fail the call. */
static void allocates_nothing(const test_call *call, const test_result *expected) {
  static const char *const forbidden[] = {
      "cuMemAlloc",          "cuMemAllocAsync", "cuMemFree",         "cuMemFreeAsync",     "cuMemAllocHost", "cuMemHostAlloc",
      "cuStreamSynchronize", "cuStreamQuery",   "cuCtxSynchronize",  "cuEventSynchronize", "cuEventQuery",   "cuModuleLoadData",
      "cuMemcpyHtoD",        "cuMemcpyDtoH",    "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",  "cuStreamCreate", "cuModuleGetFunction"};
  sattn_context *context = NULL;
  sattn_error error;
  test_run run;
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  OK(test_run_open(context, call, NULL, &run, &error));
  for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; ++i) {
    for (int versioned = 0; versioned <= 1; ++versioned) {
      char name[48];
      snprintf(name, sizeof name, versioned ? "%s_v2" : "%s", forbidden[i]);
      OK(test_run_send(&run, &error));
      sattn_stub_fail_name(name, 0, 999);
      OK(test_run_enqueue(&run, own_queue, NULL, 0, NULL, &error));
      sattn_stub_fail_name(NULL, 0, 0);
      OK(sattn_queue_finish(context, own_queue, &error));
    }
  }
  fetch_and_compare(&run, expected, "after all");
  /* The arming does work: a call that is used fails by its name. */
  sattn_stub_fail_name("cuLaunchKernel", 0, 999);
  CHECK(test_run_enqueue(&run, own_queue, NULL, 0, NULL, &error) == SATTN_DRIVER_ERROR, "cuLaunchKernel was not made to fail");
  test_run_close(&run);
  sattn_context_destroy(&context);
  nothing_left("enqueueing");
}

static void graph(const test_call *call, const test_result *expected) {
  sattn_context *context = NULL;
  sattn_error error;
  test_run run;
  CUstream stream;
  CUgraph recorded;
  CUgraphExec executable;
  CUcontext primary;
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  OK(test_run_open(context, call, NULL, &run, &error));
  DRIVER_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  DRIVER_OK(cuCtxPushCurrent(primary));
  DRIVER_OK(cuStreamCreate(&stream, 1));
  DRIVER_OK(cuStreamBeginCapture(stream, 0));
  OK(test_run_enqueue(&run, sattn_queue_cuda(stream), NULL, 0, NULL, &error));
  DRIVER_OK(cuStreamEndCapture(stream, &recorded));
  DRIVER_OK(cuGraphInstantiate(&executable, recorded, 0));
  for (int replay = 0; replay < 2; ++replay) {
    OK(test_run_send(&run, &error)); /* poisons the outputs, too */
    DRIVER_OK(cuGraphLaunch(executable, stream));
    OK(sattn_queue_finish(context, sattn_queue_cuda(stream), &error));
    fetch_and_compare(&run, expected, replay ? "second replay" : "first replay");
  }
  DRIVER_OK(cuGraphExecDestroy(executable));
  DRIVER_OK(cuGraphDestroy(recorded));
  DRIVER_OK(cuStreamDestroy(stream));
  DRIVER_OK(cuCtxPopCurrent(NULL));
  DRIVER_OK(cuDevicePrimaryCtxRelease(0));
  test_run_close(&run);
  sattn_context_destroy(&context);
  nothing_left("a graph");
}

/* ---- the caller's context ---- */

static CUcontext current(void) {
  CUcontext context = NULL;
  DRIVER_OK(cuCtxGetCurrent(&context));
  return context;
}

#define UNCHANGED(expression)                                                                                   \
  do {                                                                                                          \
    CUcontext before_ = current();                                                                              \
    int depth_ = sattn_stub_context_depth();                                                                    \
    expression;                                                                                                 \
    CHECK(current() == before_ && sattn_stub_context_depth() == depth_, "%s changes the context", #expression); \
  } while (0)

static void every_entry(const test_call *call) {
  sattn_context *context = NULL;
  sattn_plan *plan = NULL;
  sattn_event event = {NULL};
  sattn_error error;
  sattn_plan_info info;
  test_result result;
  test_run run;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  UNCHANGED(OK(sattn_context_create("cuda:0", NULL, &context, &error)));
  UNCHANGED(OK(sattn_plan_create(context, &call->attention, &call->sizes, SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD, &plan, &error)));
  UNCHANGED(OK(test_run_open(context, call, plan, &run, &error)));
  UNCHANGED(OK(test_run_send(&run, &error)));
  UNCHANGED(OK(test_run_enqueue(&run, own_queue, NULL, 0, &event, &error)));
  UNCHANGED(OK(sattn_event_wait(context, event, &error)));
  UNCHANGED(sattn_event_release(context, &event));
  UNCHANGED(OK(sattn_queue_finish(context, own_queue, &error)));
  UNCHANGED(CHECK(!test_run_fetch(&run, &result, &error), "the result"));
  if (run.permutation) UNCHANGED(OK(sattn_permutation_redraw(run.permutation, &call->key, &error)));
  sattn_stub_fail_name("cuLaunchKernel", 0, 2);
  UNCHANGED(CHECK(test_run_enqueue(&run, own_queue, NULL, 0, NULL, &error) != SATTN_OK, "a failed launch"));
  UNCHANGED(test_run_close(&run));
  UNCHANGED(sattn_plan_destroy(&plan));
  UNCHANGED(sattn_context_destroy(&context));
}

static void callers_context(const test_call *call) {
  CUcontext other;
  every_entry(call); /* with none */
  DRIVER_OK(cuDevicePrimaryCtxRetain(&other, 1));
  DRIVER_OK(cuCtxPushCurrent(other));
  every_entry(call); /* with one of another device */
  DRIVER_OK(cuCtxPopCurrent(NULL));
  DRIVER_OK(cuDevicePrimaryCtxRelease(1));
  nothing_left("every entry");
}

/* The library on the caller's CUcontext and memory. */
static void imported(const test_call *call, const test_result *expected) {
  sattn_context *context = NULL;
  sattn_buffer *buffer = NULL;
  sattn_error error;
  test_result result;
  const char *fault = NULL;
  CUcontext primary;
  CUdeviceptr memory;
  float there[4] = {1, 2, 3, 4}, back[4] = {0, 0, 0, 0};
  DRIVER_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  OK(sattn_context_create_cuda(primary, NULL, &context, &error));
  OK(run_on(context, call, &result, &fault, &error));
  CHECK(!fault, "%s", fault);
  same_bits(call, expected, &result, "on the caller's context");
  DRIVER_OK(cuCtxPushCurrent(primary));
  DRIVER_OK(cuMemAlloc(&memory, sizeof there));
  DRIVER_OK(cuMemcpyHtoD(memory, there, sizeof there));
  OK(sattn_buffer_wrap_cuda(context, memory, sizeof there, &buffer, &error));
  OK(sattn_buffer_read(buffer, 0, back, sizeof back, &error));
  CHECK(memcmp(there, back, sizeof there) == 0, "wrapped memory holds something else");
  sattn_buffer_destroy(&buffer);
  CHECK(sattn_buffer_wrap_cuda(context, memory, UINT64_MAX, &buffer, &error) == SATTN_INVALID_ARGUMENT && !buffer,
        "2^64 - 1 bytes are wrapped");
  sattn_context_destroy(&context);
  DRIVER_OK(cuMemFree(memory)); /* still the caller's */
  DRIVER_OK(cuCtxPopCurrent(NULL));
  DRIVER_OK(cuDevicePrimaryCtxRelease(0));
  nothing_left("an imported context");
}

/* ---- streams and devices ---- */

static void two_streams(const test_call *a, const test_result *expected_a, const test_call *b, const test_result *expected_b) {
  sattn_context *context = NULL;
  sattn_error error;
  test_run run[2];
  CUstream stream[2];
  CUcontext primary;
  sattn_event event = {NULL};
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  DRIVER_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  DRIVER_OK(cuCtxPushCurrent(primary));
  for (int i = 0; i < 2; ++i) {
    DRIVER_OK(cuStreamCreate(&stream[i], 1));
    OK(test_run_open(context, i ? b : a, NULL, &run[i], &error));
    OK(test_run_send(&run[i], &error));
  }
  /* Side by side, then the backward of one behind the other stream. */
  OK(sattn_forward(run[0].plan, &run[0].forward, sattn_queue_cuda(stream[0]), NULL, 0, &event, &error));
  OK(test_run_enqueue(&run[1], sattn_queue_cuda(stream[1]), NULL, 0, NULL, &error));
  OK(sattn_backward(run[0].plan, &run[0].backward, sattn_queue_cuda(stream[1]), &event, 1, NULL, &error));
  sattn_event_release(context, &event);
  for (int i = 1; i >= 0; --i) OK(sattn_queue_finish(context, sattn_queue_cuda(stream[i]), &error));
  fetch_and_compare(&run[0], expected_a, "forward and backward on two streams");
  fetch_and_compare(&run[1], expected_b, "beside it");
  for (int i = 0; i < 2; ++i) {
    test_run_close(&run[i]);
    DRIVER_OK(cuStreamDestroy(stream[i]));
  }
  DRIVER_OK(cuCtxPopCurrent(NULL));
  DRIVER_OK(cuDevicePrimaryCtxRelease(0));
  sattn_context_destroy(&context);
  nothing_left("two streams");
}

static void two_devices(const test_call *call, const test_result *expected) {
  static const char *const ids[2] = {"cuda:0", "cuda:1"};
  sattn_context *context[2] = {NULL, NULL};
  sattn_error error;
  test_run run[2];
  uint32_t count = 0;
  OK(sattn_device_count(SATTN_BACKEND_CUDA, &count, &error));
  CHECK(count == 2, "%u devices", count);
  for (int i = 0; i < 2; ++i) {
    OK(sattn_context_create(ids[i], NULL, &context[i], &error));
    OK(test_run_open(context[i], call, NULL, &run[i], &error));
    OK(test_run_send(&run[i], &error));
  }
  for (int i = 0; i < 2; ++i) OK(test_run_enqueue(&run[i], own_queue, NULL, 0, NULL, &error));
  for (int i = 0; i < 2; ++i) {
    OK(sattn_queue_finish(context[i], own_queue, &error));
    fetch_and_compare(&run[i], expected, ids[i]);
  }
  sattn_forward_args mixed = run[0].forward;
  mixed.key.buffer = run[1].forward.key.buffer;
  CHECK(sattn_forward(run[0].plan, &mixed, own_queue, NULL, 0, NULL, &error) != SATTN_OK, "memory of another device is taken");
  for (int i = 0; i < 2; ++i) {
    test_run_close(&run[i]);
    sattn_context_destroy(&context[i]);
  }
  CHECK(sattn_context_create("cuda:2", NULL, &context[0], &error) != SATTN_OK, "there is no third device");
  nothing_left("two devices");
}

/* A batch entry at a stride that the fast kernels cannot read takes the general one, alone as well as in a batch: its bits must not tell.
 */
static void batch_stride(void) {
  sattn_context_options options;
  sattn_error error;
  test_call call;
  test_result result[2];
  sattn_context_options_init(&options);
  small_call(&call, SATTN_STOCHASTIC, SATTN_FP16, 1, 9, 64);
  for (int general = 0; general < 2; ++general) {
    sattn_context *context = NULL;
    const char *fault = NULL;
    options.kernels = general ? SATTN_KERNELS_GENERAL : SATTN_KERNELS_AUTO;
    OK(sattn_context_create("cuda:0", &options, &context, &error));
    OK(run_on(context, &call, &result[general], &fault, &error));
    sattn_context_destroy(&context);
  }
  int differs = getenv("SATTN_KERNELS") != NULL;
  for (size_t i = 0; i < test_shape_count(test_output_shape(&call, TEST_OUT)); ++i) {
    differs |= result[0].output[TEST_OUT][i] != result[1].output[TEST_OUT][i];
  }
  CHECK(differs, "the fast kernel has the bits of the general one, so this test shows nothing");
  sattn_context *context = NULL;
  test_run run;
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  OK(test_run_open(context, &call, NULL, &run, &error));
  const sattn_tensor odd = {run.forward.key.buffer, run.forward.key.offset, 9 * 64 + 1, 64, 64};
  run.forward.key = run.backward.key = odd;
  OK(test_run_send(&run, &error));
  OK(test_run_enqueue(&run, own_queue, NULL, 0, NULL, &error));
  OK(sattn_queue_finish(context, own_queue, &error));
  fetch_and_compare(&run, &result[1], "odd batch stride");
  test_run_close(&run);
  sattn_context_destroy(&context);
}

/* More rows than a launch has blocks for: the support query says so, and the plan with it. */
static void many_rows(void) {
  static const struct {
    int32_t head_dim;
    int64_t batch;
    sattn_status status;
  } cases[] = {
      {8, (1 << 20) - 1, SATTN_OK},     /* general: four rows a block */
      {8, 1 << 20, SATTN_UNSUPPORTED},  /* 2^33 rows */
      {64, (1 << 18) - 1, SATTN_OK},    /* fast */
      {64, 1 << 18, SATTN_UNSUPPORTED}, /* 2^31 rows */
  };
  sattn_error error;
  sattn_context *context = NULL;
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  /* Told to use general kernels for everything, head_dim 64 has no others. */
  const size_t count = getenv("SATTN_KERNELS") ? 2 : sizeof cases / sizeof cases[0];
  for (size_t i = 0; i < count; ++i) {
    sattn_attention attention;
    sattn_attention_init(&attention);
    attention.mode = SATTN_FULL;
    attention.causal = 1;
    attention.heads = attention.kv_heads = 64;
    attention.head_dim = cases[i].head_dim;
    attention.dtype = SATTN_FP16;
    const sattn_sizes sizes = {cases[i].batch, 128, 128};
    sattn_plan_info info;
    sattn_plan_info_init(&info);
    sattn_status status = sattn_plan_query(context, &attention, &sizes, SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD, &info, &error);
    CHECK(status == cases[i].status, "case %zu: status %d, %s", i, (int)status, error.message);
    CHECK(status == SATTN_OK || strcmp(error.argument, "maxima") == 0, "case %zu names %s", i, error.argument);
  }
  sattn_context_destroy(&context);
}

int main(void) {
  static const sattn_mode modes[] = {SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION, SATTN_GATED, SATTN_MOBA};
  sattn_stub_set("devices", 2);
  sattn_stub_set("memory", INT64_C(1) << 44);
  test_call other;
  test_result expected_other;
  small_call(&other, SATTN_UNION, SATTN_BF16, 2, 9, 16);
  expect(&other, &expected_other);
  for (size_t i = 0; i < sizeof modes / sizeof modes[0] && !failures; ++i) {
    for (int dtype = SATTN_FP32; dtype <= SATTN_FP16; ++dtype) {
      test_call call;
      test_result expected;
      small_call(&call, modes[i], (sattn_dtype)dtype, 2, 9, dtype == SATTN_FP16 ? 64 : 16);
      expect(&call, &expected);
      nothing_left("a call");
      allocates_nothing(&call, &expected);
      graph(&call, &expected);
      two_streams(&call, &expected, &other, &expected_other);
      two_devices(&call, &expected);
      imported(&call, &expected);
      callers_context(&call);
    }
  }
  batch_stride();
  many_rows();
  test_memory_release();
  return report("calls");
}
