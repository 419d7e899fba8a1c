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

/* ---- the general kernels (slots, select, attend_general) ---- */

/* Orders of slots. rows = batch_rows * head_rows permutations, one after the other with `keys` entries each in what is written. */
typedef struct sattn_slots_params {
  sattn_kernel_orders order; /* what is read */
  sattn_i64 lengths;         /* first element of each array */
  sattn_i64 counts;
  sattn_i64 compact;
  sattn_i64 slots;
  sattn_i64 batch_rows;
  sattn_i64 head_rows;
  sattn_i32 order_length; /* entries of each order */
  sattn_i32 keys;
  sattn_i32 chunk; /* entries that one work-item compacts, and how many chunks an order has */
  sattn_i32 chunks;
} sattn_slots_params;

/* One attention call; arrays that a mode does not have are NULL pointers. */
typedef struct sattn_general_params {
  sattn_kernel_tensor query, key, value, out, gate_sa, gate_swa;
  sattn_kernel_orders order;      /* slot -> token */
  sattn_kernel_orders slots;      /* token -> slot */
  sattn_i64 lse, lse_sa, lse_swa; /* first element of each array */
  sattn_i64 y_sa, y_swa;
  sattn_i64 lengths, query_start, sink_logits;
  sattn_i64 selected, selected_stride; /* chosen blocks of a query, and how many places it has */
  sattn_i64 means, scores, scores_stride;
  sattn_i64 batch;
  sattn_i32 queries, keys, heads, kv_heads, group;
  sattn_i32 mode, causal;
  sattn_i32 left_sa, right_sa, left_swa, right_swa;
  sattn_i32 wrap, order_length; /* order_length 0: as many slots as tokens exist */
  sattn_i32 sink_tokens, block, blocks, topk;
  sattn_i32 gate_sa_element, gate_swa_element; /* 1: a logit per element, 0: per head */
  sattn_i32 gate_dtype;
  float scale, softcap;
} sattn_general_params;

/* gather_rows (inverse 0), scatter_rows (inverse 1). */
typedef struct sattn_rows_params {
  sattn_kernel_tensor source, target;
  sattn_kernel_orders order;
  sattn_i64 batch;
  sattn_i32 tokens, heads, width, inverse;
} sattn_rows_params;

/* merge of two partial results. */
typedef struct sattn_merge_params {
  sattn_kernel_tensor out_a, out_b, out;
  sattn_i64 lse_a, lse_b, lse;
  sattn_i64 batch;
  sattn_i32 queries, heads, width, unused;
} sattn_merge_params;

#endif
