// Band attention over an order, as the fast kernels see it: which rows a tile has and which keys it visits. A row is (query token, head of
// the group); a key has a token (= its row in memory and its position) and a slot.
//
//     tile of rows, sorted by position          its keys, tile by tile
//     token 0: heads 0..pack-1                  sink tokens [0, sinks)                     in the identity order
//     token 1: heads 0..pack-1                  the band: tokens lo..hi                    identity order
//     ...                                           or blocks of key_list, each of 64 sorted by position
//
// Key j is visible to a row if token <= limit and slot - low <= width (unsigned) and not excluded. limit is the row's position if causal,
// else the last token; -1 for a row that is empty or not there. A key that is not there has the token kNoToken.
#ifndef SATTN_CUDA_KERNELS_BAND_H
#define SATTN_CUDA_KERNELS_BAND_H

#include "band_params.h"
#include "gpu.h"

namespace {

constexpr int kNoToken = 0x7fffffff;
constexpr uint32_t kAnyWidth = 0xffffffffu;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr float kLog2e = 1.44269504088896341f;
constexpr float kLn2 = 0.69314718055994531f;
constexpr float kMostFinite = 3.402823466e38f;

// The work of one thread block.
struct Place {
  int64_t b;
  int g, head;  // key/value head; first query head of the tile
  int heads;    // query heads that the tile has, at most pack
  int tile, split;
  int length, start;  // tokens that exist; position of query 0
  int present;        // queries that exist: 0..present-1
  int64_t list_row;
};

// The key tiles of one thread block.
struct Keys {
  const uint64_t *list;  // NULL: identity
  int sink_tiles, sink_end;
  int first, end;   // of the band: tokens, or entries of the list
  int from, tiles;  // of this thread block: tiles from..from + tiles - 1 of all
};

// A row of the tile.
struct Row {
  int query;  // -1: not there
  int limit, slot, position;
};

GPU_DEVICE Place locate(const sattn_cuda_band &call) {
  Place place;
  uint32_t index = blockIdx.x;
  place.split = (int)(index % (uint32_t)call.splits);
  index /= (uint32_t)call.splits;
  place.tile = (int)(index % (uint32_t)call.tiles);
  if (call.causal) place.tile = call.tiles - 1 - place.tile;  // those with most keys first
  index /= (uint32_t)call.tiles;
  const int chunk = (int)(index % (uint32_t)call.head_chunks);
  index /= (uint32_t)call.head_chunks;
  const uint32_t kv_heads = (uint32_t)(call.heads / call.group);
  place.g = (int)(index % kv_heads);
  place.b = index / kv_heads;
  place.head = place.g * call.group + chunk * call.pack;
  place.heads = gpu_min(call.pack, call.group - chunk * call.pack);
  place.length = call.lengths ? gpu_max(0, gpu_min(gpu_load(call.lengths + place.b), call.keys)) : call.keys;
  place.start = call.keys - call.queries;
  if (call.query_start) place.start = gpu_max(0, gpu_min(gpu_load(call.query_start + place.b), place.start));
  place.present = gpu_max(0, gpu_min(place.length - place.start, call.queries));
  place.list_row = place.b * call.list_batch + place.g * call.list_head;
  return place;
}

GPU_DEVICE Row row_of(const sattn_cuda_band &call, const Place &place, int r) {
  Row row = {-1, -1, 0, 0};
  const int token = r / call.pack, head = r % call.pack;
  const int at = place.tile * call.tile_tokens + token;
  if (token >= call.tile_tokens || at >= call.queries || head >= place.heads) return row;
  row.query = at;
  if (at >= place.present) return row;
  row.position = row.slot = place.start + at;
  if (call.query_list) {
    const uint64_t entry = gpu_load(call.query_list + place.list_row * call.queries + at);
    row.position = (int)(uint32_t)entry;
    row.slot = (int)(entry >> 32);
    row.query = row.position - place.start;
  }
  row.limit = call.causal ? row.position : place.length - 1;
  return row;
}

// `step`: keys of a tile.
GPU_DEVICE Keys keys_of(const sattn_cuda_band &call, const Place &place, int step) {
  Keys keys = {nullptr, 0, 0, 0, 0, 0, 0};
  const int at = place.tile * call.tile_tokens;
  const int rows_end = gpu_min(at + call.tile_tokens, place.present);
  if (at >= rows_end) return keys;  // empty rows only
  const int sinks = gpu_min(call.sinks, place.length);
  int last = place.length - 1;
  if (call.query_list) {
    const uint32_t *range = call.ranges + (place.list_row * call.tiles + place.tile) * 2;
    keys.list = call.key_list + place.list_row * call.list_keys;
    keys.first = (int)gpu_load(range) * SATTN_BAND_BLOCK;
    keys.end = gpu_min((int)gpu_load(range + 1) * SATTN_BAND_BLOCK, place.length - sinks + (call.list_keys - call.keys));
  } else {
    const int64_t low = place.start + at, high = place.start + rows_end - 1;
    if (call.causal) last = (int)high;
    keys.first = (int)gpu_max<int64_t>(low - call.left, sinks);
    keys.end = (int)gpu_min<int64_t>(high + call.right, last) + 1;
  }
  keys.end = gpu_max(keys.end, keys.first);
  keys.sink_end = call.visit_sinks ? gpu_min(sinks, last + 1) : 0;
  keys.sink_tiles = (keys.sink_end + step - 1) / step;
  const int64_t tiles = keys.sink_tiles + (keys.end - keys.first + step - 1) / step;
  keys.from = (int)(tiles * place.split / call.splits) + (gpu_fault("splits_skip_a_tile") && place.split > 0 ? 1 : 0);
  keys.tiles = (int)(tiles * (place.split + 1) / call.splits) - keys.from;
  return keys;
}

GPU_DEVICE bool is_sink_tile(const Keys &keys, int tile) {
  return keys.from + tile < keys.sink_tiles;
}

// Entry number k of a key tile: an index into the list, or a token; -1 past the end.
GPU_DEVICE int key_index(const Keys &keys, int tile, int k, int step) {
  const bool sink = is_sink_tile(keys, tile);
  const int number = keys.from + tile;
  const int index = sink ? number * step + k : keys.first + (number - keys.sink_tiles) * step + k;
  return index < (sink ? keys.sink_end : keys.end) ? index : -1;
}

}  // namespace

#endif
