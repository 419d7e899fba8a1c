#include "cuda_select.h"

#include <stdio.h>

#include "cuda_program.h"

sattn_status sattn_cuda_select_prepare(const sattn_plan *plan, sattn_cuda_select_kernels *out_kernels, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  sattn_cuda_select_kernels kernels = {NULL, NULL};
  char means[64], choose[64];
  snprintf(means, sizeof means, "block_means_%s", sattn_dtype_name(plan->problem.dtype));
  snprintf(choose, sizeof choose, "select_blocks_%s", sattn_dtype_name(plan->problem.dtype));
  sattn_status status = sattn_cuda_program_get(plan->context, "select", &program, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(plan->context, program, means, 0, &kernels.means, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(plan->context, program, choose, 0, &kernels.choose, error);
  if (status == SATTN_OK) *out_kernels = kernels;
  return status;
}

sattn_status sattn_cuda_select_enqueue(const sattn_cuda_select_kernels *kernels, sattn_cuda_general *call, sattn_cuda_chain *chain,
                                       sattn_error *error) {
  const sattn_general_params *params = &call->params;
  uint64_t elements = (uint64_t)params->batch * (uint64_t)params->kv_heads * (uint64_t)params->blocks * (uint64_t)call->head_dim;
  uint64_t rows = (uint64_t)params->batch * (uint64_t)params->heads * (uint64_t)params->queries;
  sattn_cuda_grid grid = {(elements + SATTN_SMALL_THREADS - 1) / SATTN_SMALL_THREADS, SATTN_SMALL_THREADS, 0};
  sattn_status status = sattn_cuda_chain_stage(chain, SATTN_STAGE_OTHER, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, kernels->means, &grid, call, error);
  grid.blocks = (rows + SATTN_SMALL_THREADS - 1) / SATTN_SMALL_THREADS;
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, kernels->choose, &grid, call, error);
  return status;
}
