/* Gradients of fp16 and bf16 on tensor cores (kernels/attend_mma_grad.h). */
#include <stdio.h>
#include <string.h>

#include "cuda_band.h"
#include "cuda_band_grad.h"
#include "kernels/grad_params.h"

static uint32_t query_shared(int32_t d) {
  return (uint32_t)SATTN_GRAD_SHARED(d, SATTN_GRAD_QUERY_ROWS(d));
}

static uint32_t key_shared(int32_t d) {
  return (uint32_t)SATTN_GRAD_SHARED(d, SATTN_GRAD_KEY_ROWS(d));
}

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  uint32_t query = query_shared(problem->head_dim), key = key_shared(problem->head_dim);
  bool per_element = problem->gate_sa_shape == SATTN_GATE_PER_ELEMENT || problem->gate_swa_shape == SATTN_GATE_PER_ELEMENT;
  if (problem->dtype == SATTN_FP32) {
    snprintf(reason, SATTN_REASON_BYTES, "dtype fp32");
  } else if (problem->wrap) {
    snprintf(reason, SATTN_REASON_BYTES, "wrap");
  } else if (problem->mode == SATTN_GATED && per_element) {
    snprintf(reason, SATTN_REASON_BYTES, "gates per element");
  } else {
    return sattn_cuda_band_supports(context, problem, maxima, query > key ? query : key, reason);
  }
  return false;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  return sattn_cuda_band_grad_workspace(context, problem, maxima, SATTN_GRAD_QUERY_ROWS(problem->head_dim),
                                        SATTN_GRAD_KEY_ROWS(problem->head_dim));
}

static sattn_status prepare(const sattn_plan *plan, void *state, sattn_error *error) {
  const char *dtype = sattn_dtype_name(plan->problem.dtype);
  int32_t d = plan->problem.head_dim;
  sattn_cuda_grad_kernels kernels;
  memset(&kernels, 0, sizeof kernels);
  snprintf(kernels.program, sizeof kernels.program, "attend_mma_grad_%d", d);
  snprintf(kernels.query, sizeof kernels.query, "grad_query_mma_%d_%s", d, dtype);
  snprintf(kernels.key, sizeof kernels.key, "grad_key_mma_%d_%s", d, dtype);
  if (d > 128) snprintf(kernels.value, sizeof kernels.value, "grad_value_mma_%d_%s", d, dtype);
  kernels.query_rows = SATTN_GRAD_QUERY_ROWS(d);
  kernels.key_rows = SATTN_GRAD_KEY_ROWS(d);
  kernels.query_shared = query_shared(d);
  kernels.key_shared = key_shared(d);
  return sattn_cuda_band_grad_prepare(plan, &kernels, state, error);
}

const sattn_cuda_attend sattn_cuda_attend_mma_grad = {
    .common =
        {
            .name = "attend_mma_grad",
            .family = SATTN_KERNELS_GPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_BACKWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(sattn_cuda_grad_state),
    .prepare = prepare,
    .destroy = sattn_cuda_band_grad_destroy,
    .enqueue_backward = sattn_cuda_band_grad_enqueue,
};
