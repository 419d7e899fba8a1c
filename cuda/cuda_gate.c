#include "cuda_gate.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_buffer.h"
#include "cuda_event.h"
#include "cuda_program.h"
#include "dynlib.h"
#include "kernels/gate_params.h"

#define INSTALL_HINT "install cuBLAS (package libcublas of the CUDA toolkit)"

/* What cuBLAS may use for itself. Its manual asks for 4 MiB before Hopper and 32 MiB from it on. */
#define WORKSPACE_BYTES        (4u << 20)
#define WORKSPACE_BYTES_HOPPER (32u << 20)

enum { PLAIN = 0, TRANSPOSED = 1, BLAS_SUCCESS = 0 };

/* The part of cuBLAS's stable ABI that is used; a handle is a pointer, enums are ints. Matrices are column-major there. */
typedef struct cublas_api {
  int (*create)(void **);
  int (*destroy)(void *);
  int (*set_stream)(void *, sattn_cu_stream);
  int (*set_workspace)(void *, void *, size_t);
  int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);
} cublas_api;

static const char *const library_names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so", NULL};

static const sattn_symbol symbols[] = {
    {"cublasCreate_v2", offsetof(cublas_api, create), 1},        {"cublasDestroy_v2", offsetof(cublas_api, destroy), 1},
    {"cublasSetStream_v2", offsetof(cublas_api, set_stream), 1}, {"cublasSetWorkspace_v2", offsetof(cublas_api, set_workspace), 1},
    {"cublasSgemm_v2", offsetof(cublas_api, sgemm), 1},
};

/* plan->impl. A handle holds stream and workspace, so calls take turns from setting them to the last launch. */
typedef struct gate_state {
  pthread_mutex_t lock;
  cublas_api blas;
  void *library;
  void *handle;
  sattn_cu_function fill_bias, column_sums;
} gate_state;

static sattn_status check_blas(int code, const char *function, sattn_error *error) {
  if (code == BLAS_SUCCESS) return SATTN_OK;
  return sattn_fail_driver(error, code == 3 ? SATTN_OUT_OF_MEMORY : SATTN_DRIVER_ERROR, code, "%s returned %d", function, code);
}

static uint64_t blas_workspace(const sattn_context *context) {
  return context->device.compute_capability >= 90 ? WORKSPACE_BYTES_HOPPER : WORKSPACE_BYTES;
}

static sattn_status open_state(sattn_context *context, gate_state *state, sattn_error *error) {
  sattn_status status =
      sattn_dynlib_open(library_names, symbols, sizeof symbols / sizeof symbols[0], &state->blas, INSTALL_HINT, &state->library, error);
  if (status == SATTN_OK) status = check_blas(state->blas.create(&state->handle), "cublasCreate", error);
  sattn_cuda_program *program = NULL;
  if (status == SATTN_OK) status = sattn_cuda_program_get(context, "gate", &program, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "gate_fill_bias", 0, &state->fill_bias, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "gate_column_sums", 0, &state->column_sums, error);
  return status;
}

sattn_status sattn_cuda_gate_prepare(sattn_gate_plan *plan, sattn_error *error) {
  if (plan->max_rows > INT32_MAX || plan->inputs > INT32_MAX || plan->outputs > INT32_MAX) {
    return sattn_fail(error, SATTN_UNSUPPORTED, "max_rows", "cuBLAS takes at most 2147483647 rows, inputs and outputs");
  }
  gate_state *state = calloc(1, sizeof *state);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a gate plan of %zu bytes", sizeof *state);
  pthread_mutex_init(&state->lock, NULL);
  plan->impl = state;
  plan->workspace = blas_workspace(plan->context);
  sattn_status status = sattn_cuda_enter(plan->context, error);
  if (status == SATTN_OK) status = sattn_cuda_leave(plan->context, open_state(plan->context, state, error), error);
  if (status != SATTN_OK) sattn_cuda_gate_destroy(plan);
  return status;
}

void sattn_cuda_gate_destroy(sattn_gate_plan *plan) {
  gate_state *state = plan->impl;
  if (!state) return;
  if (state->handle && sattn_cuda_enter(plan->context, NULL) == SATTN_OK) {
    state->blas.destroy(state->handle);
    sattn_cuda_leave(plan->context, SATTN_OK, NULL);
  }
  /* The library itself stays open, as drivers do: it has threads and exit handlers of its own. */
  pthread_mutex_destroy(&state->lock);
  free(state);
  plan->impl = NULL;
}

/* ---- execution ---- */

static float *floats(const sattn_array *array) {
  return (float *)(uintptr_t)sattn_cuda_address(array->buffer, array->offset * (int64_t)sizeof(float));
}

