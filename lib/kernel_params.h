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

/* One pass of the work-group kernels (attend_gpu) beside sattn_general_params. flags: see attend_gpu.cl. */
typedef struct sattn_gpu_pass {
  sattn_i64 partial, partial_lse; /* first element of each array */
  sattn_i64 tiles;                /* groups of rows along the queries */
  sattn_i64 slot_tiles;           /* how many of them are tiles of slots */
  sattn_i32 flags, unused;
} sattn_gpu_pass;

/* The two kernels of attend_decode beside sattn_general_params. Rows are numbered (b * heads + h) * queries + i within a chunk. */
typedef struct sattn_decode_params {
  sattn_i64 partial, maxima, sums; /* first element of each array in the workspace, as fp32 */
  sattn_i32 chunks, unused;
} sattn_decode_params;

/* Backward of the general kernels. `forward` describes the call that is differentiated; its lse_sa is the LSE of branch 0 in every mode. */
typedef struct sattn_general_grad_params {
  sattn_general_params forward;
  sattn_kernel_tensor grad_out, grad_query, grad_key, grad_value, grad_gate_sa, grad_gate_swa;
  sattn_i64 grad_lse_sa, grad_lse_swa; /* of branch 0 and branch 1 */
  sattn_i64 grad_sink_logits;
  sattn_i64 deltas; /* [branches, B, H, n_q] */
} sattn_general_grad_params;

/* One pass of the work-group gradients (attend_gpu_grad). batch = 0: an empty range. flags: see attend_gpu_grad.cl. */
typedef struct sattn_gpu_grad_params {
  sattn_kernel_tensor query, key, value, grad_out, grad_query, grad_key, grad_value;
  sattn_kernel_tensor out, gate, grad_gate; /* of the pass's branch */
  sattn_kernel_orders order, slots;
  sattn_i64 lse, grad_lse, deltas; /* first element of each array, of the pass's branch */
  sattn_i64 lengths, query_start;
  sattn_i64 partial_query, partial_key, partial_value;
  sattn_i64 batch;
  sattn_i64 sink_tiles, slot_tiles, tiles; /* tiles: all */
  sattn_i32 queries, keys, heads, kv_heads, group;
  sattn_i32 causal, left_sa, right_sa, left_swa, right_swa;
  sattn_i32 order_length, sink_tokens;
  sattn_i32 gate_element, gate_dtype;
  sattn_i32 flags, unused;
  float scale, softcap;
} sattn_gpu_grad_params;

/* Drawing permutations (draw). rows permutations of `length` tokens, sorted in rows of `padded` entries, a power of two. A bitonic sort
 * compares entries `stride` apart within runs of `run` entries. */
typedef struct sattn_draw_params {
  sattn_i64 seed;            /* bits of the unsigned seed, as are the three below */
  sattn_i64 rows, first_row; /* rows of this launch; where they begin in `order` */
  sattn_i64 padded, run, stride;
  sattn_i32 length;
  sattn_i32 layer, substream, step; /* row r draws with substream + r */
} sattn_draw_params;

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

/* ---- the CPU kernels (permute, pack, attend_cpu) ---- */

/* Where the arrays of a list lie, in 32-bit integers from the start of the workspace; list number l adds l * stride. A list is one order of
 * the keys (in slot order, but each block of 64 sorted by position where causality gains by it) and of the queries. Keys that do not exist
 * are left out; padding has position and slot INT_MAX. */
typedef struct sattn_list_layout {
  sattn_i64 stride;
  sattn_i64 key_position, key_slot, key_other;    /* [key_blocks * 64]; other: the slot in UNION's other order */
  sattn_i64 block_first, block_last;              /* [key_blocks] smallest and largest slot of a block */
  sattn_i64 query_position;                       /* [tiles * 64]; -1: a query that does not exist, or padding */
  sattn_i64 query_row;                            /* [tiles * 64] index of the query; -1: padding */
  sattn_i64 query_slot, query_other;              /* [tiles * 64] */
  sattn_i64 sink_position, sink_slot, sink_other; /* [sink_blocks * 64] */
  sattn_i64 slot_of;                              /* [n_k] slot of a position */
  sattn_i64 counts;                               /* [2] keys that exist, sink keys that exist */
} sattn_list_layout;

