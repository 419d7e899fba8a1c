// Between the two products of a tile: masks, and the online softmax. A thread holds, of each group of 16 rows, elements of the rows l / 4
// and l / 4 + 8 (l: its lane) in accumulators of 16 x 8:
//
//     score[j][0..1]   row l / 4,      keys 8 j + 2 (l % 4) + 0..1
//     score[j][2..3]   row l / 4 + 8,  the same keys
//
// A step is 16 keys, two accumulators. Steps that no row of a group sees are skipped: a bit per step says which are left, alike in the
// whole warp. Scores are in units of log 2. The four lanes of a row share its maximum but have a part of its sum each.
#ifndef SATTN_CUDA_KERNELS_MMA_SOFTMAX_H
#define SATTN_CUDA_KERNELS_MMA_SOFTMAX_H

#include "mma_tile.h"

namespace {

// s <- c log2(e) tanh(s scale / c). With x = s scale / c and e = exp(-2 |x|), which is at most 1, tanh |x| = (1 - e) / (1 + e): it never
// overflows, and where scores are small next to c it is good to 3e-8 c; as 1 - 2 / (1 + exp 2x) it would be off by 1e-7 c, which an LSE
// near 0 shows.
template <int d>
GPU_DEVICE void cap_scores(float (*score)[4], const sattn_cuda_band &call, uint32_t steps) {
  GPU_UNROLL
  for (int j = 0; j < Shape<d>::keys / 8; ++j) {
    if (!(steps >> j / 2 & 1)) continue;
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      const float x = score[j][e] * (call.cap_in * (2.0f * kLog2e)), shrunk = gpu_exp2(-fabsf(x));
      score[j][e] = copysignf(call.cap_out * ((1.0f - shrunk) * gpu_reciprocal(1.0f + shrunk)), x);
    }
  }
}

template <int d, bool exclude>
GPU_DEVICE void mask_scores(float (*score)[4], const sattn_cuda_band &call, uint32_t steps, bool sink, const Row_table &table, int row,
                            gpu_shared<uint4> pairs, int lane) {
  const uint32_t width = sink ? kAnyWidth : (uint32_t)call.left + (uint32_t)call.right + (gpu_fault("window_wide") ? 1u : 0u);
  const int limit[2] = {table.limit[row], table.limit[row + 8]};
  const int low[2] = {table.slot[row] - call.left, table.slot[row + 8] - call.left};
  int other[2] = {0, 0};
  if (exclude) {
    other[0] = table.position[row] - call.exclude_left;
    other[1] = table.position[row + 8] - call.exclude_left;
  }
  const uint32_t other_width = (uint32_t)call.exclude_left + (uint32_t)call.exclude_right;
  GPU_UNROLL
  for (int j = 0; j < Shape<d>::keys / 8; ++j) {
    if (!(steps >> j / 2 & 1)) continue;
    const uint4 pair = pairs[j * 4 + lane % 4];  // token, slot of two keys
    const uint32_t token[2] = {pair.x, pair.z}, slot[2] = {pair.y, pair.w};
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int k = gpu_fault("mask_column") ? 1 - e % 2 : e % 2, r = e / 2;
      bool seen = (int)token[k] <= limit[r] && slot[k] - (uint32_t)low[r] <= width;
      if (exclude) seen = seen && token[k] - (uint32_t)other[r] > other_width;
      score[j][e] = seen ? score[j][e] : -GPU_INFINITY;
    }
  }
}

// Scores become probabilities against the new maximum; `shrink` is what older sums and outputs are to be multiplied with. True if a row of
// the warp has a new maximum.
template <int d>
GPU_DEVICE bool exponentials(float (*score)[4], float *max, float *sum, float *shrink, float scale, uint32_t steps) {
  float top[2] = {-GPU_INFINITY, -GPU_INFINITY};
  GPU_UNROLL
  for (int j = 0; j < Shape<d>::keys / 8; ++j) {
    if (!(steps >> j / 2 & 1)) continue;
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) top[e / 2] = fmaxf(top[e / 2], score[j][e]);
  }
  float reference[2];
  bool grown = false;
  GPU_UNROLL
  for (int r = 0; r < 2; ++r) {
    top[r] = fmaxf(top[r], __shfl_xor_sync(kAllLanes, top[r], 1));
    if (!gpu_fault("divergent_shuffle") || threadIdx.x % 32 < 16) top[r] = fmaxf(top[r], __shfl_xor_sync(kAllLanes, top[r], 2));
    const float next = fmaxf(max[r], top[r] * scale);
    grown |= next > max[r];
    reference[r] = next == -GPU_INFINITY ? 0.0f : next;  // infinity minus infinity would be NaN
    shrink[r] = gpu_exp2(max[r] - reference[r]);
    max[r] = next;
    sum[r] *= shrink[r];
  }
  GPU_UNROLL
  for (int j = 0; j < Shape<d>::keys / 8; ++j) {
    if (!(steps >> j / 2 & 1)) continue;
    GPU_UNROLL
    for (int e = 0; e < 4; ++e) {
      score[j][e] = gpu_exp2(fmaf(score[j][e], scale, -reference[e / 2]));
      sum[e / 2] += score[j][e];
    }
  }
  return __any_sync(kAllLanes, grown) != 0;
}

}  // namespace

#endif
