// Parameters of the kernels that draw permutations. Read by C and by CUDA.
#ifndef SATTN_CUDA_KERNELS_DRAW_PARAMS_H
#define SATTN_CUDA_KERNELS_DRAW_PARAMS_H

#include "kernel_params.h"
#include "philox.h"

#define SATTN_DRAW_THREADS 256

typedef struct sattn_cuda_draw_call {
  sattn_draw_params params;
  uint64_t *keys;
  uint32_t *tokens;
  uint32_t *order;
} sattn_cuda_draw_call;

#endif
