/* fp32 by fused multiply-adds, nothing of it in a narrower type (kernels/attend_fp32.cu). */
#include <stdio.h>
#include <string.h>

#include "cuda_band.h"
#include "kernels/fp32_shape.h"

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  if (problem->dtype != SATTN_FP32) {
    snprintf(reason, SATTN_REASON_BYTES, "dtype %s", sattn_dtype_name(problem->dtype));
    return false;
  }
  return sattn_cuda_band_supports(context, problem, maxima, SATTN_FP32_SHARED((uint32_t)problem->head_dim), reason);
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  return sattn_cuda_band_workspace(context, problem, maxima, SATTN_FP32_ROWS(problem->head_dim));
}

static sattn_status prepare(const sattn_plan *plan, void *state, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  sattn_cuda_band_kernel kernel;
  memset(&kernel, 0, sizeof kernel);
  snprintf(kernel.program, sizeof kernel.program, "attend_fp32");
  snprintf(kernel.name, sizeof kernel.name, "attend_fp32_%d", problem->head_dim);
  kernel.rows = SATTN_FP32_ROWS(problem->head_dim);
  kernel.shared_bytes = SATTN_FP32_SHARED((uint32_t)problem->head_dim);
  return sattn_cuda_band_prepare(plan, &kernel, state, error);
}

const sattn_cuda_attend sattn_cuda_attend_fp32 = {
    .common =
        {
            .name = "attend_fp32",
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
