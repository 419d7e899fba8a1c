// Tensor-core attention for head dimension 64: see attend_mma.h.
#include "attend_mma.h"

GPU_KERNEL(attend_mma_64_fp16, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_mma<gpu_f16, 2, 64>(call);
}
GPU_KERNEL(attend_mma_64_bf16, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_mma<gpu_bf16, 3, 64>(call);
}
GPU_REGISTER_KERNEL(attend_mma_64_fp16, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(attend_mma_64_bf16, SATTN_BAND_THREADS);
