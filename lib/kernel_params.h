/* Parameter structs of kernels, shared by host, OpenCL C and CUDA: one definition, so that the sides cannot disagree.
 *
 * Rules: only the types below; 64-bit members first, then 32-bit ones, in even number, so that every compiler lays them out alike without
 * padding. A struct whose counts are all zero is an empty range: the kernel returns without touching memory.
 */
#ifndef SATTN_LIB_KERNEL_PARAMS_H
#define SATTN_LIB_KERNEL_PARAMS_H

#if defined(__OPENCL_VERSION__)
typedef int sattn_i32;
typedef long sattn_i64;
#else
#include <stdint.h>
typedef int32_t sattn_i32;
typedef int64_t sattn_i64;
#endif

/* A [batch, token, head, width] array: element numbers, width contiguous. */
typedef struct sattn_kernel_tensor {
  sattn_i64 offset;
  sattn_i64 stride_batch;
  sattn_i64 stride_token;
  sattn_i64 stride_head;
} sattn_kernel_tensor;

/* Where the orders of a permutation lie: order(b, g) starts at offset + b * stride_batch + g * stride_head; a stride is zero where the
 * order is shared along that axis. */
typedef struct sattn_kernel_orders {
  sattn_i64 offset;
  sattn_i64 stride_batch;
  sattn_i64 stride_head;
} sattn_kernel_orders;

#endif
