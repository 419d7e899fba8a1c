/* Gate logits on the stub's cuBLAS, forward and backward, against sums in double. Sizes that differ in every dimension, so that no exchange
 * of two of them goes unnoticed. */
#include "common.h"

#define ROWS    7
#define INPUTS  5
#define OUTPUTS 3

enum { X, W, BIAS, G, DG, DX, DW, DBIAS, ARRAYS };

static const size_t counts[ARRAYS] = {ROWS * INPUTS, OUTPUTS *INPUTS, OUTPUTS,         ROWS *OUTPUTS,
                                      ROWS *OUTPUTS, ROWS *INPUTS,    OUTPUTS *INPUTS, OUTPUTS};
static const char *const names[ARRAYS] = {"x", "w", "bias", "g", "dg", "dx", "dw", "dbias"};

/* What each output must be; rows: how many there are. */
static double expected(float *const in[ARRAYS], int array, size_t at, size_t rows, int has_bias) {
  double sum = 0.0;
  size_t i = at / OUTPUTS, o = at % OUTPUTS;
  switch (array) {
    case G:
      for (size_t c = 0; c < INPUTS; ++c) sum += (double)in[X][i * INPUTS + c] * in[W][o * INPUTS + c];
      return has_bias ? sum + in[BIAS][o] : sum;
    case DX:
      for (o = 0; o < OUTPUTS; ++o) sum += (double)in[DG][at / INPUTS * OUTPUTS + o] * in[W][o * INPUTS + at % INPUTS];
      return sum;
    case DW:
      for (i = 0; i < rows; ++i) sum += (double)in[DG][i * OUTPUTS + at / INPUTS] * in[X][i * INPUTS + at % INPUTS];
      return sum;
    default:
      for (i = 0; i < rows; ++i) sum += in[DG][i * OUTPUTS + at];
      return sum;
  }
}

static size_t written(int array, size_t rows) {
  return array == G || array == DX ? counts[array] / ROWS * rows : counts[array];
}

static void compare(float *const in[ARRAYS], sattn_buffer *buffers[ARRAYS], int array, size_t rows, int has_bias) {
  float got[ROWS * INPUTS];
  sattn_error error;
  OK(sattn_buffer_read(buffers[array], 0, got, counts[array] * sizeof *got, &error));
  for (size_t at = 0; at < counts[array]; ++at) {
    if (at >= written(array, rows)) {
      CHECK(got[at] == -7.0f, "%s[%zu] was written", names[array], at);
      continue;
    }
    double want = expected(in, array, at, rows, has_bias);
    CHECK(got[at] - want <= 1e-5 && want - got[at] <= 1e-5, "%s[%zu] is %g, not %g (%zu rows)", names[array], at, (double)got[at], want,
          rows);
  }
}

static void run(sattn_context *context, size_t rows, int has_bias, sattn_queue queue) {
  test_random random = test_random_open(test_seed(), "gate");
  sattn_gate_options options;
  sattn_gate_plan *plan = NULL;
  sattn_gate_args args;
  sattn_buffer *buffers[ARRAYS];
  sattn_error error;
  float *in[ARRAYS];
  sattn_gate_options_init(&options);
  options.max_rows = ROWS;
  options.inputs = INPUTS;
  options.outputs = OUTPUTS;
  options.has_bias = has_bias;
  OK(sattn_gate_plan_create(context, &options, &plan, &error));
  if (!plan) return;
  sattn_gate_args_init(&args);
  sattn_array *const places[ARRAYS] = {&args.input,       &args.weight,     &args.bias,        &args.logits,
                                       &args.grad_logits, &args.grad_input, &args.grad_weight, &args.grad_bias};
  for (int a = 0; a < ARRAYS; ++a) {
    in[a] = test_random_array(&random, SATTN_FP32, counts[a], 1.0);
    for (size_t at = 0; a != X && a != W && a != BIAS && a != DG && at < counts[a]; ++at) in[a][at] = -7.0f;
    OK(sattn_buffer_create(context, counts[a] * sizeof(float), &buffers[a], &error));
    OK(sattn_buffer_write(buffers[a], 0, in[a], counts[a] * sizeof(float), &error));
    places[a]->buffer = a == BIAS && !has_bias ? NULL : buffers[a];
  }
  if (!has_bias) args.grad_bias.buffer = NULL;
  args.rows = (int64_t)rows;
  OK(sattn_buffer_create(context, sattn_gate_plan_workspace(plan), &args.workspace, &error));
  OK(sattn_gate_forward(plan, &args, queue, NULL, 0, NULL, &error));
  OK(sattn_gate_backward(plan, &args, queue, NULL, 0, NULL, &error));
  OK(sattn_queue_finish(context, queue, &error));
  for (int a = G; a < (has_bias ? ARRAYS : DBIAS); ++a) {
    if (a != DG) compare(in, buffers, a, rows, has_bias);
  }
  for (int a = 0; a < ARRAYS; ++a) sattn_buffer_destroy(&buffers[a]);
  sattn_buffer_destroy(&args.workspace);
  sattn_gate_plan_destroy(&plan);
  test_memory_release();
}

int main(void) {
  sattn_context *context = NULL;
  sattn_error error;
  CUstream stream = NULL;
  CUcontext primary = NULL;
  const sattn_queue own = {NULL};
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  run(context, ROWS, 1, own);
  run(context, ROWS, 0, own);
  run(context, 4, 1, own);
  run(context, 0, 1, own);
  DRIVER_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  DRIVER_OK(cuCtxPushCurrent(primary));
  DRIVER_OK(cuStreamCreate(&stream, 1));
  DRIVER_OK(cuCtxPopCurrent(NULL));
  run(context, ROWS, 1, sattn_queue_cuda(stream));
  CHECK(sattn_stub_context_depth() == 0, "%d contexts stay pushed", sattn_stub_context_depth());
  DRIVER_OK(cuCtxPushCurrent(primary));
  DRIVER_OK(cuStreamDestroy(stream));
  DRIVER_OK(cuCtxPopCurrent(NULL));
  DRIVER_OK(cuDevicePrimaryCtxRelease(0));
  sattn_context_destroy(&context);
  nothing_left("gate logits");
  return report("gate");
}
