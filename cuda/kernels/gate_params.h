// Parameters of the small kernels around the gate projection. Read by C and by CUDA.
#ifndef SATTN_CUDA_KERNELS_GATE_PARAMS_H
#define SATTN_CUDA_KERNELS_GATE_PARAMS_H

#include <stdint.h>

#define SATTN_GATE_THREADS 128

typedef struct sattn_cuda_gate_call {
  const float *source;  // bias [outputs], or logit gradients [rows, outputs]
  float *target;        // logits [rows, outputs], or bias gradient [outputs]
  int64_t rows, outputs;
} sattn_cuda_gate_call;

#endif
