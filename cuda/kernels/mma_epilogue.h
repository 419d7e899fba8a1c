// First and last part of the tensor-core kernels: what the sums start from, and where results go.
//
// A finished row goes through shared memory, over the query row that it belongs to, because a thread holds 4 bytes of each 16-byte chunk;
// global memory is then read and written 16 bytes at a time. Partial results, in fp32, go straight from registers and back.
#ifndef SATTN_CUDA_KERNELS_MMA_EPILOGUE_H
#define SATTN_CUDA_KERNELS_MMA_EPILOGUE_H

#include "mma_softmax.h"
#include "row_results.h"

namespace {

template <int d>
struct Sums {
  float out[Shape<d>::groups][d / 8][4];
  float max[Shape<d>::groups][2], sum[Shape<d>::groups][2];
};

template <int d>
GPU_DEVICE void start_sums(Sums<d> &sums, const sattn_cuda_band &call, const Place &place, const Row_table &rows, int warp, int lane) {
  using S = Shape<d>;
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) {
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) sums.out[g][j][0] = sums.out[g][j][1] = sums.out[g][j][2] = sums.out[g][j][3] = 0.0f;
    GPU_UNROLL
    for (int e = 0; e < 2; ++e) {
      const int r = group_of(warp, g) * 16 + lane / 4 + 8 * e, query = rows.query[r];
      start_row(sums.max[g][e], sums.sum[g][e], call, place, r, query, lane % 4 == 0);
      if (call.start != SATTN_BAND_CONTINUED || query < 0) continue;
      const float *partial = call.partial + lse_index(call, place, r, query) * d + lane % 4 * 2;
      GPU_UNROLL
      for (int j = 0; j < d / 8; ++j) {
        const float2 pair = gpu_load(reinterpret_cast<const float2 *>(partial + 8 * j));
        sums.out[g][j][2 * e] = pair.x;
        sums.out[g][j][2 * e + 1] = pair.y;
      }
    }
  }
}

// Two elements of a gated row.
template <class T>
GPU_DEVICE uint32_t mix_pair(uint32_t first, uint32_t second, const float *gate_first, const float *gate_second) {
  const float low = gate_first[0] * T::to_float((uint16_t)first) + gate_second[0] * T::to_float((uint16_t)second);
  const float high = gate_first[1] * T::to_float((uint16_t)(first >> 16)) + gate_second[1] * T::to_float((uint16_t)(second >> 16));
  return T::pack(low, high);
}

template <class T>
GPU_DEVICE uint4 mix_chunk(uint4 first, uint4 second, const sattn_cuda_band &call, const Gates &gates, int c) {
  uint32_t a[4] = {first.x, first.y, first.z, first.w}, b[4] = {second.x, second.y, second.z, second.w};
  float gate_first[2] = {first_gate(call, gates, c), 0.0f}, gate_second[2] = {second_gate(call, gates, c), 0.0f};
  const bool alike = call.gate_first_step == 0 && call.gate_second_step == 0;
  GPU_UNROLL
  for (int i = 0; i < 4; ++i) {
    GPU_UNROLL
    for (int e = 0; e < 2; ++e) {
      gate_first[e] = alike ? gate_first[0] : first_gate(call, gates, c + 2 * i + e);
      gate_second[e] = alike ? gate_second[0] : second_gate(call, gates, c + 2 * i + e);
    }
    b[i] = mix_pair<T>(a[i], b[i], gate_first, gate_second);
  }
  return make_uint4(b[0], b[1], b[2], b[3]);
}

// One chunk of a finished row on its way out. An empty row is 0 whatever its gates hold.
template <class T, int d>
GPU_DEVICE void store_chunk(uint4 chunk, const sattn_cuda_band &call, const Place &place, int r, int query, bool empty, int c) {
  const int head = place.head + r % call.pack;
  if (call.finish == SATTN_BAND_GATED) {
    const int64_t at = ((place.b * call.queries + query) * call.heads + head) * d + c * 8;
    if (call.second) gpu_store(reinterpret_cast<uint4 *>(static_cast<uint16_t *>(call.second) + at), chunk);
    const uint4 first = gpu_load(reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(call.first) + at));
    if (!empty) chunk = mix_chunk<T>(first, chunk, call, gates_of(call, place.b, query, head), c * 8);
  }
  const int64_t at =
      call.out.offset + place.b * call.out.stride_batch + query * call.out.stride_token + head * call.out.stride_head + c * 8;
  gpu_store(reinterpret_cast<uint4 *>(static_cast<uint16_t *>(call.out_rows) + at), chunk);
}

// The rows of one group, from shared memory to the arrays of the call.
template <class T, int d>
GPU_DEVICE void store_group(gpu_shared<unsigned char> bytes, const sattn_cuda_band &call, const Place &place, const Row_table &rows,
                            int group, int lane) {
  each_chunk<d, 16, 32>(lane, Shape<d>::rows, group * 16, [&](int r, int c, uint32_t offset) {
    const int query = rows.query[r];
    if (query < 0 && !gpu_fault("tail_rows_written")) return;
    store_chunk<T, d>(gpu_shared_cast<uint4>(bytes, offset)[0], call, place, r, query, rows.limit[r] < 0, c);
  });
}

