// Tensor-core gradients for head dimension 128: see attend_mma_grad.h.
#include "attend_mma_grad.h"

GRAD_MMA_KERNEL(grad_query_mma_128_fp16, gpu_f16, 128, false, true, false);
GRAD_MMA_KERNEL(grad_query_mma_128_bf16, gpu_bf16, 128, false, true, false);
GRAD_MMA_KERNEL(grad_key_mma_128_fp16, gpu_f16, 128, true, true, true);
GRAD_MMA_KERNEL(grad_key_mma_128_bf16, gpu_bf16, 128, true, true, true);
