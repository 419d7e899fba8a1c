// Between the products of a backward tile: which steps there are, and from scores and dP to P and dS in registers.
//
//     P  = exp(s - LSE)                      s: capped and scaled, in units of log 2; exactly 0 where a query does not see a key
//     dS = P (gate dP - delta) slope         exactly 0 there as well, whatever dP is
//     what dV is multiplied from: gate P
//
// A thread holds the elements of 16 x 8 accumulators that mma_softmax.h shows; rows are queries or keys, columns the others.
//
// The second products multiply these zeros with rows of columns that a row does not see, so an infinity or NaN there makes the sum NaN. A
// block whose sums are not finite is done again, with such elements replaced by zeros: then each sum is, to the bit, what it is without
// them. Which sums do see one is counted by a third round, with 1 for every visible pair and every element that is not finite.
#ifndef SATTN_CUDA_KERNELS_MMA_GRAD_SCORES_H
#define SATTN_CUDA_KERNELS_MMA_GRAD_SCORES_H

#include "mma_grad_tile.h"

namespace {

enum { kAsIs = 0, kCleaned = 1, kCounted = 2 };  // rounds

// What is to be done with a tile: bit 2 g + step, and bit 8 + g where some pairs of the group's steps are not visible.
struct Grad_plan {
  uint32_t bits;
  GPU_DEVICE_MEMBER bool has(int g, int step) const { return bits >> (2 * g + step) & 1; }
  GPU_DEVICE_MEMBER bool step(int step) const { return bits >> step & 5; }
  GPU_DEVICE_MEMBER bool any(int g) const { return bits >> 2 * g & 3; }
  GPU_DEVICE_MEMBER bool any() const { return bits & 15; }
  GPU_DEVICE_MEMBER bool masked(int g) const { return bits >> (8 + g) & 1; }
};

// The edge of a column: see mma_grad_tile.h.
template <bool by_key>
GPU_DEVICE int column_edge(const sattn_cuda_band &band, uint32_t token) {
  if (!by_key) return (int)token;
  if (token == (uint32_t)kNoToken) return -1;
  return band.causal ? (int)token : kNoToken - 1;
}

GPU_DEVICE bool is_wide(const sattn_cuda_band_grad &call, const Place &place, const Keys &columns, int tile, bool by_key) {
  if (gpu_fault("grad_sinks_banded")) return false;
  return by_key ? place.tile < call.key_sink_tiles : is_sink_tile(columns, tile);
}

// Neither rows nor columns need be sorted. wide: sink tokens, which have no band.
template <class S, bool by_key>
GPU_DEVICE Grad_plan plan_tile(const sattn_cuda_band &band, bool wide, gpu_shared<uint2> index, const Grad_memory &memory, int warp,
                               int lane) {
  const uint2 mine = index[lane];
  const int edge = column_edge<by_key>(band, mine.x);
  const bool exists = mine.x != (uint32_t)kNoToken;
  Grad_plan plan = {0};
  GPU_UNROLL
  for (int step = 0; step < S::steps; ++step) {
    const int4 columns = bounds_of(exists && lane / 16 == step, edge, (int)mine.y);
    const bool full = __any_sync(kAllLanes, !exists && lane / 16 == step) == 0;
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const int4 rows = memory.bounds[group_of(warp, g)];
      const int4 query = by_key ? columns : rows, key = by_key ? rows : columns;
      const bool before = key.x <= query.y - (gpu_fault("grad_skip_early") ? 8 : 0);
      const bool near = wide || (key.w >= query.z - band.left && key.z <= query.w + band.right);
      bool whole = full && !band.exclude && key.y <= query.x;
      whole = whole && (wide || (key.z >= query.w - band.left && key.w <= query.z + band.right));
      if (!before || !near) continue;
      plan.bits |= 1u << (2 * g + step) | (uint32_t)!whole << (8 + g);
    }
  }
  return plan;
}

struct Grad_query {
  int edge, slot, position;
  float lse, delta, gate;
};

struct Grad_key {
  int token, slot;
};

GPU_DEVICE bool key_visible(const sattn_cuda_band &band, const Grad_query &query, const Grad_key &key, uint32_t width) {
  if (gpu_fault("grad_mask_omitted")) return key.token != kNoToken && query.edge >= 0;
  const uint32_t other_width = (uint32_t)band.exclude_left + (uint32_t)band.exclude_right;
  const bool seen = key.token <= query.edge && (uint32_t)key.slot - (uint32_t)(query.slot - band.left) <= width;
  const bool twice = band.exclude && (uint32_t)key.token - (uint32_t)(query.position - band.exclude_left) <= other_width;
  return seen && (!twice || gpu_fault("grad_union_twice"));
}

