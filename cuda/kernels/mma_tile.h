// Shared memory of the tensor-core kernels, and moving rows into it.
//
//     queries  [rows][d]
//     keys     [stages][keys][d]
//     values   [stages][keys][d]
//     what tile_index.h says
//
// A row is cut into chunks of 16 bytes. The first d / 64 * 8 chunks lie in rows of their own, the rest of d = 80 and 96 in narrower rows
// behind them. Inside a row, chunk c of row r stands at c ^ (r & 7) (narrow rows: fewer bits), so that the eight rows of an 8 x 8 matrix
// start in different banks, and a row is still written by neighbouring threads in one piece:
//
//     row 0   0 1 2 3 4 5 6 7
//     row 1   1 0 3 2 5 4 7 6
//     row 2   2 3 0 1 6 7 4 5
#ifndef SATTN_CUDA_KERNELS_MMA_TILE_H
#define SATTN_CUDA_KERNELS_MMA_TILE_H

#include "mma_shape.h"
#include "tile_index.h"

namespace {

// How the kernel for head dimension d is cut. kernels/mma_shape.h tells the host how much shared memory that takes.
template <int d>
struct Shape {
  static constexpr int groups = d > 128 ? 1 : 2;  // per warp
  static constexpr int group_rows = 16;
  static constexpr int rows = 16 * groups * kWarps;  // of a thread block
  static constexpr int keys = d >= 96 ? 32 : 64;     // of a tile
  static constexpr bool staggered = d > 128;         // one buffer each for keys and values, filled in turn; else two
  static constexpr int stages = staggered ? 1 : 2;
  static constexpr bool queries_in_registers = d <= 96;
  static constexpr int wide = d / 64 * 8;  // chunks of a row in the wide part
  static constexpr int narrow = d % 64 / 8;
  static constexpr uint32_t row_bytes = d * 2;
  static constexpr uint32_t tile_bytes = keys * row_bytes;
  static constexpr uint32_t keys_at = rows * row_bytes;
  static constexpr uint32_t values_at = keys_at + stages * tile_bytes;
  static constexpr uint32_t index_at = values_at + stages * tile_bytes;
  static constexpr uint32_t rows_at = index_at + kIndexTiles * keys * 8;
  static constexpr uint32_t notes_at = rows_at + rows * 17;
  static constexpr uint32_t bytes = notes_at + SATTN_MMA_NOTES;
  static_assert(sizeof(Notes) <= SATTN_MMA_NOTES, "no room for the notes");
  static_assert(bytes == SATTN_MMA_SHARED(d), "the host asks for another amount of shared memory");
};

// The groups that a warp owns.
GPU_DEVICE int group_of(int warp, int g) {
  return g ? 2 * kWarps - 1 - warp : warp;
}

// Byte offset of chunk c of row r in the narrow part.
template <int d>
GPU_DEVICE uint32_t narrow_offset(int r, int c) {
  constexpr int narrow = Shape<d>::narrow;
  const int mix = gpu_fault("no_swizzle") ? 0 : r;
  const int turn = narrow == 2 ? mix >> 2 & 1 : mix >> 1 & 3;
  return (uint32_t)(r * narrow * 16 + ((c ^ turn) << 4));
}

// Byte offset of chunk c of row r in an array of `count` rows.
template <int d, int count>
GPU_DEVICE uint32_t chunk_offset(int r, int c) {
  using S = Shape<d>;
  if (c < S::wide) return (uint32_t)(r * S::wide * 16 + ((c ^ ((gpu_fault("no_swizzle") ? 0 : r) & 7)) << 4));
  return (uint32_t)(count * S::wide * 16) + narrow_offset<d>(r, c - S::wide);
}

// Calls move(row, chunk, byte offset) for every chunk of `count` rows from `row` on, shared out over `threads` threads. Offsets are written
// so that the compiler sees what is the same in every round; row is a multiple of 8.
template <int d, int count, int threads, class Move>
GPU_DEVICE void each_chunk(int thread, int rows, int row, Move move) {
  using S = Shape<d>;
  constexpr int together = threads / S::wide;
  const int r = thread / S::wide, c = thread % S::wide;
  GPU_UNROLL
  for (int i = 0; i < count / together; ++i) {
    const int mix = gpu_fault("no_swizzle") ? 0 : r + i * together % 8;
    const uint32_t offset = (uint32_t)((row + r) * S::wide * 16 + ((c ^ (mix & 7)) << 4)) + (uint32_t)(i * together * S::wide * 16);
    move(row + r + i * together, c, offset);
  }
  if constexpr (S::narrow != 0) {
    GPU_UNROLL
    for (int i = 0; i < count * S::narrow / threads; ++i) {
      const int k = thread + i * threads;
      move(row + k / S::narrow, S::wide + k % S::narrow,
           (uint32_t)(rows * S::wide * 16) + narrow_offset<d>(row + k / S::narrow, k % S::narrow));
    }
  }
}

// Where a lane's rows of a 16 x 16 piece begin, for ldmatrix: matrices go down, then right (Q, V), or right, then down (K).
struct Pieces {
  uint32_t wide, narrow;  // of slice 0 and the first row
};

template <int d>
GPU_DEVICE Pieces pieces_of(int row, int side) {
  Pieces pieces;
  pieces.wide = (uint32_t)(row * Shape<d>::wide * 16 + ((side ^ ((gpu_fault("no_swizzle") ? 0 : row) & 7)) << 4));
  pieces.narrow = Shape<d>::narrow ? narrow_offset<d>(row, side) : 0;
  return pieces;
}
template <int d>
GPU_DEVICE Pieces pieces_down(int lane) {
  return pieces_of<d>(lane % 16, lane / 16);
}
template <int d>
GPU_DEVICE Pieces pieces_right(int lane) {
  return pieces_of<d>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

// Address of a lane's row of the piece at rows `row`.. and dimensions 16 k.., in an array of `count` rows at `base`, a multiple of 128.
template <int d, int count>
GPU_DEVICE uint32_t piece_address(uint32_t base, const Pieces &pieces, int row, int k) {
  using S = Shape<d>;
  if (2 * k < S::wide) return ((base + pieces.wide) ^ (uint32_t)(2 * k % 8 << 4)) + (uint32_t)(k / 4 * 128 + row * S::wide * 16);
  return ((base + (uint32_t)(count * S::wide * 16) + pieces.narrow) ^ (uint32_t)((2 * k - S::wide) << 4)) +
         (uint32_t)(row * S::narrow * 16);
}

// Rows of a key tile whose index is there. Rows of keys that are not there become zeros.
template <int d>
GPU_DEVICE void load_rows(uint32_t shared, gpu_shared<uint32_t> tokens, const uint16_t *rows, int64_t stride) {
  using S = Shape<d>;
  each_chunk<d, S::keys, kThreads>((int)threadIdx.x, S::keys, 0, [&](int r, int c, uint32_t offset) {
    const uint32_t token = tokens[2 * r];
    const bool there = token != (uint32_t)kNoToken;
    if (gpu_fault("tail_not_zeroed") && !there) return;
    gpu_cp_async<16>(shared + offset, rows + (there ? token : 0) * stride + c * 8, there ? 16u : 0u);
  });
}

// Infinities and NaN of a value tile become zeros: see attend_mma.h.
template <class T, int d>
GPU_DEVICE void clean_values(gpu_shared<unsigned char> bytes, uint32_t offset) {
  const gpu_shared<uint32_t> words = gpu_shared_cast<uint32_t>(bytes, offset);
  GPU_NO_UNROLL
  for (int k = (int)threadIdx.x; k < (int)(Shape<d>::tile_bytes / 4); k += kThreads) {
    const uint32_t word = words[k];
    const bool low = T::to_float((uint16_t)word) * 0.0f == 0.0f, high = T::to_float((uint16_t)(word >> 16)) * 0.0f == 0.0f;
    if (!low || !high) words[k] = (low ? word & 0xffffu : 0u) | (high ? word & 0xffff0000u : 0u);
  }
}

// Query rows; those that are not there become zeros.
template <int d>
GPU_DEVICE void load_queries(uint32_t shared, const Row_table &table, const sattn_cuda_band &call, const Place &place) {
  using S = Shape<d>;
  const uint16_t *queries = static_cast<const uint16_t *>(call.query_rows) + call.query.offset + place.b * call.query.stride_batch;
  each_chunk<d, S::rows, kThreads>((int)threadIdx.x, S::rows, 0, [&](int r, int c, uint32_t offset) {
    const int query = table.query[r];
    const int64_t at =
        gpu_max(query, 0) * call.query.stride_token + (place.head + (query < 0 ? 0 : r % call.pack)) * call.query.stride_head;
    gpu_cp_async<16>(shared + offset, queries + at + c * 8, query < 0 ? 0u : 16u);
  });
}

// For a negative scale: the sign goes into Q, which is exact.
template <int d>
GPU_DEVICE void negate_queries(gpu_shared<unsigned char> memory) {
  const gpu_shared<uint32_t> words = gpu_shared_cast<uint32_t>(memory, 0);
  for (int k = (int)threadIdx.x; k < (int)Shape<d>::keys_at / 4; k += kThreads) words[k] ^= 0x80008000u;
}

}  // namespace

#endif
