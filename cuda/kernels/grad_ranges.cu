// For each tile of keys, the queries whose band can reach it: entries of query_list, by binary search over its tiles.
//
//     key_list     | tile of keys: slots s0..s1 |                     rows of the kernel of dK and dV
//     query_list   ... | tile | tile | tile | tile | ...              each sorted by position, slots ascend from tile to tile
//                      first  ^--- slots s0 - right .. s1 + left ---^  end
//
// The band from the key's side: query slots s - right .. s + left. One warp per tile of keys; every entry has one writer.
#include "gpu.h"
#include "grad_params.h"

namespace {

constexpr int kLanes = 32;
constexpr int kWarps = SATTN_BAND_THREADS / kLanes;
constexpr uint32_t kAllLanes = 0xffffffffu;

struct Slots {
  int low, high;
};

// Lowest and highest slot of the entries from `first` to `end` - 1; alike in the whole warp.
GPU_DEVICE Slots slots_of(const uint64_t *list, int first, int end, int lane) {
  Slots slots = {0x7fffffff, -1};
  for (int at = first + lane; at < end; at += kLanes) {
    const int slot = (int)(gpu_load(list + at) >> 32);
    slots.low = gpu_min(slots.low, slot);
    slots.high = gpu_max(slots.high, slot);
  }
  slots.low = __reduce_min_sync(kAllLanes, slots.low);
  slots.high = __reduce_max_sync(kAllLanes, slots.high);
  return slots;
}

// How many of the query tiles end before slot `limit` (past: start at it or before).
GPU_DEVICE int count_tiles(const sattn_cuda_grad_ranges &call, const uint64_t *queries, int present, int tiles, int limit, bool past,
                           int lane) {
  int low = 0, high = tiles;
  while (low < high) {
    const int middle = low + (high - low) / 2, first = middle * call.tile_tokens;
    const Slots slots = slots_of(queries, first, gpu_min(first + call.tile_tokens, present), lane);
    if (past ? slots.low <= limit : slots.high < limit) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

GPU_KERNEL(grad_ranges, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_grad_ranges call) {
  const int lane = (int)threadIdx.x % kLanes;
  const int64_t index = (int64_t)blockIdx.x * kWarps + threadIdx.x / kLanes;
  if (index >= call.rows * call.key_tiles) return;
  const int64_t row = index / call.key_tiles, b = row / call.head_rows;
  const int tile = (int)(index % call.key_tiles);
  const int length = call.lengths ? gpu_max(0, gpu_min(gpu_load(call.lengths + b), call.keys)) : call.keys;
  int start = call.keys - call.queries;
  if (call.query_start) start = gpu_max(0, gpu_min(gpu_load(call.query_start + b), start));
  const int present = gpu_max(0, gpu_min(length - start, call.queries));
  const int64_t first_key = (int64_t)tile * call.key_rows;
  const int end_key = (int)gpu_min<int64_t>(first_key + call.key_rows, length - gpu_min(call.sinks, length));
  uint32_t first = 0, end = 0;
  if (first_key < end_key && present > 0) {
    const Slots keys = slots_of(call.key_list + row * call.list_keys, (int)first_key, end_key, lane);
    const uint64_t *queries = call.query_list + row * call.queries;
    const int tiles = (present + call.tile_tokens - 1) / call.tile_tokens;
    const int left = gpu_fault("grad_key_band_narrow") ? call.left - 1 : call.left;
    first = (uint32_t)(count_tiles(call, queries, present, tiles, keys.low - call.right, false, lane) * call.tile_tokens);
    end = (uint32_t)gpu_min(count_tiles(call, queries, present, tiles, keys.high + left, true, lane) * call.tile_tokens, present);
  }
  if (lane == 0) {
    gpu_store(call.key_ranges + index * 2, first);
    gpu_store(call.key_ranges + index * 2 + 1, gpu_max(first, end));
  }
}
GPU_REGISTER_KERNEL(grad_ranges, SATTN_BAND_THREADS);
