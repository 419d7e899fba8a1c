// Tensor-core gradients for head dimension 256: see attend_mma_grad.h. The sums of dK and of dV fill the registers each, so they have a
// kernel of their own.
#include "attend_mma_grad.h"

GRAD_MMA_KERNEL(grad_query_mma_256_fp16, gpu_f16, 256, false, true, false);
GRAD_MMA_KERNEL(grad_query_mma_256_bf16, gpu_bf16, 256, false, true, false);
GRAD_MMA_KERNEL(grad_key_mma_256_fp16, gpu_f16, 256, true, true, false);
GRAD_MMA_KERNEL(grad_key_mma_256_bf16, gpu_bf16, 256, true, true, false);
GRAD_MMA_KERNEL(grad_value_mma_256_fp16, gpu_f16, 256, true, false, true);
GRAD_MMA_KERNEL(grad_value_mma_256_bf16, gpu_bf16, 256, true, false, true);
