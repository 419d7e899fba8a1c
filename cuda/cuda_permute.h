/* Stage of the fast path: keys and queries in slot order, cut and sorted for the attention kernels (kernels/permute.cu). */
#ifndef SATTN_CUDA_PERMUTE_H
#define SATTN_CUDA_PERMUTE_H

#include "cuda_event.h"
#include "dispatch.h"
#include "kernels/band_params.h"

typedef struct sattn_cuda_permute_kernels {
  sattn_cu_function count, write, sort;
} sattn_cuda_permute_kernels;

/* Byte offsets in the workspace. */
typedef struct sattn_permute_layout {
  uint64_t keys, queries, ranges, block_slots, counts;
} sattn_permute_layout;

/* Whether the band is circular and narrower than the order. The lists can then be built only where every token is a key and a query. */
bool sattn_cuda_permute_wraps(const sattn_problem *problem, const sattn_sizes *sizes);

sattn_status sattn_cuda_permute_prepare(sattn_context *context, sattn_cuda_permute_kernels *out_kernels, sattn_error *error);

/* `tile_tokens`: query tokens of a tile, at most SATTN_BAND_MAX_TOKENS. O(keys + queries) per permutation. */
sattn_permute_layout sattn_cuda_permute_carve(const sattn_problem *problem, const sattn_sizes *sizes, int32_t tile_tokens, uint64_t *end);

/* Builds the lists and enters them, and what describes them, into `band`, whose sizes, tiles, sinks, lengths and query_start are set. */
sattn_status sattn_cuda_permute_enqueue(const sattn_cuda_permute_kernels *kernels, const sattn_problem *problem, const sattn_sizes *sizes,
                                        const sattn_permutation *permutation, sattn_cu_pointer workspace,
                                        const sattn_permute_layout *layout, sattn_cuda_band *band, sattn_cuda_chain *chain,
                                        sattn_error *error);

#endif