// One pair: its score becomes gate P, its dP dS.
GPU_DEVICE void grad_pair(float &score, float &grad, const sattn_cuda_band &band, const Grad_query &query, bool seen, int round) {
  float s = score, slope = 1.0f;
  if (band.cap_out > 0.0f) {
    const float e = fminf(gpu_exp2(s * band.cap_in * (2.0f * kLog2e)), 0x1p60f);  // e r r is not to be infinity times 0
    const float r = gpu_reciprocal(e + 1.0f);                                     // tanh = 1 - 2 r
    s = band.cap_out - 2.0f * band.cap_out * r;
    // 4 r (1 - r) would lose the digits of a slope far below the cap. Where double precision has a tanh of 1 or -1, it is 0.
    slope = 4.0f * e * (r * r);
    if (slope < 0x1p-53f) slope = 0.0f;
    if (gpu_fault("grad_slope_missing")) slope = 1.0f;
  }
  const float p = gpu_exp2(fmaf(s, band.scale_log2, -query.lse));
  const float ds = p * (gpu_multiply(query.gate, grad) - query.delta) * slope;
  score = seen ? (round == kCounted ? 1.0f : p * (gpu_fault("grad_gate_forgotten") ? 1.0f : query.gate)) : 0.0f;
  grad = seen ? (round == kCounted ? 1.0f : ds) : 0.0f;
}

GPU_DEVICE void set_stats(Grad_query &query, const float4 &stats) {
  query.lse = stats.x;
  query.delta = stats.y;
  query.gate = stats.z;
}

// The pairs of one group of rows, of which the thread has the rows r and r + 8.
template <class S, bool by_key, bool masked>
GPU_DEVICE void grad_pairs(float (*score)[4], float (*grad)[4], const sattn_cuda_band &band, const Grad_plan &plan, int g, bool wide,
                           const Grad_memory &memory, int r, gpu_shared<uint4> pairs, gpu_shared<float4> column_stats, int round,
                           int lane) {
  const uint32_t width = wide ? kAnyWidth : (uint32_t)band.left + (uint32_t)band.right;
  Grad_query query[2];
  Grad_key key[2];
  GPU_UNROLL
  for (int i = 0; i < 2; ++i) {
    if (masked && by_key) key[i] = {memory.edge[r + 8 * i], memory.slot[r + 8 * i]};
    if (masked && !by_key) query[i] = {memory.edge[r + 8 * i], memory.slot[r + 8 * i], memory.position[r + 8 * i], 0.0f, 0.0f, 0.0f};
    if (!by_key) set_stats(query[i], memory.row_stats[r + 8 * i]);
  }
  GPU_UNROLL
  for (int j = 0; j < S::columns / 8; ++j) {
    if (!plan.has(g, j / 2)) continue;
    uint4 pair = {0, 0, 0, 0};  // token, slot of two columns
    if (masked) pair = pairs[j * 4 + lane % 4];
    GPU_UNROLL
    for (int k = 0; k < 2; ++k) {
      const uint32_t token = k ? pair.z : pair.x, slot = k ? pair.w : pair.y;
      Grad_query column_query;
      const Grad_key column_key = {(int)token, (int)slot};
      if (by_key) {
        column_query = {column_edge<true>(band, token), (int)slot, (int)token, 0.0f, 0.0f, 0.0f};
        set_stats(column_query, column_stats[j * 8 + lane % 4 * 2 + k]);
      }
      GPU_UNROLL
      for (int i = 0; i < 2; ++i) {
        const Grad_query &q = by_key ? column_query : query[i];
        const bool seen = !masked || key_visible(band, q, by_key ? key[i] : column_key, width);
        grad_pair(score[j][2 * i + k], grad[j][2 * i + k], band, q, seen, round);
      }
    }
  }
}

// Elements of a tile that are not finite become zeros, or, to be counted, 1 and all others 0.
template <class T, class S>
GPU_DEVICE void clean_tile(gpu_shared<unsigned char> bytes, uint32_t offset, int round) {
  const gpu_shared<uint32_t> words = gpu_shared_cast<uint32_t>(bytes, offset);
  const uint32_t one = T::pack(1.0f, 1.0f);
  GPU_NO_UNROLL
  for (int k = (int)threadIdx.x; k < (int)(S::tile_bytes / 4); k += kThreads) {
    const uint32_t word = words[k];
    uint32_t good = T::to_float((uint16_t)word) * 0.0f == 0.0f ? 0xffffu : 0u;
    if (T::to_float((uint16_t)(word >> 16)) * 0.0f == 0.0f) good |= 0xffff0000u;
    words[k] = round == kCounted ? one & ~good : word & good;
  }
}

}  // namespace

#endif
