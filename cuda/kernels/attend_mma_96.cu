// Tensor-core attention for head dimension 96: see attend_mma.h.
#include "attend_mma.h"

GPU_KERNEL(attend_mma_96_fp16, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_mma<gpu_f16, 2, 96>(call);
}
GPU_KERNEL(attend_mma_96_bf16, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_mma<gpu_bf16, 3, 96>(call);
}
GPU_REGISTER_KERNEL(attend_mma_96_fp16, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(attend_mma_96_bf16, SATTN_BAND_THREADS);