// One of the warp's rows again; if it does see an infinity or NaN, its result replaces the one that is in shared memory or, if partial, in
// global memory.
template <class T, int dtype, int d>
GPU_DEVICE void redo(gpu_shared<unsigned char> bytes, const sattn_cuda_band &call, const Place &place, const Keys &keys,
                     const Row_table &rows, int r, int lane) {
  constexpr int owned = (d + 31) / 32;
  float out[owned];
  redo_values<dtype, owned>(out, call, place, keys, rows.query[r], rows.limit[r], rows.slot[r], rows.position[r], r, d, Shape<d>::keys,
                            lane);
  if (all_finite<owned>(out, d, lane)) return;
  const int64_t partial_at = lse_index(call, place, r, rows.query[r]) * d;
  GPU_UNROLL
  for (int i = 0; i < owned; ++i) {
    const int c = lane + 32 * i;
    if (c >= d) continue;
    if (call.finish == SATTN_BAND_PARTIAL) {
      gpu_store(call.partial + partial_at + c, out[i]);
    } else {
      gpu_shared_cast<uint16_t>(bytes, chunk_offset<d, Shape<d>::rows>(r, c / 8) + c % 8 * 2)[0] = T::from_float(out[i]);
    }
  }
}

// Which rows of a group exist and are not finite: a bit each, alike in the whole warp.
template <int d>
GPU_DEVICE uint32_t bad_rows(const Sums<d> &sums, const Row_table &rows, int g, int group, int lane) {
  uint32_t bad = 0;
  GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    float check = 0.0f;  // infinity times 0 is NaN
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) check += sums.out[g][j][2 * e] * 0.0f + sums.out[g][j][2 * e + 1] * 0.0f;
    if (check != 0.0f && rows.limit[group * 16 + lane / 4 + 8 * e] >= 0) bad |= 1u << (lane / 4 + 8 * e);
  }
  return gpu_fault("nonfinite_ignored") ? 0 : __reduce_or_sync(kAllLanes, bad);
}

// One group: sums become results, in shared memory or in the partial arrays, and the LSE.
template <class T, int d>
GPU_DEVICE void finish_group(Sums<d> &sums, const sattn_cuda_band &call, const Place &place, gpu_shared<unsigned char> bytes,
                             const Row_table &rows, int g, int group, int lane) {
  GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int r = group * 16 + lane / 4 + 8 * e, query = rows.query[r];
    float sum = sums.sum[g][e];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    const bool empty = rows.limit[r] < 0 || (call.splits > 1 && sum == 0.0f);  // a split may have no key that the row sees
    const float inverse = 1.0f / sum;
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) {
      const float low = empty ? 0.0f : sums.out[g][j][2 * e] * inverse, high = empty ? 0.0f : sums.out[g][j][2 * e + 1] * inverse;
      if (call.finish != SATTN_BAND_PARTIAL) {
        gpu_shared_cast<uint32_t>(bytes, chunk_offset<d, Shape<d>::rows>(r, j) + lane % 4 * 4)[0] = T::pack(low, high);
      } else if (query >= 0) {
        gpu_store(reinterpret_cast<float2 *>(call.partial + lse_index(call, place, r, query) * d + 8 * j + lane % 4 * 2),
                  make_float2(low, high));
      }
    }
    float *lse = call.finish == SATTN_BAND_PARTIAL ? call.partial_lse : call.lse;
    if (lse && query >= 0 && (lane % 4 == 0 || gpu_fault("lse_by_four_lanes"))) {
      gpu_store(lse + lse_index(call, place, r, query), empty ? -GPU_INFINITY : (sums.max[g][e] + gpu_log2(sum)) * kLn2);
    }
  }
}

template <class T, int dtype, int d>
GPU_DEVICE void finish(Sums<d> &sums, const sattn_cuda_band &call, const Place &place, const Keys &keys, gpu_shared<unsigned char> bytes,
                       const Row_table &rows, gpu_shared<uint32_t> bad, int warp, int lane) {
  __syncwarp();  // the last product may still read query rows
  GPU_UNROLL
  for (int g = 0; g < Shape<d>::groups; ++g) {
    const int group = group_of(warp, g);
    finish_group<T, d>(sums, call, place, bytes, rows, g, group, lane);
    __syncwarp();
    GPU_NO_UNROLL
    for (uint32_t left = bad[group]; left; left &= left - 1) {
      redo<T, dtype, d>(bytes, call, place, keys, rows, group * 16 + __ffs((int)left) - 1, lane);
    }
    __syncwarp();
    if (call.finish != SATTN_BAND_PARTIAL) store_group<T, d>(bytes, call, place, rows, group, lane);
  }
}

}  // namespace

#endif
