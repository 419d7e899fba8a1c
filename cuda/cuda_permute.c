#include "cuda_permute.h"

#include <string.h>

#include "cuda_buffer.h"
#include "cuda_program.h"

/* A thread block adds up the counts of all chunks before its own: at most this many. */
#define MAX_CHUNKS 1024
#define MIN_CHUNK  256
#define KINDS      3

sattn_status sattn_cuda_permute_prepare(sattn_context *context, sattn_cuda_permute_kernels *out_kernels, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  sattn_cuda_permute_kernels kernels = {NULL, NULL, NULL};
  sattn_status status = sattn_cuda_program_get(context, "permute", &program, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "permute_count", 0, &kernels.count, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "permute_write", 0, &kernels.write, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "permute_sort", 0, &kernels.sort, error);
  if (status == SATTN_OK) *out_kernels = kernels;
  return status;
}

static bool per_head(const sattn_problem *problem) {
  return problem->sharing == SATTN_PER_HEAD || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
}

static bool per_batch(const sattn_problem *problem) {
  return problem->sharing == SATTN_PER_BATCH || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
}

static int64_t head_rows(const sattn_problem *problem) {
  return per_head(problem) ? problem->kv_heads : 1;
}

static int64_t batch_rows(const sattn_problem *problem, const sattn_sizes *sizes) {
  return per_batch(problem) || problem->has_lengths || problem->has_query_start ? sizes->batch : 1;
}

bool sattn_cuda_permute_wraps(const sattn_problem *problem, const sattn_sizes *sizes) {
  return problem->wrap && (int64_t)problem->left_sa + problem->right_sa + 1 < sizes->keys;
}

/* Entries of one list of keys. */
static int64_t list_keys(const sattn_problem *problem, const sattn_sizes *sizes) {
  return sizes->keys + (sattn_cuda_permute_wraps(problem, sizes) ? (int64_t)problem->left_sa + problem->right_sa : 0);
}

sattn_permute_layout sattn_cuda_permute_carve(const sattn_problem *problem, const sattn_sizes *sizes, int32_t tile_tokens, uint64_t *end) {
  uint64_t rows = (uint64_t)(batch_rows(problem, sizes) * head_rows(problem));
  uint64_t tiles = (uint64_t)((sizes->queries + tile_tokens - 1) / tile_tokens);
  uint64_t keys = (uint64_t)list_keys(problem, sizes), blocks = (keys + SATTN_BAND_BLOCK - 1) / SATTN_BAND_BLOCK;
  sattn_permute_layout layout;
  layout.keys = sattn_carve(end, rows, keys, sizeof(uint64_t));
  layout.queries = sattn_carve(end, rows, (uint64_t)sizes->queries, sizeof(uint64_t));
  layout.ranges = sattn_carve(end, rows, tiles * 2, sizeof(uint32_t));
  layout.block_slots = sattn_carve(end, rows, blocks, sizeof(uint32_t));
  /* As many chunks as there can be: their number does not grow evenly with the length of the order. */
  layout.counts = sattn_carve(end, rows, MAX_CHUNKS * KINDS, sizeof(uint32_t));
  return layout;
}

static void describe(const sattn_problem *problem, const sattn_sizes *sizes, const sattn_permutation *permutation,
                     sattn_cu_pointer workspace, const sattn_permute_layout *layout, const sattn_cuda_band *band,
                     sattn_cuda_permute *out_call) {
  sattn_cuda_permute call;
  memset(&call, 0, sizeof call);
  call.batch_rows = batch_rows(problem, sizes);
  call.head_rows = head_rows(problem);
  call.order.stride_head = per_head(problem) ? permutation->length : 0;
  call.order.stride_batch = per_batch(problem) ? call.head_rows * permutation->length : 0;
  call.order_rows = (const uint32_t *)(uintptr_t)sattn_cuda_address(permutation->device_order, 0);
  call.lengths = band->lengths;
  call.query_start = band->query_start;
  call.key_list = (uint64_t *)(uintptr_t)(workspace + layout->keys);
  call.query_list = (uint64_t *)(uintptr_t)(workspace + layout->queries);
  call.ranges = (uint32_t *)(uintptr_t)(workspace + layout->ranges);
  call.block_slots = (uint32_t *)(uintptr_t)(workspace + layout->block_slots);
  call.counts = (uint32_t *)(uintptr_t)(workspace + layout->counts);
  call.order_length = (int32_t)permutation->length;
  call.queries = band->queries;
  call.keys = band->keys;
  call.sinks = band->sinks;
  call.left = band->left;
  call.right = band->right;
  call.counted = problem->has_lengths && problem->order_length == 0;
  call.dense = !problem->has_lengths && band->sinks == 0 && call.order_length == call.keys && call.queries == call.keys;
  call.tile_tokens = band->tile_tokens;
  call.tiles = band->tiles;
  call.list_keys = (int32_t)list_keys(problem, sizes);
  call.ahead = call.list_keys > call.keys ? band->left : 0;
  call.blocks = (call.list_keys + SATTN_BAND_BLOCK - 1) / SATTN_BAND_BLOCK;
  call.chunk = (call.order_length + MAX_CHUNKS - 1) / MAX_CHUNKS;
  if (call.chunk < MIN_CHUNK) call.chunk = MIN_CHUNK;
  call.chunks = (call.order_length + call.chunk - 1) / call.chunk;
  *out_call = call;
}

sattn_status sattn_cuda_permute_enqueue(const sattn_cuda_permute_kernels *kernels, const sattn_problem *problem, const sattn_sizes *sizes,
                                        const sattn_permutation *permutation, sattn_cu_pointer workspace,
                                        const sattn_permute_layout *layout, sattn_cuda_band *band, sattn_cuda_chain *chain,
                                        sattn_error *error) {
  sattn_cuda_permute call;
  describe(problem, sizes, permutation, workspace, layout, band, &call);
  uint64_t rows = (uint64_t)(call.batch_rows * call.head_rows);
  sattn_cuda_grid chunks = {rows * (uint64_t)call.chunks, SATTN_PERMUTE_THREADS, 0};
  sattn_cuda_grid parts = {rows * ((uint64_t)(call.blocks + 1) / 2 + (uint64_t)call.tiles), SATTN_PERMUTE_THREADS, 0};
  sattn_status status = sattn_cuda_chain_stage(chain, SATTN_STAGE_PERMUTE, error);
  if (status == SATTN_OK && !call.dense) status = sattn_cuda_chain_launch(chain, kernels->count, &chunks, &call, error);
  if (status == SATTN_OK && !call.dense) status = sattn_cuda_chain_launch(chain, kernels->write, &chunks, &call, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, kernels->sort, &parts, &call, error);
  band->key_list = call.key_list;
  band->query_list = call.query_list;
  band->ranges = call.ranges;
  band->list_head = per_head(problem) ? 1 : 0;
  band->list_batch = call.batch_rows > 1 ? call.head_rows : 0;
  band->list_keys = call.list_keys;
  band->dense = call.dense;
  return status;
}
