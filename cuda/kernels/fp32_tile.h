// Shared memory of the fp32 kernels, and moving rows into it.
//
//     queries  [rows][pitch]      as they are: only read 16 lanes at a time from one place (but see query_chunk)
//     keys     [keys][pitch]      chunk c (16 bytes) of row r stands at c ^ turn(r), so that neighbouring rows start in different banks
//     values   [keys][pitch]      the same
//     weights  [rows][keys]       probabilities; halves of 32 keys are swapped in every other row group, so that two half warps do not meet
//     what tile_index.h says
#ifndef SATTN_CUDA_KERNELS_FP32_TILE_H
#define SATTN_CUDA_KERNELS_FP32_TILE_H

#include "fp32_shape.h"
#include "tile_index.h"

namespace {

constexpr int kHalf = 16;  // lanes that share rows

template <int d>
struct Shape {
  static constexpr int rows = SATTN_FP32_ROWS(d), keys = SATTN_FP32_KEYS(d);
  static constexpr int lane_rows = rows / (2 * kWarps);  // of one thread
  static constexpr int lane_keys = keys / kHalf;         // k, k + 16, ...: one of each step
  static constexpr int chunks = d / 4, lane_chunks = (chunks + kHalf - 1) / kHalf;
  static constexpr int group_rows = rows / kWarps;  // a warp's
  static constexpr uint32_t pitch = SATTN_FP32_PITCH(d);
  static constexpr uint32_t keys_at = rows * pitch;
  static constexpr uint32_t values_at = keys_at + keys * pitch;
  static constexpr uint32_t weights_at = values_at + keys * pitch;
  static constexpr uint32_t index_at = weights_at + rows * keys * 4;
  static constexpr uint32_t rows_at = index_at + kIndexTiles * keys * 8;
  static constexpr uint32_t notes_at = rows_at + rows * 16 + kWarps * 16;
  static constexpr uint32_t bytes = notes_at + SATTN_FP32_NOTES;
  static_assert(sizeof(Notes) <= SATTN_FP32_NOTES, "no room for the notes");
  static_assert(bytes == SATTN_FP32_SHARED(d), "the host asks for another amount of shared memory");
};

// The lowest bit goes to the top: rows 2 r and 2 r + 1 then use different halves of eight chunks, also where only four are left (d = 80).
GPU_DEVICE int turn(int r) {
  return gpu_fault("fp32_no_swizzle") ? 0 : (r & 1) << 2 | (r >> 1 & 3);
}

// Where chunk c of a query row stands. The last four chunks of d = 80 are written two rows at a time, so odd rows have them further behind.
template <int d>
GPU_DEVICE int query_chunk(int r, int c) {
  return Shape<d>::chunks % 8 == 0 || r % 2 == 0 ? c : c ^ (c >> 2 & 4);
}

// Calls move(row, chunk) for every chunk of `count` rows.
template <int d, int count, class Move>
GPU_DEVICE void each_chunk(Move move) {
  constexpr int whole = Shape<d>::chunks / 8 * 8, rest = Shape<d>::chunks % 8;
  GPU_UNROLL
  for (int i = 0; i < count * whole / kThreads; ++i) {
    const int k = (int)threadIdx.x + i * kThreads;
    move(k / whole, k % whole);
  }
  if constexpr (rest != 0) {
    GPU_UNROLL
    for (int i = 0; i < count * rest / kThreads; ++i) {
      const int k = (int)threadIdx.x + i * kThreads;
      move(k / rest, whole + k % rest);
    }
  }
}

// Rows of a key tile whose index is there. Rows of keys that are not there become zeros.
template <int d>
GPU_DEVICE void load_rows(uint32_t shared, gpu_shared<uint32_t> tokens, const float *rows, int64_t stride) {
  using S = Shape<d>;
  each_chunk<d, S::keys>([&](int r, int c) {
    const uint32_t token = tokens[2 * r];
    const bool there = token != (uint32_t)kNoToken;
    const uint32_t at = shared + (uint32_t)r * S::pitch + (uint32_t)((c ^ turn(r)) << 4);
    gpu_cp_async<16>(at, rows + (there ? token : 0) * stride + c * 4, there ? 16u : 0u);
  });
}

// Infinities and NaN of a value tile become zeros: see attend_mma.h. Chunks that a row does not have are left alone.
template <int d>
GPU_DEVICE void clean_values(gpu_shared<unsigned char> bytes) {
  using S = Shape<d>;
  GPU_NO_UNROLL
  for (int k = (int)threadIdx.x; k < S::keys * S::chunks * 4; k += kThreads) {
    const int r = k / (S::chunks * 4), c = k % (S::chunks * 4);
    const gpu_shared<float> word =
        gpu_shared_cast<float>(bytes, S::values_at + (uint32_t)r * S::pitch + (uint32_t)((c / 4 ^ turn(r)) << 4) + (uint32_t)(c % 4 * 4));
    if (!(word[0] * 0.0f == 0.0f)) word[0] = 0.0f;
  }
}

// Query rows; those that are not there become zeros.
template <int d>
GPU_DEVICE void load_queries(uint32_t shared, const Row_table &table, const sattn_cuda_band &call, const Place &place) {
  using S = Shape<d>;
  const float *queries = static_cast<const float *>(call.query_rows) + call.query.offset + place.b * call.query.stride_batch;
  each_chunk<d, S::rows>([&](int r, int c) {
    const int query = table.query[r];
    const int64_t at =
        gpu_max(query, 0) * call.query.stride_token + (place.head + (query < 0 ? 0 : r % call.pack)) * call.query.stride_head;
    gpu_cp_async<16>(shared + (uint32_t)r * S::pitch + (uint32_t)(query_chunk<d>(r, c) << 4), queries + at + c * 4, query < 0 ? 0u : 16u);
  });
}

}  // namespace

#endif
