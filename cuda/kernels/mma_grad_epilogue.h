// First and last part of the backward kernels on tensor cores: what the sums start from, and where gradients go.
//
// A finished row goes through shared memory, over the row that it belongs to, because a thread holds 4 bytes of each 16-byte chunk. Partial
// results, in fp32 and without the scale, go straight from registers and back.
#ifndef SATTN_CUDA_KERNELS_MMA_GRAD_EPILOGUE_H
#define SATTN_CUDA_KERNELS_MMA_GRAD_EPILOGUE_H

#include "mma_grad_scores.h"

namespace {

// What a warp adds up: dQ or dK (with dS), and dV (with P).
template <class S, int d, bool with_ds, bool with_p>
struct Grad_sums {
  float ds[with_ds ? S::groups : 1][with_ds ? d / 8 : 1][4];
  float p[with_p ? S::groups : 1][with_p ? d / 8 : 1][4];
};

// Where the rows of one gradient go.
struct Grad_target {
  void *rows;
  sattn_kernel_tensor place;
  float *partial;
  float scale;
};

template <bool by_key>
GPU_DEVICE Grad_target ds_target(const sattn_cuda_band_grad &call) {
  const float scale = gpu_fault("grad_scale_missing") && !by_key ? 1.0f : call.band.scale;
  return by_key ? Grad_target{call.grad_key_rows, call.grad_key, call.partial_key, scale}
                : Grad_target{call.grad_query_rows, call.grad_query, call.partial_query, scale};
}

GPU_DEVICE Grad_target p_target(const sattn_cuda_band_grad &call) {
  return {call.grad_value_rows, call.grad_value, call.partial_value, 1.0f};
}

// Head of row r in the arrays of rows.
template <bool by_key>
GPU_DEVICE int row_head(const sattn_cuda_band &band, const Place &place, int r) {
  return by_key ? place.g : place.head + r % band.pack;
}

template <bool by_key>
GPU_DEVICE int64_t partial_index(const sattn_cuda_band &band, const Place &place, int r, int at) {
  if (!by_key) return stats_index(band, place.b, row_head<false>(band, place, r), at);
  return (place.b * (band.heads / band.group) + place.g) * (int64_t)band.keys + at;
}

template <class S, int d, bool by_key>
GPU_DEVICE void start_group(float (*sum)[4], const float *partial, const sattn_cuda_band &band, const Grad_memory &memory, int group,
                            int round, int lane) {
  GPU_UNROLL
  for (int j = 0; j < d / 8; ++j) sum[j][0] = sum[j][1] = sum[j][2] = sum[j][3] = 0.0f;
  if (band.start != SATTN_BAND_CONTINUED || round == kCounted || gpu_fault("grad_partial_lost")) return;
  const Place place = read_note<Place>(memory.place);
  GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int r = group * S::group_rows + lane / 4 + 8 * e, at = memory.at[r];
    if (at < 0) continue;
    const float *row = partial + partial_index<by_key>(band, place, r, at) * d + lane % 4 * 2;
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) {
      const float2 pair = gpu_load(reinterpret_cast<const float2 *>(row + 8 * j));
      sum[j][2 * e] = pair.x;
      sum[j][2 * e + 1] = pair.y;
    }
  }
}

// Whether a sum of a row that exists is not finite.
template <class S, int d, bool by_key>
GPU_DEVICE bool is_bad(const float (*sum)[4], const Grad_memory &memory, int group, int lane) {
  bool bad = false;
  GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    float check = 0.0f;  // infinity times 0 is NaN
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) check += sum[j][2 * e] * 0.0f + sum[j][2 * e + 1] * 0.0f;
    bad |= check != 0.0f && row_exists<by_key>(memory.edge[group * S::group_rows + lane / 4 + 8 * e]);
  }
  return bad;
}

// Sums of one group into their rows; `rows_at`: the array of rows in shared memory that the results go through.
template <class T, class S, int d, bool by_key>
GPU_DEVICE void finish_sums(const float (*sum)[4], const Grad_target &target, const sattn_cuda_band &band, const Grad_memory &memory,
                            uint32_t rows_at, int group, int lane) {
  const Place place = read_note<Place>(memory.place);
  const gpu_shared<unsigned char> staged = gpu_shared_cast<unsigned char>(memory.bytes, rows_at);
  GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int r = group * S::group_rows + lane / 4 + 8 * e, at = memory.at[r];
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) {
      const float low = sum[j][2 * e], high = sum[j][2 * e + 1];
      if (band.finish != SATTN_BAND_PARTIAL) {
        gpu_shared_cast<uint32_t>(staged, chunk_offset<d, S::rows>(r, j) + lane % 4 * 4)[0] =
            T::pack(low * target.scale, high * target.scale);
      } else if (at >= 0) {
        float *pair = target.partial + partial_index<by_key>(band, place, r, at) * d + 8 * j + lane % 4 * 2;
        gpu_store(reinterpret_cast<float2 *>(pair), make_float2(low, high));
      }
    }
  }
  if (band.finish == SATTN_BAND_PARTIAL) return;
  if (!gpu_fault("grad_staged_unordered")) __syncwarp();
  each_piece<d, S::group_rows, 32>(lane, S::rows, group * S::group_rows, [&](int r, int c, uint32_t offset) {
    const int at = memory.at[r];
    if (at < 0) return;
    const int64_t row = target.place.offset + place.b * target.place.stride_batch + at * target.place.stride_token +
                        row_head<by_key>(band, place, r) * target.place.stride_head;
    gpu_store(reinterpret_cast<uint4 *>(static_cast<uint16_t *>(target.rows) + row + c * 8), gpu_shared_cast<uint4>(staged, offset)[0]);
  });
  __syncwarp();
}

// Elements whose count is not zero see something that is not finite, and become NaN.
template <class T, class S, int d, bool by_key>
GPU_DEVICE void patch_sums(const float (*sum)[4], const Grad_target &target, const sattn_cuda_band &band, const Grad_memory &memory,
                           int group, int lane) {
  const Place place = read_note<Place>(memory.place);
  const float nan = gpu_bits_float(0x7fffffffu);
  GPU_UNROLL
  for (int e = 0; e < 2; ++e) {
    const int r = group * S::group_rows + lane / 4 + 8 * e, at = memory.at[r];
    if (at < 0) continue;
    const int64_t row = target.place.offset + place.b * target.place.stride_batch + at * target.place.stride_token +
                        row_head<by_key>(band, place, r) * target.place.stride_head;
    const int64_t partial = partial_index<by_key>(band, place, r, at) * d;
    GPU_UNROLL
    for (int j = 0; j < d / 8; ++j) {
      GPU_UNROLL
      for (int k = 0; k < 2; ++k) {
        const int c = 8 * j + lane % 4 * 2 + k;
        if (sum[j][2 * e + k] == 0.0f || gpu_fault("grad_seen_nonfinite_lost")) continue;
        if (band.finish == SATTN_BAND_PARTIAL) {
          gpu_store(target.partial + partial + c, nan);
        } else {
          gpu_store(static_cast<uint16_t *>(target.rows) + row + c, T::from_float(nan));
        }
      }
    }
  }
}

}  // namespace

#endif
