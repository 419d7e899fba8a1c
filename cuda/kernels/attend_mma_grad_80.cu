// Tensor-core gradients for head dimension 80: see attend_mma_grad.h.
#include "attend_mma_grad.h"

GRAD_MMA_KERNEL(grad_query_mma_80_fp16, gpu_f16, 80, false, true, false);
GRAD_MMA_KERNEL(grad_query_mma_80_bf16, gpu_bf16, 80, false, true, false);
GRAD_MMA_KERNEL(grad_key_mma_80_fp16, gpu_f16, 80, true, true, true);
GRAD_MMA_KERNEL(grad_key_mma_80_bf16, gpu_bf16, 80, true, true, true);
