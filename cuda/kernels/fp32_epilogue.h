// First and last part of the fp32 kernels: what the sums start from, and where results go. A thread holds whole chunks of 16 bytes, which
// 16 lanes write side by side.
#ifndef SATTN_CUDA_KERNELS_FP32_EPILOGUE_H
#define SATTN_CUDA_KERNELS_FP32_EPILOGUE_H

#include "fp32_tile.h"
#include "row_results.h"

namespace {

template <int d>
struct Sums {
  float4 out[Shape<d>::lane_rows][Shape<d>::lane_chunks];
  float max[Shape<d>::lane_rows], sum[Shape<d>::lane_rows];
};

// Whether the lane owns its chunk number m, which is c.
template <int d>
GPU_DEVICE bool owns(int c) {
  return Shape<d>::chunks % kHalf == 0 || c < Shape<d>::chunks;
}

template <int d>
GPU_DEVICE void start_sums(Sums<d> &sums, const sattn_cuda_band &call, const Place &place, const Row_table &rows, int half, int l) {
  using S = Shape<d>;
  GPU_UNROLL
  for (int i = 0; i < S::lane_rows; ++i) {
    const int r = half * S::lane_rows + i, query = rows.query[r];
    start_row(sums.max[i], sums.sum[i], call, place, r, query, l == 0);
    GPU_UNROLL
    for (int m = 0; m < S::lane_chunks; ++m) {
      const int c = l + m * kHalf;
      sums.out[i][m] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (call.start != SATTN_BAND_CONTINUED || query < 0 || !owns<d>(c)) continue;
      sums.out[i][m] = gpu_load(reinterpret_cast<const float4 *>(call.partial + lse_index(call, place, r, query) * d) + c);
    }
  }
}

GPU_DEVICE float4 mix_chunk(float4 first, float4 second, const sattn_cuda_band &call, const Gates &gates, int c) {
  const float a[4] = {first.x, first.y, first.z, first.w};
  float b[4] = {second.x, second.y, second.z, second.w};
  float gate_first = first_gate(call, gates, c), gate_second = second_gate(call, gates, c);
  const bool alike = call.gate_first_step == 0 && call.gate_second_step == 0;
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (!alike) gate_first = first_gate(call, gates, c + i);
    if (!alike) gate_second = second_gate(call, gates, c + i);
    b[i] = gate_first * a[i] + gate_second * b[i];
  }
  return make_float4(b[0], b[1], b[2], b[3]);
}

// One chunk of a finished row on its way out. An empty row is 0 whatever its gates hold.
template <int d>
GPU_DEVICE void store_chunk(float4 chunk, const sattn_cuda_band &call, const Place &place, int r, int query, bool empty, int c) {
  const int head = place.head + r % call.pack;
  if (call.finish == SATTN_BAND_PARTIAL) {
    gpu_store(reinterpret_cast<float4 *>(call.partial + lse_index(call, place, r, query) * d) + c, chunk);
    return;
  }
  if (call.finish == SATTN_BAND_GATED) {
    const int64_t at = ((place.b * call.queries + query) * call.heads + head) * d + c * 4;
    if (call.second) gpu_store(reinterpret_cast<float4 *>(static_cast<float *>(call.second) + at), chunk);
    const float4 first = gpu_load(reinterpret_cast<const float4 *>(static_cast<const float *>(call.first) + at));
    if (!empty) chunk = mix_chunk(first, chunk, call, gates_of(call, place.b, query, head), c * 4);
  }
  const int64_t at =
      call.out.offset + place.b * call.out.stride_batch + query * call.out.stride_token + head * call.out.stride_head + c * 4;
  gpu_store(reinterpret_cast<float4 *>(static_cast<float *>(call.out_rows) + at), chunk);
}

