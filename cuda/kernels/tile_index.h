// What the fast kernels keep in shared memory about rows and keys, and the plan of a tile. S is the shape of a kernel: rows and keys of a
// tile, group_rows rows of a group, and where the arrays lie.
//
//     index   [4][keys]           token, slot of the keys of four tiles
//     rows    [rows]              query, limit, slot, position
//     bounds  [rows / group_rows] lowest and highest limit and slot of a group
//     notes                       place, key tiles, addresses
//
// A step is 16 keys of a tile. Steps that no row of a group sees are skipped: a bit per step says which are left, alike in the whole warp.
#ifndef SATTN_CUDA_KERNELS_TILE_INDEX_H
#define SATTN_CUDA_KERNELS_TILE_INDEX_H

#include <stddef.h>
#include <string.h>

#include "band.h"

namespace {

constexpr int kThreads = SATTN_BAND_THREADS;
constexpr int kWarps = kThreads / 32;
constexpr int kIndexTiles = 4;  // in use at once: the one worked on, the one that arrives, and the next one's index

// Where keys and values of this batch entry and head lie.
struct Source {
  const void *key, *value;
};

// What all threads know of their work. Kept in shared memory, because registers are what these kernels have least of.
struct Notes {
  Place place;
  Keys keys;
  Source source;
  uint32_t bad[8];  // per group, a bit per row: the result of the first attempt was not finite
};

// `Element`: of K and V.
template <class Element>
GPU_DEVICE Source source_of(const sattn_cuda_band &call, const Place &place) {
  const Element *keys = static_cast<const Element *>(call.key_rows), *values = static_cast<const Element *>(call.value_rows);
  Source source;
  source.key = keys + call.key.offset + place.b * call.key.stride_batch + place.g * call.key.stride_head;
  source.value = values + call.value.offset + place.b * call.value.stride_batch + place.g * call.value.stride_head;
  return source;
}

// A note goes in and out 16 bytes at a time.
template <class Note>
GPU_DEVICE void write_note(gpu_shared<uint4> target, const Note &note) {
  static_assert(sizeof(Note) % sizeof(uint4) == 0, "notes are counted in 16 bytes");
  uint4 words[sizeof(Note) / sizeof(uint4)];
  memcpy(words, &note, sizeof note);
  GPU_UNROLL
  for (int i = 0; i < (int)(sizeof(Note) / sizeof(uint4)); ++i) target[i] = words[i];
}
template <class Note>
GPU_DEVICE Note read_note(gpu_shared<uint4> source) {
  uint4 words[sizeof(Note) / sizeof(uint4)];
  GPU_UNROLL
  for (int i = 0; i < (int)(sizeof(Note) / sizeof(uint4)); ++i) words[i] = source[i];
  Note note;
  memcpy(&note, words, sizeof note);
  return note;
}

// Token and slot of the keys of a tile. List entries arrive with the next group of copies, everything else at the next barrier.
template <class S>
GPU_DEVICE void load_index(gpu_shared<uint2> index, const Keys &keys, int tile) {
  const int k = (int)threadIdx.x;
  if (k >= S::keys || tile >= keys.tiles) return;
  const gpu_shared<uint2> place = index + (tile % kIndexTiles * S::keys + k);
  const int at = key_index(keys, tile, k, S::keys);
  const bool listed = keys.list && !is_sink_tile(keys, tile);
  if (listed && (at >= 0 || gpu_fault("order_past_tail"))) {
    gpu_cp_async<8>(gpu_shared_address(place), keys.list + (at >= 0 ? at : keys.end), 8u);
  } else {
    place[0] = at >= 0 ? make_uint2((uint32_t)at, (uint32_t)at) : make_uint2((uint32_t)kNoToken, 0u);
  }
}

// What is known of the rows of the tile, in shared memory.
struct Row_table {
  gpu_shared<int> query, limit, slot, position;
  gpu_shared<int4> bounds;  // of the rows of a group that exist: limit from x to y (y = -1: none exists), slot from z to w
};

template <class S>
GPU_DEVICE Row_table row_table(gpu_shared<unsigned char> memory) {
  Row_table table;
  table.query = gpu_shared_cast<int>(memory, S::rows_at);
  table.limit = table.query + S::rows;
  table.slot = table.limit + S::rows;
  table.position = table.slot + S::rows;
  table.bounds = gpu_shared_cast<int4>(table.position, S::rows * 4);
  return table;
}

template <class S>
GPU_DEVICE void fill_row_table(const Row_table &table, const sattn_cuda_band &call, const Place &place) {
  const int r = (int)threadIdx.x;
  if (r >= S::rows) return;
  const Row row = row_of(call, place, r);
  table.query[r] = row.query;
  table.limit[r] = row.limit;
  table.slot[r] = row.slot;
  table.position[r] = row.position;
}

// After the barrier behind fill_row_table; the warp that calls may read the bounds at once.
template <class S>
GPU_DEVICE void bound_group(const Row_table &table, int group, int lane) {
  const int r = group * S::group_rows + lane % S::group_rows;
  const int limit = table.limit[r], slot = table.slot[r];
  int4 bounds;
  bounds.x = __reduce_min_sync(kAllLanes, limit < 0 ? kNoToken : limit);
  bounds.y = __reduce_max_sync(kAllLanes, limit);
  bounds.z = __reduce_min_sync(kAllLanes, limit < 0 ? kNoToken : slot);
  bounds.w = __reduce_max_sync(kAllLanes, limit < 0 ? 0 : slot);
  if (lane == 0) table.bounds[group] = bounds;
}

// What is to be done with a tile, in one register.
struct Tile {
  uint32_t bits;
  GPU_DEVICE_MEMBER uint32_t steps(int g) const { return bits >> 4 * g & 15; }
  GPU_DEVICE_MEMBER bool has(int g, int step) const { return bits >> (4 * g + step) & 1; }
  GPU_DEVICE_MEMBER bool masked(int g) const { return bits >> (8 + g) & 1; }  // some rows of the group do not see some keys of its steps
  GPU_DEVICE_MEMBER bool sink() const { return bits >> 10 & 1; }
};

// Keys of a tile ascend by token, so the steps that causality leaves are the first ones. A band of the identity order ends on both sides.
template <class S>
GPU_DEVICE void plan_group(Tile &plan, int g, const sattn_cuda_band &call, const Keys &keys, int tile, gpu_shared<uint32_t> tokens,
                           const Row_table &table, int group) {
  const int4 rows = table.bounds[group];
  const bool sink = is_sink_tile(keys, tile), listed = keys.list && !sink;
  const int base = listed ? 0 : key_index(keys, tile, 0, S::keys);
  const int64_t low = sink ? -1 : (int64_t)rows.z - call.left, high = sink ? kNoToken : (int64_t)rows.w + call.right;
  uint32_t steps = 0;
  GPU_UNROLL
  for (int step = 0; step < S::keys / 16; ++step) {
    const int first = listed ? (int)tokens[2 * 16 * step] : base + 16 * step;
    const bool seen = first <= rows.y - (gpu_fault("causal_skip_early") ? 8 : 0) && (listed || (first + 15 >= low && first <= high));
    steps |= (uint32_t)seen << step;
  }
  bool whole = call.exclude == 0;
  if (listed) {
    const int slots = (keys.first + (keys.from + tile - keys.sink_tiles) * S::keys) / SATTN_BAND_BLOCK * SATTN_BAND_BLOCK;
    whole &= (int)tokens[2 * (S::keys - 1)] <= rows.x && call.dense;
    whole &= slots >= (int64_t)rows.w - call.left && slots + SATTN_BAND_BLOCK - 1 <= (int64_t)rows.z + call.right;
  } else {
    const int last = base + S::keys - 1;
    whole &= last < (sink ? keys.sink_end : keys.end) && last <= rows.x;
    whole &= sink || (base >= (int64_t)rows.w - call.left && last <= (int64_t)rows.z + call.right);
  }
  plan.bits |= steps << 4 * g | (uint32_t)!whole << (8 + g) | (uint32_t)sink << 10;
}

}  // namespace

#endif
