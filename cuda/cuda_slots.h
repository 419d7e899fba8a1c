/* Stage of the general path: slots of tokens, and orders without the tokens that do not exist (kernels/slots.cu). */
#ifndef SATTN_CUDA_SLOTS_H
#define SATTN_CUDA_SLOTS_H

#include "cuda_event.h"
#include "kernel_args.h"

typedef struct sattn_cuda_slots_kernels {
  sattn_cu_function invert, count, write;
} sattn_cuda_slots_kernels;

sattn_status sattn_cuda_slots_prepare(sattn_context *context, sattn_cuda_slots_kernels *out_kernels, sattn_error *error);

/* `workspace` is the device address of the workspace buffer's first byte. */
sattn_status sattn_cuda_slots_enqueue(const sattn_cuda_slots_kernels *kernels, const sattn_problem *problem, const sattn_sizes *sizes,
                                      const sattn_permutation *permutation, const sattn_array *lengths, sattn_cu_pointer workspace,
                                      const sattn_slots_layout *layout, sattn_cuda_chain *chain, sattn_slots_result *out_result,
                                      sattn_error *error);

#endif
