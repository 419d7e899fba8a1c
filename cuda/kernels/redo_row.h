// A row once more, key by key, by one warp: tells rows that see an infinity or NaN from those that merely share a tile with one. The fast
// kernels multiply probabilities of 0 with V rows that a query does not see; here such a row is never touched. Lane c owns elements c, c
// + 32...
#ifndef SATTN_CUDA_KERNELS_REDO_ROW_H
#define SATTN_CUDA_KERNELS_REDO_ROW_H

#include "band.h"
#include "elements.h"

namespace {

constexpr int kRedoKeys = 32;

// Where a row starts: element numbers.
struct Redo {
  int64_t query, key, value;
  int tile_keys;  // as the fast kernel counts them
};

struct Redo_sums {
  float max, sum;  // max in units of log 2
  float lse;       // natural
};

GPU_DEVICE float redo_warp_max(float x) {
  GPU_UNROLL
  for (int step = 16; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

GPU_DEVICE float redo_warp_sum(float x) {
  GPU_UNROLL
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

GPU_DEVICE bool row_sees(const sattn_cuda_band &call, const Row &row, bool sink, uint32_t token, uint32_t slot) {
  const uint32_t width = sink ? kAnyWidth : (uint32_t)call.left + (uint32_t)call.right;
  if ((int)token > row.limit || slot - (uint32_t)(row.slot - call.left) > width) return false;
  const uint32_t other_width = (uint32_t)call.exclude_left + (uint32_t)call.exclude_right;
  return !call.exclude || token - (uint32_t)(row.position - call.exclude_left) > other_width;
}

template <int dtype>
GPU_DEVICE float redo_score(const sattn_cuda_band &call, int64_t query_at, int64_t key_at, int d) {
  float s = 0.0f;
  GPU_NO_UNROLL
  for (int c = 0; c < d; ++c) {
    s = fmaf(load_element<dtype>(call.query_rows, query_at + c), load_element<dtype>(call.key_rows, key_at + c), s);
  }
  s *= call.scale;
  return call.cap_out > 0.0f ? call.cap_out * tanhf(s * (kLog2e / call.cap_out)) : s * kLog2e;
}

// Adds the 32 keys from number `first` of a tile on.
template <int dtype, int owned>
GPU_DEVICE void redo_keys(Redo_sums &sums, float *out, const sattn_cuda_band &call, const Keys &keys, const Row &row, const Redo &redo,
                          int tile, int first, int d, int lane) {
  const int k = key_index(keys, tile, first + lane, redo.tile_keys);
  const bool sink = is_sink_tile(keys, tile);
  uint64_t entry = (uint32_t)k | (uint64_t)(uint32_t)k << 32;
  if (k >= 0 && keys.list && !sink) entry = gpu_load(keys.list + k);
  const int token = (int)(uint32_t)entry;
  const bool seen = k >= 0 && row_sees(call, row, sink, (uint32_t)token, (uint32_t)(entry >> 32));
  const float s = seen ? redo_score<dtype>(call, redo.query, redo.key + token * call.key.stride_token, d) : -GPU_INFINITY;
  const float next = fmaxf(sums.max, redo_warp_max(s));
  const float reference = next == -GPU_INFINITY ? 0.0f : next;
  const float shrink = gpu_exp2(sums.max - reference), weight = seen ? gpu_exp2(s - reference) : 0.0f;
  sums.max = next;
  sums.sum = sums.sum * shrink + redo_warp_sum(weight);
  GPU_UNROLL
  for (int i = 0; i < owned; ++i) out[i] *= shrink;
  GPU_NO_UNROLL
  for (int other = 0; other < kRedoKeys; ++other) {
    const int there = __shfl_sync(kAllLanes, seen ? token : -1, other);
    const float p = __shfl_sync(kAllLanes, weight, other);
    if (there < 0 && !gpu_fault("redo_reads_unseen")) continue;
    GPU_UNROLL
    for (int i = 0; i < owned; ++i) {
      const int c = lane + 32 * i;
      if (c < d) out[i] = fmaf(p, load_element<dtype>(call.value_rows, redo.value + there * call.value.stride_token + c), out[i]);
    }
  }
}

// out: what the row's sums start from; becomes the finished row.
template <int dtype, int owned>
GPU_DEVICE void redo_row(Redo_sums &sums, float *out, const sattn_cuda_band &call, const Keys &keys, const Row &row, const Redo &redo,
                         int d, int lane) {
  GPU_NO_UNROLL
  for (int tile = 0; tile < keys.tiles; ++tile) {
    GPU_NO_UNROLL
    for (int first = 0; first < redo.tile_keys; first += kRedoKeys) {
      redo_keys<dtype, owned>(sums, out, call, keys, row, redo, tile, first, d, lane);
    }
  }
  const float inverse = 1.0f / sums.sum;
  GPU_UNROLL
  for (int i = 0; i < owned; ++i) out[i] *= inverse;
}

}  // namespace

#endif
