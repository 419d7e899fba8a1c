// From orders to what the fast attention kernels read: the keys in slot order, in blocks of 64, and the queries in slot order, in tiles,
// each block and tile sorted by position; and for each tile the blocks that its band can reach.
//
//     order       3 0 5 1 4 2     slot -> token; blocks of 3 and tiles of 2 here
//     key_list    (0,1) (3,0) (5,2) | (1,3) (2,5) (4,4)       (token, slot)
//     query_list  (0,1) (3,0) | (1,3) (5,2) | (2,5) (4,4)
//     ranges      window of 1 slot:  0..1, 0..2, 1..2         first block, and one past the last
//
// Where the band wraps, key_list is the order with the keys of both ends once more, so that no band is cut in two; slots then count from
// the first entry:
//
//     key_list    (0,2) (2,0) (3,1) | ...   2 3 0 5 1 4 2 3 before the sort, for a window of 1 slot to each side
//     query_list  (0,2) (3,1) | ...
//
// Tokens that do not exist, sink tokens (keys) and tokens before the first query (queries) are left out, by two kernels that cut each order
// into at most 1024 chunks: count, then write behind the chunks before. Where nothing is left out (dense) only the last kernel runs. No
// atomics; every entry has one writer.
#include "band_params.h"
#include "gpu.h"

