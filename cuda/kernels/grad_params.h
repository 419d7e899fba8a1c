// Parameters and sizes of the fast backward kernels. Read by C and by CUDA; pointers are 64-bit on both sides.
#ifndef SATTN_CUDA_KERNELS_GRAD_PARAMS_H
#define SATTN_CUDA_KERNELS_GRAD_PARAMS_H

#include "band_params.h"
#include "general_params.h"

#define SATTN_GRAD_COLUMNS 32
// Rows of a thread block: queries, or keys. Two groups of 16 for each of four warps where registers allow it.
#define SATTN_GRAD_QUERY_ROWS(d) ((d) <= 96 ? 128 : 64)
#define SATTN_GRAD_KEY_ROWS(d)   ((d) <= 64 ? 128 : 64)
#define SATTN_GRAD_NOTES         96

// Two arrays of rows and two stages of two arrays of columns; of a row 32 bytes and of a group 16; two stages of 16 bytes and four of 8 for
// each column; the notes.
#define SATTN_GRAD_SHARED(d, rows) \
  (4 * (rows) * (d) + 8 * SATTN_GRAD_COLUMNS * (d) + (rows)*33 + SATTN_GRAD_COLUMNS * (2 * 16 + 4 * 8) + SATTN_GRAD_NOTES)

// What the backward pass needs of a row (query, head) beside its vectors, in this order.
typedef struct sattn_cuda_grad_row {
  float lse;    // in units of log 2; +infinity for a row that is empty
  float delta;  // sum of dY Y, minus dLSE
  float gate;   // dY = gate dO
  float unused;
} sattn_cuda_grad_row;

// One pass of band attention, backward. start and finish of `band` say what the sums of dQ, dK, dV start from and become.
typedef struct sattn_cuda_band_grad {
  sattn_cuda_band band;
  sattn_kernel_tensor grad_out, grad_query, grad_key, grad_value;
  const void *grad_out_rows;
  void *grad_query_rows, *grad_key_rows, *grad_value_rows;
  const sattn_cuda_grad_row *row_stats;                // [B, H, n_q]
  float *partial_query, *partial_key, *partial_value;  // [B, H, n_q, d], [B, H_kv, n_k, d]
  const uint32_t *key_ranges;                          // per tile of keys of the list: first entry of query_list, and one past the last
  int32_t key_sink_tiles, key_tiles;                   // tiles of sink tokens; all tiles
} sattn_cuda_band_grad;

// row_stats, and what follows from O and dO alone: deltas, and the gradients of the gate logits.
typedef struct sattn_cuda_grad_rows {
  sattn_cuda_general_grad general;
  sattn_kernel_tensor out;
  const void *out_rows;
  sattn_cuda_grad_row *row_stats;  // [branches, B, H, n_q]
} sattn_cuda_grad_rows;

// Which entries of query_list the band of a tile of keys can reach.
typedef struct sattn_cuda_grad_ranges {
  const uint64_t *key_list, *query_list;
  uint32_t *key_ranges;  // [rows, key_tiles, 2]
  const int32_t *lengths, *query_start;
  int64_t rows, head_rows;  // list rows; those of a batch entry
  int32_t keys, queries, list_keys, sinks;
  int32_t left, right;
  int32_t key_rows, key_tiles;  // keys of a tile; tiles
  int32_t tile_tokens, unused;  // queries that are sorted by position together
} sattn_cuda_grad_ranges;

#endif
