// Tensor-core gradients for head dimension 64: see attend_mma_grad.h.
#include "attend_mma_grad.h"

GRAD_MMA_KERNEL(grad_query_mma_64_fp16, gpu_f16, 64, false, true, false);
GRAD_MMA_KERNEL(grad_query_mma_64_bf16, gpu_bf16, 64, false, true, false);
GRAD_MMA_KERNEL(grad_key_mma_64_fp16, gpu_f16, 64, true, true, true);
GRAD_MMA_KERNEL(grad_key_mma_64_bf16, gpu_bf16, 64, true, true, true);
