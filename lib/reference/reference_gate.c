#include "reference_gate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dynlib.h"
#include "reference_array.h"

double sattn_reference_sigmoid(double logit) {
  return 1 / (1 + exp(-logit));
}

/* ---- CBLAS, opened at run time ---- */

/* Values of the CBLAS standard (netlib); its header is not needed to build. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

typedef void sgemm_function(int layout, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);

typedef struct cblas {
  sgemm_function *sgemm;
} cblas;

typedef struct gate_state {
  void *library;
  cblas blas;
  pthread_mutex_t lock; /* calls of a plan are serialised: not every CBLAS may be entered twice */
} gate_state;

static const char *const library_names[] = {"libcblas.so.3", "libopenblas.so.0", NULL};

static const sattn_symbol symbols[] = {{"cblas_sgemm", offsetof(cblas, sgemm), 1}};

/* CBLAS counts in int. */
static sattn_status check_sizes(const sattn_gate_plan *plan, sattn_error *error) {
  const struct {
    const char *name;
    int64_t value;
  } sizes[] = {{"max_rows", plan->max_rows}, {"inputs", plan->inputs}, {"outputs", plan->outputs}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    if (sizes[s].value > INT32_MAX) {
      return sattn_fail(error, SATTN_UNSUPPORTED, sizes[s].name, "%s is %" PRId64 ", CBLAS takes at most %d", sizes[s].name, sizes[s].value,
                        INT32_MAX);
    }
  }
  return SATTN_OK;
}

sattn_status sattn_reference_gate_prepare(sattn_gate_plan *plan, sattn_error *error) {
  sattn_status status = check_sizes(plan, error);
  if (status != SATTN_OK) return status;
  gate_state *state = calloc(1, sizeof *state);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no memory for %zu bytes of a gate plan", sizeof *state);
  status = sattn_dynlib_open(library_names, symbols, sizeof symbols / sizeof *symbols, &state->blas,
                             "install a CBLAS library, on Debian: apt-get install libopenblas0", &state->library, error);
  if (status == SATTN_OK && pthread_mutex_init(&state->lock, NULL) != 0) {
    status = sattn_fail(error, SATTN_INTERNAL, NULL, "no lock for a gate plan could be made");
    sattn_dynlib_close(&state->library);
  }
  if (status != SATTN_OK) {
    free(state);
    return status;
  }
  plan->workspace = 0;
  plan->impl = state;
  return SATTN_OK;
}

void sattn_reference_gate_destroy(sattn_gate_plan *plan) {
  gate_state *state = plan->impl;
  if (!state) return;
  pthread_mutex_destroy(&state->lock);
  sattn_dynlib_close(&state->library);
  free(state);
  plan->impl = NULL;
}

/* ---- products ---- */

static float *floats(const sattn_array *array) {
  return array->buffer ? sattn_reference_address(array, sizeof(float)) : NULL;
}

/* G = X W^T + bias */
static void forward(const gate_state *state, const sattn_gate_plan *plan, const sattn_gate_args *args) {
  int rows = (int)args->rows, inputs = (int)plan->inputs, outputs = (int)plan->outputs;
  const float *bias = floats(&args->bias);
  float *logits = floats(&args->logits);
  if (rows == 0) return;
  for (int64_t r = 0; plan->has_bias && r < rows; ++r) memcpy(logits + r * outputs, bias, (size_t)outputs * sizeof *logits);
  state->blas.sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, rows, outputs, inputs, 1, floats(&args->input), inputs, floats(&args->weight),
                    inputs, plan->has_bias ? 1.0f : 0.0f, logits, outputs);
}

static void sum_columns(const float *matrix, int64_t rows, int64_t columns, float *sums) {
  for (int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += matrix[r * columns + c];
    sums[c] = (float)sum;
  }
}

/* dX = dG W,  dW = dG^T X,  dbias = column sums of dG */
static void backward_products(const gate_state *state, const sattn_gate_plan *plan, const sattn_gate_args *args) {
  int rows = (int)args->rows, inputs = (int)plan->inputs, outputs = (int)plan->outputs;
  const float *grad = floats(&args->grad_logits);
  float *grad_input = floats(&args->grad_input), *grad_weight = floats(&args->grad_weight), *grad_bias = floats(&args->grad_bias);
  if (grad_bias) sum_columns(grad, rows, outputs, grad_bias);
  if (rows == 0) {
    for (int64_t w = 0; grad_weight && w < (int64_t)outputs * inputs; ++w) grad_weight[w] = 0;
    return;
  }
  if (grad_input) {
    state->blas.sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, rows, inputs, outputs, 1, grad, outputs, floats(&args->weight), inputs, 0,
                      grad_input, inputs);
  }
  if (grad_weight) {
    state->blas.sgemm(ROW_MAJOR, TRANSPOSE, NO_TRANSPOSE, outputs, inputs, rows, 1, grad, outputs, floats(&args->input), inputs, 0,
                      grad_weight, inputs);
  }
}

sattn_status sattn_reference_gate_run(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward,
                                      const sattn_submission *submission, sattn_error *error) {
  (void)error;
  gate_state *state = plan->impl;
  pthread_mutex_lock(&state->lock);
  if (backward) {
    backward_products(state, plan, args);
  } else {
    forward(state, plan, args);
  }
  pthread_mutex_unlock(&state->lock);
  if (submission->out_event) *submission->out_event = (sattn_event){NULL};
  return SATTN_OK;
}