namespace {

constexpr int kThreads = SATTN_PERMUTE_THREADS;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr int kKinds = 3;  // existing tokens, keys, queries

// One list row: a permutation, and the batch entry whose lengths count.
struct Tokens {
  const uint32_t *order;
  int length;     // tokens that exist
  int keys_from;  // the sink tokens are not keys of the list
  int queries_from, queries_to;
};

GPU_DEVICE Tokens tokens_of(const sattn_cuda_permute &p, int64_t row) {
  Tokens tokens;
  const int64_t b = row / p.head_rows;
  tokens.order = p.order_rows + p.order.offset + b * p.order.stride_batch + row % p.head_rows * p.order.stride_head;
  tokens.length = p.lengths ? gpu_max(0, gpu_min(gpu_load(p.lengths + b), p.keys)) : p.keys;
  tokens.keys_from = gpu_min(p.sinks, tokens.length);
  int start = p.keys - p.queries;
  if (p.query_start) start = gpu_max(0, gpu_min(gpu_load(p.query_start + b), start));
  tokens.queries_from = start;
  tokens.queries_to = gpu_min(tokens.length, start + p.queries);
  return tokens;
}

GPU_DEVICE uint32_t count_of(const sattn_cuda_permute &p, int64_t row, int chunk, int kind) {
  return gpu_load(p.counts + (row * p.chunks + chunk) * kKinds + kind);
}

struct Kinds {
  bool exists, key, query;
};

GPU_DEVICE Kinds kinds_of(const Tokens &tokens, uint32_t token) {
  Kinds kinds;
  kinds.exists = token < (uint32_t)tokens.length;
  kinds.key = kinds.exists && token >= (uint32_t)tokens.keys_from;
  kinds.query = token >= (uint32_t)tokens.queries_from && (int64_t)token < tokens.queries_to;
  return kinds;
}

// Entries from before a lane within its warp, and all of the warp's.
struct Ballot {
  uint32_t before, all;
};

GPU_DEVICE Ballot vote(bool mine, int lane) {
  const uint32_t mask = __ballot_sync(kAllLanes, mine);
  return {(uint32_t)__popc(mask & ((1u << lane) - 1)), (uint32_t)__popc(mask)};
}

// Sorts the entries of one block or tile by token, by counting how many are smaller, and writes them to target. Where a band wraps, a block
// of a short list has tokens twice: equal ones keep their order. All threads of the thread block call.
GPU_DEVICE void sort_part(gpu_shared<uint64_t> entries, int thread, int count, uint64_t mine, uint64_t *target) {
  if (thread < count) entries[thread] = mine;
  if (!gpu_fault("permute_no_barrier")) __syncthreads();
  if (thread >= count) return;
  int rank = 0;
  GPU_NO_UNROLL
  for (int other = 0; other < count; ++other) {
    const uint32_t token = (uint32_t)(uint64_t)entries[other];
    rank += token < (uint32_t)mine || (token == (uint32_t)mine && other < thread);
  }
  gpu_store(target + (gpu_fault("permute_unsorted") ? thread : rank), mine);
}

// Entry number `index` of a list before the sort, where nothing is left out.
GPU_DEVICE uint64_t dense_entry(const sattn_cuda_permute &p, const Tokens &tokens, bool is_query, int64_t index) {
  int64_t place = is_query || gpu_fault("permute_wrap_forgotten") ? index : index - p.ahead;
  place += place < 0 ? p.order_length : 0;
  place -= place >= p.order_length ? p.order_length : 0;
  return gpu_load(tokens.order + place) | (uint64_t)(is_query ? index + p.ahead : index) << 32;
}

// How many blocks start at `slot` or before.
GPU_DEVICE int find_block(const uint32_t *block_slots, int blocks, int64_t slot) {
  int low = 0, high = blocks;  // blocks before `low` start at `slot` or before, those from `high` on do not
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if ((int64_t)gpu_load(block_slots + middle) <= slot) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

// How many tokens of each kind a chunk of an order has. A thread block per chunk.
GPU_KERNEL(permute_count, SATTN_PERMUTE_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_permute p) {
  GPU_STATIC_SHARED(uint32_t, sums, kWarps * kKinds);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int64_t row = blockIdx.x / (uint32_t)p.chunks;
  const int chunk = (int)(blockIdx.x % (uint32_t)p.chunks);
  const Tokens tokens = tokens_of(p, row);
  const int64_t end = gpu_min<int64_t>((int64_t)(chunk + 1) * p.chunk, p.order_length);
  uint32_t count[kKinds] = {0, 0, 0};
  for (int64_t slot = (int64_t)chunk * p.chunk + threadIdx.x; slot < end; slot += kThreads) {
    const Kinds kinds = kinds_of(tokens, gpu_load(tokens.order + slot));
    count[0] += kinds.exists;
    count[1] += kinds.key;
    count[2] += kinds.query;
  }
  GPU_UNROLL
  for (int kind = 0; kind < kKinds; ++kind) {
    const uint32_t sum = __reduce_add_sync(kAllLanes, count[kind]);
    if (lane == 0) sums[warp * kKinds + kind] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= kKinds) return;
  uint32_t sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += sums[w * kKinds + (int)threadIdx.x];
  gpu_store(p.counts + (row * p.chunks + chunk) * kKinds + threadIdx.x, sum);
}

// The tokens that are left, in slot order. A thread block per chunk, after permute_count.
GPU_KERNEL(permute_write, SATTN_PERMUTE_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_permute p) {
  GPU_STATIC_SHARED(uint32_t, sums, kWarps * kKinds);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int64_t row = blockIdx.x / (uint32_t)p.chunks;
  const int chunk = (int)(blockIdx.x % (uint32_t)p.chunks);
  const Tokens tokens = tokens_of(p, row);
  uint32_t at[kKinds];
  GPU_UNROLL
  for (int kind = 0; kind < kKinds; ++kind) {
    uint32_t before = 0;
    for (int other = (int)threadIdx.x; other < chunk && !gpu_fault("permute_chunks_ignored"); other += kThreads)
      before += count_of(p, row, other, kind);
    before = __reduce_add_sync(kAllLanes, before);
    if (lane == 0) sums[warp * kKinds + kind] = before;
  }
  __syncthreads();
  GPU_UNROLL
  for (int kind = 0; kind < kKinds; ++kind) {
    at[kind] = 0;
    for (int w = 0; w < kWarps; ++w) at[kind] += sums[w * kKinds + kind];
  }
  const int64_t end = gpu_min<int64_t>((int64_t)(chunk + 1) * p.chunk, p.order_length);
  for (int64_t first = (int64_t)chunk * p.chunk; first < end; first += kThreads) {
    const int64_t slot = first + threadIdx.x;
    const uint32_t token = slot < end ? gpu_load(tokens.order + slot) : 0xffffffffu;
    const Kinds kinds = kinds_of(tokens, token);
    const Ballot ballots[kKinds] = {vote(kinds.exists, lane), vote(kinds.key, lane), vote(kinds.query, lane)};
    __syncthreads();  // sums may still be read
    GPU_UNROLL
    for (int kind = 0; kind < kKinds; ++kind) {
      if (lane == 0) sums[warp * kKinds + kind] = ballots[kind].all;
    }
    __syncthreads();
    uint32_t place[kKinds];
    GPU_UNROLL
    for (int kind = 0; kind < kKinds; ++kind) {
      place[kind] = at[kind] + ballots[kind].before;
      GPU_UNROLL
      for (int w = 0; w < kWarps; ++w) {
        const uint32_t others = sums[w * kKinds + kind];
        place[kind] += w < warp ? others : 0;
        at[kind] += others;
      }
    }
    const uint32_t counted = p.counted ? place[0] : (uint32_t)slot;
    const uint64_t entry = token | (uint64_t)counted << 32;
    if (kinds.key) {
      gpu_store(p.key_list + row * p.list_keys + place[1], entry);
      if (place[1] % SATTN_BAND_BLOCK == 0) gpu_store(p.block_slots + row * p.blocks + place[1] / SATTN_BAND_BLOCK, counted);
    }
    if (kinds.query) gpu_store(p.query_list + row * p.queries + place[2], entry);
  }
}

// Sorts key blocks, two per thread block, and query tiles, one per thread block, and finds the blocks that a tile's band can reach. Reads
// the order itself where nothing is left out, else what permute_write wrote.
GPU_KERNEL(permute_sort, SATTN_PERMUTE_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_permute p) {
  GPU_STATIC_SHARED(uint64_t, entries, SATTN_BAND_MAX_TOKENS);
  const uint32_t parts = (uint32_t)((p.blocks + 1) / 2 + p.tiles);
  const int64_t row = blockIdx.x / parts;
  const int part = (int)(blockIdx.x % parts);
  const Tokens tokens = tokens_of(p, row);
  const int keys = tokens.length - tokens.keys_from + (p.list_keys - p.keys);
  const int queries = gpu_max(0, tokens.queries_to - tokens.queries_from);
  const bool is_tile = part < p.tiles;
  int64_t first = is_tile ? (int64_t)part * p.tile_tokens : (int64_t)(part - p.tiles) * 2 * SATTN_BAND_BLOCK;
  const int half = is_tile ? 0 : (int)threadIdx.x / SATTN_BAND_BLOCK, thread = (int)threadIdx.x - half * SATTN_BAND_BLOCK;
  first += half * SATTN_BAND_BLOCK;
  const int size = is_tile ? p.tile_tokens : SATTN_BAND_BLOCK;
  const int count = (int)gpu_max<int64_t>(0, gpu_min<int64_t>(size, (is_tile ? queries : keys) - first));
  uint64_t *list = is_tile ? p.query_list + row * p.queries : p.key_list + row * p.list_keys;
  uint64_t mine = 0;
  if (thread < count) {
    mine = p.dense ? dense_entry(p, tokens, is_tile, first + thread) : gpu_load_written(list + first + thread);
  }
  // Slots ascend before the sort.
  const bool ranges = is_tile && count > 0 && (thread == 0 || thread == count - 1);
  sort_part(entries + half * SATTN_BAND_BLOCK, thread, count, mine, list + first);
  if (!ranges) return;
  const int64_t slot = (int64_t)(mine >> 32);
  const int blocks = (keys + SATTN_BAND_BLOCK - 1) / SATTN_BAND_BLOCK;
  uint32_t *range = p.ranges + (row * p.tiles + part) * 2;
  if (thread == 0) {
    const int64_t low = gpu_max<int64_t>(slot - p.left, 0);
    const int64_t block = p.dense ? low / SATTN_BAND_BLOCK : find_block(p.block_slots + row * p.blocks, blocks, low) - 1;
    gpu_store(range, (uint32_t)gpu_max<int64_t>(block, 0));
  }
  if (thread == count - 1) {
    const int64_t high = slot + p.right;
    const int64_t block = p.dense ? high / SATTN_BAND_BLOCK + 1 : find_block(p.block_slots + row * p.blocks, blocks, high);
    gpu_store(range + 1, (uint32_t)gpu_min<int64_t>(block - (gpu_fault("permute_range_short") ? 1 : 0), blocks));
  }
}

GPU_REGISTER_KERNEL(permute_count, SATTN_PERMUTE_THREADS);
GPU_REGISTER_KERNEL(permute_write, SATTN_PERMUTE_THREADS);
GPU_REGISTER_KERNEL(permute_sort, SATTN_PERMUTE_THREADS);