#define SATTN_LIST_IDENTITY    1  /* slot = position; there is no order to read */
#define SATTN_LIST_SLOT_GAPS   2  /* slots are counted in the whole order, not among the existing keys */
#define SATTN_LIST_SORT        4  /* sort blocks and tiles by position */
#define SATTN_LIST_OTHER       8  /* fill key_other, query_other, sink_other from the list `other` of the same number */
#define SATTN_LIST_LENGTHS     16 /* lengths are given */
#define SATTN_LIST_QUERY_START 32

/* lists = 0: an empty range. */
typedef struct sattn_permute_params {
  sattn_list_layout list, other;
  sattn_i64 lengths, query_start; /* first element of each array */
  sattn_i64 lists;
  sattn_i32 keys, queries;
  sattn_i32 length; /* entries of an order */
  sattn_i32 orders; /* list l reads order l modulo this */
  sattn_i32 lists_per_batch, key_blocks, tiles, sink_blocks;
  sattn_i32 sink_tokens, flags;
  sattn_i32 block, unused; /* > 0: the slot of a query is where its block of so many positions begins (MoBA's own block) */
} sattn_permute_params;

/* MoBA's lists of queries, in 32-bit integers from the start of the workspace. batch = 0: an empty range. */
typedef struct sattn_moba_params {
  sattn_i64 query_position, query_row, query_slot; /* [tiles * 64] of the first list */
  sattn_i64 stride, round_stride;                  /* from one (batch entry, head), one round to the next */
  sattn_i64 begin;                                 /* [B, H, rounds, blocks + 1] scratch */
  sattn_i64 selected, selected_stride, lengths, query_start;
  sattn_i64 batch;
  sattn_i32 heads, queries, keys, tiles;
  sattn_i32 block, blocks, places, rounds;
} sattn_moba_params;

/* batch = 0: an empty range. Element numbers of packed arrays count from the start of the workspace. */
typedef struct sattn_pack_params {
  sattn_list_layout list;
  sattn_kernel_tensor key, value;
  sattn_i64 packed_key, packed_value;
  sattn_i64 packed_head; /* elements from one (batch, head) to the next */
  sattn_i64 batch;
  sattn_i32 blocks, kv_heads;
  sattn_i32 heads_at_once;
  sattn_i32 lists_per_batch; /* 0: all batch entries share the lists */
  sattn_i32 list_heads;      /* 1, or kv_heads where each head has its own list */
  sattn_i32 sinks;           /* 1: pack the sink keys, not the keys */
  sattn_i32 tiles;           /* > 0: pack only what the band of these tiles reaches */
  sattn_i32 left, right, unused;
} sattn_pack_params;

/* One pass of attend_cpu. batch = 0: an empty range. */
typedef struct sattn_attend_cpu_params {
  sattn_list_layout list;
  sattn_kernel_tensor query, out, branch;
  sattn_kernel_tensor gate_own, gate_first; /* logits of this pass's branch and of the first pass's */
  sattn_i64 lse, sink_logits;               /* first element of each array */
  sattn_i64 partial, partial_lse;           /* fp32 rows [B, H, n_q, d] and LSE that the first pass hands to the second */
  sattn_i64 query_stride;                   /* QUERY_LISTS: from the queries' list of one (batch entry, head) to the next */
  sattn_i64 packed_key, packed_value, packed_head;
  sattn_i64 sink_key, sink_value, sink_head;
  sattn_i64 batch;
  sattn_i32 heads, group, queries, tiles;
  sattn_i32 strip; /* tiles that one head takes before the next head takes the same ones */
  sattn_i32 lists_per_batch, list_heads, gate_dtype;
  sattn_i32 left, right;
  sattn_i32 other_left, other_right; /* the band that UNION's first pass has shown already */
  float scale, softcap;              /* in units of log2 */
} sattn_attend_cpu_params;

