#include "cl_gate.h"

#include <stdlib.h>
#include <string.h>

#include "cl_blas.h"
#include "cl_buffer.h"
#include "cl_event.h"
#include "cl_program.h"
#include "kernel_params.h"

/* CLBlast takes no offset into its scratch memory, so the plan has its own instead of the caller's workspace, and a call waits for the
 * product of the call before it. */
typedef struct gate_state {
  pthread_mutex_t lock; /* around all below, from the first argument to the last enqueue */
  cl_mem scratch;       /* NULL: none needed */
  cl_event last;        /* of the last product; NULL: none yet */
  cl_kernel fill, column_sums;
} gate_state;

typedef enum product_kind { LOGITS, GRAD_INPUT, GRAD_WEIGHT, PRODUCT_KINDS } product_kind;

/* G = X W^T,  dX = dG W,  dW = dG^T X; arrays are filled in by the caller. */
static sattn_cl_product shape_product(const sattn_gate_plan *plan, product_kind kind, int64_t rows) {
  size_t n = (size_t)rows, inputs = (size_t)plan->inputs, outputs = (size_t)plan->outputs;
  sattn_cl_product product;
  memset(&product, 0, sizeof product);
  product.transpose_b = kind == LOGITS;
  product.transpose_a = kind == GRAD_WEIGHT;
  product.m = kind == GRAD_WEIGHT ? outputs : n;
  product.n = kind == LOGITS ? outputs : inputs;
  product.k = kind == LOGITS ? inputs : kind == GRAD_INPUT ? outputs : n;
  return product;
}

/* ---- preparation ---- */

