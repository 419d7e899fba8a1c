// Tensor-core gradients for head dimension 96: see attend_mma_grad.h.
#include "attend_mma_grad.h"

GRAD_MMA_KERNEL(grad_query_mma_96_fp16, gpu_f16, 96, false, true, false);
GRAD_MMA_KERNEL(grad_query_mma_96_bf16, gpu_bf16, 96, false, true, false);
GRAD_MMA_KERNEL(grad_key_mma_96_fp16, gpu_f16, 96, true, true, true);
GRAD_MMA_KERNEL(grad_key_mma_96_bf16, gpu_bf16, 96, true, true, true);