/* C [m, n] = A B + beta C, all column-major. */
typedef struct product {
  int transpose_a, transpose_b;
  int64_t m, n, k;
  const float *a, *b;
  int64_t row_a, row_b, row_c;
  float beta;
  float *c;
} product;

static sattn_status multiply(const gate_state *state, const product *p, sattn_error *error) {
  const float one = 1.0f;
  int code = state->blas.sgemm(state->handle, p->transpose_a, p->transpose_b, (int)p->m, (int)p->n, (int)p->k, &one, p->a, (int)p->row_a,
                               p->b, (int)p->row_b, &p->beta, p->c, (int)p->row_c);
  return check_blas(code, "cublasSgemm", error);
}

static sattn_status launch_small(sattn_cuda_chain *chain, sattn_cu_function kernel, const float *source, float *target, int64_t rows,
                                 int64_t outputs, int64_t threads, sattn_error *error) {
  sattn_cuda_gate_call call = {source, target, rows, outputs};
  sattn_cuda_grid grid = {((uint64_t)threads + SATTN_GATE_THREADS - 1) / SATTN_GATE_THREADS, SATTN_GATE_THREADS, 0};
  return sattn_cuda_chain_launch(chain, kernel, &grid, &call, error);
}

/* Row-major G = X W^T is column-major G^T = W X^T, which is what cuBLAS sees. */
static sattn_status run_forward(const sattn_gate_plan *plan, const gate_state *state, const sattn_gate_args *args, sattn_cuda_chain *chain,
                                sattn_error *error) {
  int64_t rows = args->rows, inputs = plan->inputs, outputs = plan->outputs;
  sattn_status status = SATTN_OK;
  if (plan->has_bias) {
    status = launch_small(chain, state->fill_bias, floats(&args->bias), floats(&args->logits), rows, outputs, rows * outputs, error);
  }
  product p = {TRANSPOSED,
               PLAIN,
               outputs,
               rows,
               inputs,
               floats(&args->weight),
               floats(&args->input),
               inputs,
               inputs,
               outputs,
               plan->has_bias ? 1.0f : 0.0f,
               floats(&args->logits)};
  return status == SATTN_OK ? multiply(state, &p, error) : status;
}

static sattn_status run_backward(const sattn_gate_plan *plan, const gate_state *state, const sattn_gate_args *args, sattn_cuda_chain *chain,
                                 sattn_error *error) {
  int64_t rows = args->rows, inputs = plan->inputs, outputs = plan->outputs;
  const float *grad = floats(&args->grad_logits);
  sattn_status status = SATTN_OK;
  if (args->grad_input.buffer) {
    product p = {PLAIN, PLAIN,  inputs,  rows,   outputs, floats(&args->weight),
                 grad,  inputs, outputs, inputs, 0.0f,    floats(&args->grad_input)};
    status = multiply(state, &p, error);
  }
  if (status == SATTN_OK && args->grad_weight.buffer) {
    product p = {PLAIN, TRANSPOSED, inputs,  outputs, rows, floats(&args->input),
                 grad,  inputs,     outputs, inputs,  0.0f, floats(&args->grad_weight)};
    status = multiply(state, &p, error);
  }
  if (status == SATTN_OK && args->grad_bias.buffer) {
    status = launch_small(chain, state->column_sums, grad, floats(&args->grad_bias), rows, outputs, outputs, error);
  }
  return status;
}

/* The workspace is set after the stream: setting a stream makes cuBLAS forget the caller's workspace. */
static sattn_status aim(const sattn_gate_plan *plan, const gate_state *state, const sattn_gate_args *args, const sattn_cuda_chain *chain,
                        sattn_error *error) {
  void *workspace = (void *)(uintptr_t)sattn_cuda_address(args->workspace, args->workspace_offset);
  sattn_status status = check_blas(state->blas.set_stream(state->handle, chain->stream), "cublasSetStream", error);
  if (status != SATTN_OK) return status;
  return check_blas(state->blas.set_workspace(state->handle, workspace, (size_t)plan->workspace), "cublasSetWorkspace", error);
}

sattn_status sattn_cuda_gate_run(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward, const sattn_submission *submission,
                                 sattn_error *error) {
  gate_state *state = plan->impl;
  sattn_cuda_chain chain;
  sattn_status status = sattn_cuda_chain_begin(&chain, plan->context, submission, NULL, error);
  if (status == SATTN_OK) {
    pthread_mutex_lock(&state->lock);
    status = aim(plan, state, args, &chain, error);
    if (status == SATTN_OK) {
      status = backward ? run_backward(plan, state, args, &chain, error) : run_forward(plan, state, args, &chain, error);
    }
    pthread_mutex_unlock(&state->lock);
  }
  return sattn_cuda_chain_end(&chain, status, error);
}