static sattn_status bind_pair(const sattn_context *context, cl_kernel kernel, const sattn_gate_params *params, const sattn_buffer *first,
                              const sattn_buffer *second, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, first);
  sattn_cl_bind_buffer(&binder, second);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status prepare_kernels(sattn_context *context, gate_state *state, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "gate.cl", NULL};
  const size_t local = sattn_cl_plain_group(context);
  sattn_cl_program *program = NULL;
  sattn_gate_params none = {0, 0, 0, 0};
  sattn_status status = sattn_cl_program_get(context, sources, "", &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "gate_fill", &state->fill, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "gate_column_sums", &state->column_sums, error);
  if (status == SATTN_OK) status = bind_pair(context, state->fill, &none, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->fill, 1, &local, error);
  if (status == SATTN_OK) status = bind_pair(context, state->column_sums, &none, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->column_sums, 1, &local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status make_scratch(const sattn_gate_plan *plan, gate_state *state, sattn_error *error) {
  const sattn_cl_context *cl = sattn_cl_of(plan->context);
  size_t most = 0;
  sattn_status status = SATTN_OK;
  for (int kind = 0; status == SATTN_OK && kind < PRODUCT_KINDS; ++kind) {
    sattn_cl_product product = shape_product(plan, (product_kind)kind, plan->max_rows);
    size_t bytes = 0;
    status = sattn_cl_blas_scratch(plan->context, &product, &bytes, error);
    if (bytes > most) most = bytes;
  }
  if (status == SATTN_OK) status = sattn_cl_check_allocation(plan->context, "max_rows", most, error);
  if (status != SATTN_OK || most == 0) return status;
  cl_int code = CL_SUCCESS;
  state->scratch = cl->api->clCreateBuffer(cl->handle, CL_MEM_READ_WRITE, most, NULL, &code);
  return sattn_cl_check(code, "clCreateBuffer", error);
}

/* Runs the three products once on matrices of ones, so that nothing is compiled later, and compares: a product of ones is its inner size. A
 * driver can fail such a kernel without a word. */
static sattn_status try_products(const sattn_gate_plan *plan, const gate_state *state, int64_t rows, cl_mem ones, cl_mem result,
                                 sattn_error *error) {
  const sattn_cl_context *cl = sattn_cl_of(plan->context);
  for (int kind = 0; kind < PRODUCT_KINDS; ++kind) {
    sattn_cl_product product = shape_product(plan, (product_kind)kind, rows);
    product.a = product.b = ones;
    product.c = result;
    cl_event event = NULL;
    sattn_status status = sattn_cl_blas_run(plan->context, cl->queue, &product, state->scratch, &event, error);
    if (status != SATTN_OK) return status;
    if (event) cl->api->clReleaseEvent(event);
    float corners[2] = {0, 0};
    size_t last = (product.m * product.n - 1) * sizeof(float);
    cl_int code = cl->api->clEnqueueReadBuffer(cl->queue, result, CL_TRUE, 0, sizeof(float), &corners[0], 0, NULL, NULL);
    if (code == CL_SUCCESS)
      code = cl->api->clEnqueueReadBuffer(cl->queue, result, CL_TRUE, last, sizeof(float), &corners[1], 0, NULL, NULL);
    if (code != CL_SUCCESS) return sattn_cl_check(code, "clEnqueueReadBuffer", error);
    float wanted = (float)product.k;
    if (!(corners[0] == wanted && corners[1] == wanted)) {
      return sattn_fail(error, SATTN_UNAVAILABLE, NULL,
                        "CLBlast gives %g and %g instead of %g for a product of ones on device %s; its driver is probably broken",
                        (double)corners[0], (double)corners[1], (double)wanted, plan->context->device.id);
    }
  }
  return SATTN_OK;
}

static sattn_status try_rows(const sattn_gate_plan *plan, const gate_state *state, int64_t rows, sattn_error *error) {
  const sattn_cl_context *cl = sattn_cl_of(plan->context);
  uint64_t widest = (uint64_t)(plan->inputs > plan->outputs ? plan->inputs : plan->outputs);
  uint64_t count = (uint64_t)rows * widest, weights = (uint64_t)plan->inputs * (uint64_t)plan->outputs;
  if (count < weights) count = weights;
  sattn_status status = sattn_cl_check_allocation(plan->context, "outputs", count * sizeof(float), error);
  if (status != SATTN_OK) return status;
  float *host = malloc((size_t)count * sizeof *host);
  if (!host) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a matrix of %zu floats", (size_t)count);
  for (uint64_t i = 0; i < count; ++i) host[i] = 1.0f;
  cl_int code = CL_SUCCESS, code_result = CL_SUCCESS;
  size_t bytes = (size_t)count * sizeof *host;
  cl_mem ones = cl->api->clCreateBuffer(cl->handle, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, host, &code);
  cl_mem result = cl->api->clCreateBuffer(cl->handle, CL_MEM_READ_WRITE, bytes, NULL, &code_result);
  free(host);
  status = sattn_cl_check(code != CL_SUCCESS ? code : code_result, "clCreateBuffer", error);
  if (status == SATTN_OK) status = try_products(plan, state, rows, ones, result, error);
  if (ones) cl->api->clReleaseMemObject(ones);
  if (result) cl->api->clReleaseMemObject(result);
  return status;
}

/* CLBlast has one kernel for small products, which needs no scratch memory, and one for others: tries each that a call can meet. */
static sattn_status try_all(const sattn_gate_plan *plan, const gate_state *state, sattn_error *error) {
  sattn_status status = SATTN_OK;
  int64_t rows = 1;
  size_t bytes = 0;
  for (; status == SATTN_OK; rows *= 2) {
    if (rows > plan->max_rows) rows = plan->max_rows;
    sattn_cl_product product = shape_product(plan, LOGITS, rows);
    status = sattn_cl_blas_scratch(plan->context, &product, &bytes, error);
    if (bytes > 0 || rows == plan->max_rows) break;
  }
  if (status == SATTN_OK && rows > 1) status = try_rows(plan, state, 1, error);
  return status == SATTN_OK ? try_rows(plan, state, rows, error) : status;
}

sattn_status sattn_cl_gate_prepare(sattn_gate_plan *plan, sattn_error *error) {
  gate_state *state = calloc(1, sizeof *state);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a gate plan of %zu bytes", sizeof *state);
  pthread_mutex_init(&state->lock, NULL);
  plan->impl = state;
  plan->workspace = 0;
  sattn_status status = sattn_cl_blas_open(plan->context, error);
  if (status == SATTN_OK) status = prepare_kernels(plan->context, state, error);
  if (status == SATTN_OK && plan->max_rows > 0) status = make_scratch(plan, state, error);
  if (status == SATTN_OK && plan->max_rows > 0) status = try_all(plan, state, error);
  if (status != SATTN_OK) sattn_cl_gate_destroy(plan);
  return status;
}

void sattn_cl_gate_destroy(sattn_gate_plan *plan) {
  gate_state *state = plan->impl;
  if (!state) return;
  const sattn_cl_api *api = sattn_cl_of(plan->context)->api;
  if (state->last) api->clReleaseEvent(state->last);
  if (state->scratch) api->clReleaseMemObject(state->scratch);
  sattn_cl_kernel_release(plan->context, &state->fill);
  sattn_cl_kernel_release(plan->context, &state->column_sums);
  pthread_mutex_destroy(&state->lock);
  free(state);
  plan->impl = NULL;
}

/* ---- execution ---- */

static sattn_status run_product(const sattn_gate_plan *plan, gate_state *state, product_kind kind, int64_t rows, float beta,
                                const sattn_array *a, const sattn_array *b, const sattn_array *c, sattn_cl_chain *chain,
                                sattn_error *error) {
  sattn_cl_product product = shape_product(plan, kind, rows);
  product.beta = beta;
  product.a = sattn_cl_memory(a->buffer);
  product.b = sattn_cl_memory(b->buffer);
  product.c = sattn_cl_memory(c->buffer);
  product.offset_a = (size_t)a->offset;
  product.offset_b = (size_t)b->offset;
  product.offset_c = (size_t)c->offset;
  cl_event event = NULL;
  sattn_status status = sattn_cl_chain_barrier(chain, error);
  if (status == SATTN_OK) status = sattn_cl_blas_run(plan->context, chain->queue, &product, state->scratch, &event, error);
  if (status != SATTN_OK) return status;
  const sattn_cl_api *api = chain->cl->api;
  if (state->last) api->clReleaseEvent(state->last);
  state->last = event;
  if (event) api->clRetainEvent(event);
  sattn_cl_chain_adopt(chain, event);
  return SATTN_OK;
}

static sattn_status fill(const sattn_gate_plan *plan, gate_state *state, int64_t rows, int64_t columns, const sattn_array *bias,
                         const sattn_array *matrix, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_gate_params params = {matrix->offset, bias ? bias->offset : 0, rows, columns};
  const size_t local = sattn_cl_plain_group(plan->context), global = sattn_cl_axis(rows * columns, local);
  sattn_status status = bind_pair(plan->context, state->fill, &params, bias ? bias->buffer : NULL, matrix->buffer, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->fill, 1, &global, &local, error) : status;
}

static sattn_status run_forward(const sattn_gate_plan *plan, gate_state *state, const sattn_gate_args *args, sattn_cl_chain *chain,
                                sattn_error *error) {
  sattn_status status = fill(plan, state, args->rows, plan->outputs, plan->has_bias ? &args->bias : NULL, &args->logits, chain, error);
  if (status != SATTN_OK) return status;
  return run_product(plan, state, LOGITS, args->rows, 1.0f, &args->input, &args->weight, &args->logits, chain, error);
}

static sattn_status run_backward(const sattn_gate_plan *plan, gate_state *state, const sattn_gate_args *args, sattn_cl_chain *chain,
                                 sattn_error *error) {
  sattn_status status = SATTN_OK;
  if (args->grad_bias.buffer) {
    const sattn_gate_params params = {args->grad_logits.offset, args->grad_bias.offset, args->rows, plan->outputs};
    const size_t local = sattn_cl_plain_group(plan->context), global = sattn_cl_axis(plan->outputs, local);
    status = bind_pair(plan->context, state->column_sums, &params, args->grad_logits.buffer, args->grad_bias.buffer, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, state->column_sums, 1, &global, &local, error);
  }
  if (status == SATTN_OK && args->grad_input.buffer && args->rows > 0) {
    status = run_product(plan, state, GRAD_INPUT, args->rows, 0.0f, &args->grad_logits, &args->weight, &args->grad_input, chain, error);
  }
  if (status == SATTN_OK && args->grad_weight.buffer && args->rows > 0) {
    status = run_product(plan, state, GRAD_WEIGHT, args->rows, 0.0f, &args->grad_logits, &args->input, &args->grad_weight, chain, error);
  }
  if (status == SATTN_OK && args->grad_weight.buffer && args->rows == 0) {
    status = fill(plan, state, plan->outputs, plan->inputs, NULL, &args->grad_weight, chain, error);
  }
  return status;
}

sattn_status sattn_cl_gate_run(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward, const sattn_submission *submission,
                               sattn_error *error) {
  gate_state *state = plan->impl;
  sattn_cl_chain chain;
  sattn_status status = sattn_cl_chain_begin(&chain, plan->context, submission, NULL, error);
  if (status == SATTN_OK) {
    pthread_mutex_lock(&state->lock);
    status = sattn_cl_chain_wait(&chain, state->last, error);
    if (status == SATTN_OK) {
      status = backward ? run_backward(plan, state, args, &chain, error) : run_forward(plan, state, args, &chain, error);
    }
    pthread_mutex_unlock(&state->lock);
  }
  return sattn_cl_chain_end(&chain, status, error);
}
