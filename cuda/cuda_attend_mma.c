/* fp16 and bf16 on tensor cores (kernels/attend_mma.h). */
#include <stdio.h>
#include <string.h>

#include "cuda_band.h"
#include "kernels/mma_shape.h"

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  if (problem->dtype == SATTN_FP32) {
    snprintf(reason, SATTN_REASON_BYTES, "dtype fp32");
    return false;
  }
  return sattn_cuda_band_supports(context, problem, maxima, SATTN_MMA_SHARED((uint32_t)problem->head_dim), reason);
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  return sattn_cuda_band_workspace(context, problem, maxima, SATTN_MMA_ROWS(problem->head_dim));
}

static sattn_status prepare(const sattn_plan *plan, void *state, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  sattn_cuda_band_kernel kernel;
  memset(&kernel, 0, sizeof kernel);
  snprintf(kernel.program, sizeof kernel.program, "attend_mma_%d", problem->head_dim);
  snprintf(kernel.name, sizeof kernel.name, "attend_mma_%d_%s", problem->head_dim, sattn_dtype_name(problem->dtype));
  kernel.rows = SATTN_MMA_ROWS(problem->head_dim);
  kernel.shared_bytes = SATTN_MMA_SHARED((uint32_t)problem->head_dim);
  return sattn_cuda_band_prepare(plan, &kernel, state, error);
}

const sattn_cuda_attend sattn_cuda_attend_mma = {
    .common =
        {
            .name = "attend_mma",
            .family = SATTN_KERNELS_GPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_FORWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(sattn_cuda_band_state),
    .prepare = prepare,
    .destroy = sattn_cuda_band_destroy,
    .enqueue_forward = sattn_cuda_band_enqueue,
};