// One row again, by the whole warp; if it does see an infinity or NaN, its elements go from lane to lane by way of the row of probabilities
// that nobody needs any more.
template <int d>
GPU_DEVICE void redo(gpu_shared<float> scratch, const sattn_cuda_band &call, const Place &place, const Keys &keys, const Row_table &rows,
                     int r, int lane) {
  constexpr int owned = d / 32 + (d % 32 != 0);
  float out[owned];
  redo_values<1, owned>(out, call, place, keys, rows.query[r], rows.limit[r], rows.slot[r], rows.position[r], r, d, Shape<d>::keys, lane);
  if (all_finite<owned>(out, d, lane)) return;
  __syncwarp();
  GPU_UNROLL
  for (int i = 0; i < owned; ++i) {
    const int c = lane + 32 * i;
    if (c < d) scratch[c] = out[i];
  }
  __syncwarp();
  const gpu_shared<float4> chunks = gpu_shared_cast<float4>(scratch, 0);
  for (int c = lane; c < Shape<d>::chunks; c += 32) store_chunk<d>(chunks[c], call, place, r, rows.query[r], false, c);
}

// Which rows of the warp exist and are not finite: a bit each, alike in the whole warp.
template <int d>
GPU_DEVICE uint32_t bad_rows(const Sums<d> &sums, const Row_table &rows, int half) {
  using S = Shape<d>;
  uint32_t bad = 0;
  GPU_UNROLL
  for (int i = 0; i < S::lane_rows; ++i) {
    float check = 0.0f;  // infinity times 0 is NaN
    GPU_UNROLL
    for (int m = 0; m < S::lane_chunks; ++m) {
      const float4 o = sums.out[i][m];
      check += o.x * 0.0f + o.y * 0.0f + o.z * 0.0f + o.w * 0.0f;
    }
    if (check != 0.0f && rows.limit[half * S::lane_rows + i] >= 0) bad |= 1u << (half % 2 * S::lane_rows + i);
  }
  return __reduce_or_sync(kAllLanes, bad);
}

// Results of one row of each half warp.
template <int d>
GPU_DEVICE void finish_row(Sums<d> &sums, const sattn_cuda_band &call, const Place &place, const Row_table &rows, int i, int half, int l) {
  using S = Shape<d>;
  const int r = half * S::lane_rows + i, query = rows.query[r];
  float sum = sums.sum[i];
  GPU_UNROLL
  for (int step = 1; step < kHalf; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (query < 0) return;
  const bool empty = rows.limit[r] < 0 || (call.splits > 1 && sum == 0.0f);  // a split may have no key that the row sees
  const float inverse = 1.0f / sum;
  GPU_UNROLL
  for (int m = 0; m < S::lane_chunks; ++m) {
    const float4 o = sums.out[i][m];
    const float4 chunk =
        empty ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : make_float4(o.x * inverse, o.y * inverse, o.z * inverse, o.w * inverse);
    const int c = l + m * kHalf;
    if (owns<d>(c)) store_chunk<d>(chunk, call, place, r, query, empty, c);
  }
  float *lse = call.finish == SATTN_BAND_PARTIAL ? call.partial_lse : call.lse;
  if (lse && l == 0) gpu_store(lse + lse_index(call, place, r, query), empty ? -GPU_INFINITY : (sums.max[i] + gpu_log2(sum)) * kLn2);
}

template <int d>
GPU_DEVICE void finish(Sums<d> &sums, const sattn_cuda_band &call, const Place &place, const Keys &keys, gpu_shared<float> scratch,
                       const Row_table &rows, uint32_t bad, int half, int l) {
  using S = Shape<d>;
  GPU_UNROLL
  for (int i = 0; i < S::lane_rows; ++i) finish_row<d>(sums, call, place, rows, i, half, l);
  GPU_NO_UNROLL
  for (; bad; bad &= bad - 1)
    redo<d>(scratch, call, place, keys, rows, half / 2 * S::group_rows + __ffs((int)bad) - 1, half % 2 * kHalf + l);
}

}  // namespace

#endif
