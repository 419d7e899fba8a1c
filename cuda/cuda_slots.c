#include "cuda_slots.h"

#include <string.h>

#include "cuda_buffer.h"
#include "cuda_program.h"
#include "kernels/general_params.h"

sattn_status sattn_cuda_slots_prepare(sattn_context *context, sattn_cuda_slots_kernels *out_kernels, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  sattn_cuda_slots_kernels kernels = {NULL, NULL, NULL};
  sattn_status status = sattn_cuda_program_get(context, "slots", &program, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "slots_invert", 0, &kernels.invert, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "slots_count", 0, &kernels.count, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "slots_write", 0, &kernels.write, error);
  if (status == SATTN_OK) *out_kernels = kernels;
  return status;
}

sattn_status sattn_cuda_slots_enqueue(const sattn_cuda_slots_kernels *kernels, const sattn_problem *problem, const sattn_sizes *sizes,
                                      const sattn_permutation *permutation, const sattn_array *lengths, sattn_cu_pointer workspace,
                                      const sattn_slots_layout *layout, sattn_cuda_chain *chain, sattn_slots_result *out_result,
                                      sattn_error *error) {
  sattn_cuda_slots_call call;
  memset(&call, 0, sizeof call);
  sattn_slots_describe(problem, sizes, permutation, lengths, layout, &call.params, out_result);
  call.order = (const uint32_t *)(uintptr_t)sattn_cuda_address(permutation->device_order, 0);
  call.lengths = (const int32_t *)(uintptr_t)sattn_cuda_address(lengths->buffer, 0);
  call.counts = call.compact = call.slots = (uint32_t *)(uintptr_t)workspace;
  uint64_t rows = (uint64_t)(call.params.batch_rows * call.params.head_rows);
  sattn_cuda_grid grid = {0, SATTN_SMALL_THREADS, 0};
  sattn_status status = sattn_cuda_chain_stage(chain, SATTN_STAGE_PERMUTE, error);
  if (out_result->compacted) {
    grid.blocks = (rows * (uint64_t)call.params.chunks + SATTN_SMALL_THREADS - 1) / SATTN_SMALL_THREADS;
    if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, kernels->count, &grid, &call, error);
    if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, kernels->write, &grid, &call, error);
  } else {
    grid.blocks = (rows * (uint64_t)call.params.order_length + SATTN_SMALL_THREADS - 1) / SATTN_SMALL_THREADS;
    if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, kernels->invert, &grid, &call, error);
  }
  return status;
}
