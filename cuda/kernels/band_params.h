// Parameters of the fast attention kernels: one pass of band attention over an order. Read by C and by CUDA; pointers are 64-bit on both
// sides. Arrays that a pass does not have are NULL.
#ifndef SATTN_CUDA_KERNELS_BAND_PARAMS_H
#define SATTN_CUDA_KERNELS_BAND_PARAMS_H

#include "kernel_params.h"

#define SATTN_BAND_THREADS    128
#define SATTN_BAND_BLOCK      64   // keys that are sorted by position together
#define SATTN_BAND_MAX_TOKENS 128  // query tokens of a tile at most
#define SATTN_PERMUTE_THREADS 128

// What a row's sums start from.
enum {
  SATTN_BAND_FRESH = 0,     // nothing, or the sink logit
  SATTN_BAND_CONTINUED = 1  // partial, partial_lse: what a pass before left there
};

// Where a row's result goes.
enum {
  SATTN_BAND_OUT = 0,      // out, in the dtype
  SATTN_BAND_PARTIAL = 1,  // partial, partial_lse, in fp32: another pass goes on from there
  SATTN_BAND_GATED = 2     // gates mix it with first, into out; second keeps it if there is one
};

typedef struct sattn_cuda_band {
  sattn_kernel_tensor query, key, value, out;
  sattn_kernel_tensor gate_first, gate_second;
  const void *query_rows, *key_rows, *value_rows;
  void *out_rows;
  float *lse;                    // [B, H, n_q]
  float *partial, *partial_lse;  // [B, H, n_q, d], [B, H, n_q]
  const void *first;             // [B, n_q, H, d], as second
  void *second;
  const void *first_logits, *second_logits;
  const int32_t *lengths, *query_start;
  const float *sink_logits;
  const uint64_t *key_list;       // token | slot << 32, in blocks; NULL: the identity order
  const uint64_t *query_list;     // the same of query tokens, in tiles
  const uint32_t *ranges;         // per tile: first block of key_list, and one past the last
  int64_t list_batch, list_head;  // list row of (b, g): b * list_batch + g * list_head; a row holds list_keys, n_q, 2 * tiles entries
  int64_t batch;
  int32_t queries, keys, heads, group;
  int32_t pack, head_chunks;  // heads of a group that share a tile; tiles that a group takes
  int32_t tile_tokens, tiles;
  int32_t
      splits;  // thread blocks that share the keys of a tile; above 1, finish is SATTN_BAND_PARTIAL and the arrays have [splits] in front
  int32_t list_keys;  // n_k, or more where the band wraps: keys at both ends stand in the list twice
  int32_t causal, left, right;
  int32_t sinks, visit_sinks;                    // keys at positions below sinks are not in the band; 1: this pass sees them
  int32_t exclude, exclude_left, exclude_right;  // 1: keys within these distances by position belong to another pass
  int32_t start, finish;
  int32_t dense;     // 1: key_list has one key per slot from 0 on, so a block's slots are known without reading it
  int32_t negative;  // 1: scale_log2 holds the size of a negative scale
  int32_t gate_dtype;
  int32_t gate_first_step, gate_second_step;  // from one element's logit to the next: 0 for gates per head
  int32_t unused;
  float scale_log2;       // scale * log2(e); with a softcap 1
  float cap_in, cap_out;  // with a softcap c: scale / c, c * log2(e); else 0
  float scale;            // as given
} sattn_cuda_band;

// Partial results of splits into one.
typedef struct sattn_cuda_join {
  sattn_kernel_tensor out;
  const float *partial, *partial_lse;  // [splits, B, H, n_q, d], [splits, B, H, n_q]
  void *out_rows;
  float *lse;  // may be NULL
  int64_t batch;
  int32_t queries, heads, head_dim, splits;
} sattn_cuda_join;

// Building key_list, query_list and ranges: one list row per (permutation, and batch entry where lengths or query_start differ). Where the
// band wraps, slots count from `ahead` before the first: key_list begins with the last `ahead` keys and ends with the first ones.
typedef struct sattn_cuda_permute {
  sattn_kernel_orders order;  // what is read
  const uint32_t *order_rows;
  const int32_t *lengths, *query_start;
  uint64_t *key_list, *query_list;
  uint32_t *ranges;
  uint32_t *block_slots;  // first slot of each block of key_list; not written where dense
  uint32_t *counts;       // per chunk: existing tokens, keys, queries
  int64_t batch_rows, head_rows;
  int32_t order_length, queries, keys, sinks;
  int32_t left, right;
  int32_t counted;  // 1: a slot is a token's rank among those that exist; 0: its place in the order
  int32_t dense;    // 1: nothing is left out, so both lists are the order, and the kernels count and write are not run
  int32_t tile_tokens, tiles, blocks;
  int32_t chunk, chunks;
  int32_t list_keys;
  int32_t ahead;
  int32_t unused;
} sattn_cuda_permute;

#endif
