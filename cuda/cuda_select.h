/* Stage of the general path: MoBA's selection of blocks (kernels/select.cu). */
#ifndef SATTN_CUDA_SELECT_H
#define SATTN_CUDA_SELECT_H

#include "cuda_event.h"
#include "kernel_args.h"
#include "kernels/general_params.h"

typedef struct sattn_cuda_select_kernels {
  sattn_cu_function means, choose;
} sattn_cuda_select_kernels;

sattn_status sattn_cuda_select_prepare(const sattn_plan *plan, sattn_cuda_select_kernels *out_kernels, sattn_error *error);

/* `call` has its arrays, selected, means and scores included. */
sattn_status sattn_cuda_select_enqueue(const sattn_cuda_select_kernels *kernels, sattn_cuda_general *call, sattn_cuda_chain *chain,
                                       sattn_error *error);

#endif