/* Packed blocks for gradients, in fp32 elements from the start of the workspace; a head is one (batch entry, key/value head). */
typedef struct sattn_grad_blocks {
  sattn_i64 key, value;           /* [d][64] */
  sattn_i64 key_row;              /* [64][d] the keys again */
  sattn_i64 grad_key, grad_value; /* [64][d] sums */
  sattn_i64 head;                 /* from one head to the next */
  sattn_i64 state, state_head;    /* 32-bit flags of a block; from one head to the next */
} sattn_grad_blocks;

#define SATTN_BLOCK_FINITE 1 /* every key element is */
#define SATTN_BLOCK_SUMS   2 /* there are sums; else they count as zeros and are not to be read */

/* Into and out of blocks. batch = 0: an empty range. */
typedef struct sattn_pack_grad_params {
  sattn_list_layout list;
  sattn_grad_blocks blocks, sinks;  /* packing uses one of them, unpacking both */
  sattn_kernel_tensor key, value;   /* packing: K and V; unpacking: dK and dV */
  sattn_i64 carry_key, carry_value; /* unpacking to fp32 rows [head][carry_head / d][d] of the workspace, by position */
  sattn_i64 carry_head;
  sattn_i64 batch;
  sattn_i32 count; /* blocks */
  sattn_i32 kv_heads, heads_at_once;
  sattn_i32 lists_per_batch, list_heads; /* as in sattn_pack_params */
  sattn_i32 keys;
  sattn_i32 flags;
  float key_factor; /* of dK */
} sattn_pack_grad_params;

#define SATTN_PACK_GRAD_SINKS 1 /* packing: the sink keys, not the keys; unpacking: add what the sink keys got */
#define SATTN_PACK_GRAD_CARRY 2 /* unpacking: to fp32 rows that the next pass starts from */
#define SATTN_PACK_GRAD_ZERO  4 /* unpacking: there were no queries; everything is zero */
#define SATTN_PACK_GRAD_CLEAR 8 /* packing: clear the sums, which another pass is carried into */

/* One launch of attend_cpu_grad. batch = 0: an empty range. */
typedef struct sattn_attend_cpu_grad_params {
  sattn_list_layout list;
  sattn_kernel_tensor query, out, grad_out, grad_query, gate, grad_gate;
  sattn_grad_blocks blocks, sinks;
  sattn_i64 lse, grad_lse;
  sattn_i64 deltas;  /* [B, H, n_q]; -1: not wanted */
  sattn_i64 partial; /* fp32 rows [B, H, n_q, d] of dQ that a pass hands to the next */
  sattn_i64 batch;
  sattn_i32 heads, group, queries, tiles;
  sattn_i32 strip;                   /* tiles that one work-item takes */
  sattn_i32 first_strip, strip_step; /* which strips this launch takes */
  sattn_i32 lists_per_batch, list_heads, gate_dtype;
  sattn_i32 sink_blocks, flags;
  sattn_i32 left, right;
  sattn_i32 other_left, other_right;
  float scale, softcap; /* in units of log2 */
  float grad_scale;     /* of dQ */
  sattn_i32 rounds;     /* > 1: strip s meets only blocks of part (s + round) modulo rounds */
  sattn_i32 round, unused;
  sattn_i64 query_stride; /* MOBA: from one (batch entry, head)'s list of queries to the next */
} sattn_attend_cpu_grad_params;

#define SATTN_GRAD_FROM_PARTIAL 1
#define SATTN_GRAD_TO_PARTIAL   2

/* d sink logits: sums over all queries of both branches. heads = 0: an empty range. */
typedef struct sattn_sum_sinks_params {
  sattn_i64 lse[2], deltas[2]; /* by branch */
  sattn_i64 sink_logits, grad_sink_logits;
  sattn_i64 batch;
  sattn_i32 heads, queries, branches, unused;
} sattn_sum_sinks_params;

/* Around the matrix products of a gate projection. */
typedef struct sattn_gate_params {
  sattn_i64 matrix, vector; /* first element of each array */
  sattn_i64 rows, columns;
} sattn_gate_params;

#endif
