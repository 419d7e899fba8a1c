// Gradients on tensor cores: fp16 and bf16 with fp32 accumulation, mma.sync m16n8k16. Two kernels of one shape; a head dimension per file
// attend_mma_grad_<d>.cu.
//
//     grad_query: rows are queries                        grad_key: rows are keys, the transposed picture
//
//                 columns: keys of the band                          columns: queries that see the key, head after head of the group
//                +------+------+------+                             +------+------+------+
//     Q, dO rows |  S   |  S   |  .   |  dQ += dS K      K, V rows  |  S^T |  S^T |      |  dV += P^T dY
//                |  dP  |  dP  |  .   |                             |  dP^T|  dP^T|   .  |  dK += dS^T Q
//                +------+------+------+                             +------+------+------+
//
//     S = Q K^T, P = exp(S - LSE)      dP = dY V^T      dS = P (dP - delta)      delta, LSE: grad_rows.cu
//
// The band from the key's side: query slots s - right .. s + left. P is exactly 0 where a query does not see a key, dS too; steps of 16
// columns that no row of a group of 16 sees are skipped. The accumulators of P and dS are, packed, the A fragments of the second products.
// Every sum has one warp and a fixed order: no atomics, the same bits in every run. Query heads of a group are packed into the rows of
// grad_query and are columns, one head after the other, of grad_key.
//
// Q, dO, dQ [B, n_q, H, d], K, V, dK, dV [B, n_k, H_kv, d] with any strides whose rows are 16-byte aligned. Rows come by cp.async straight
// from where they lie, through the order; while a tile is worked on, the next one is on its way, and the index of the one after that. UNION
// and GATED are two passes: the first leaves its sums in fp32, the second goes on from there.
#ifndef SATTN_CUDA_KERNELS_ATTEND_MMA_GRAD_H
#define SATTN_CUDA_KERNELS_ATTEND_MMA_GRAD_H

#include "mma_grad_epilogue.h"

namespace {

// target = rows columns^T, for the steps that the plan asks for.
template <class T, class S, int d>
GPU_DEVICE void multiply_rows(float (*target)[S::columns / 8][4], uint32_t rows, uint32_t columns, const Grad_plan &plan, int warp,
                              int lane) {
  const Pieces down = pieces_down<d>(lane), right = pieces_right<d>(lane);
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) {
    GPU_UNROLL
    for (int j = 0; j < S::columns / 8; ++j) target[g][j][0] = target[g][j][1] = target[g][j][2] = target[g][j][3] = 0.0f;
  }
  GPU_UNROLL
  for (int slice = 0; slice < d / 16; ++slice) {
    uint32_t a[S::groups][4];
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const uint32_t piece = piece_address<d, S::rows>(rows, down, group_of(warp, g) * 16, slice);
      gpu_ldmatrix_x4(a[g], piece);
    }
    GPU_UNROLL
    for (int step = 0; step < S::steps; ++step) {
      if (!plan.step(step)) continue;
      uint32_t b[4];
      const uint32_t piece = piece_address<d, S::columns>(columns, right, step * 16, slice);
      gpu_ldmatrix_x4(b, piece);
      GPU_UNROLL
      for (int g = 0; g < S::groups; ++g) {
        if (!plan.has(g, step)) continue;
        T::mma(target[g][2 * step], a[g], b, target[g][2 * step]);
        T::mma(target[g][2 * step + 1], a[g], b + 2, target[g][2 * step + 1]);
      }
    }
  }
}

// sum += factor columns, for the same steps.
template <class T, class S, int d>
GPU_DEVICE void add_columns(float (*sum)[d / 8][4], float (*factor)[S::columns / 8][4], uint32_t columns, const Grad_plan &plan, int lane) {
  const Pieces down = pieces_down<d>(lane);
  GPU_UNROLL
  for (int step = 0; step < S::steps; ++step) {
    if (!plan.step(step)) continue;
    uint32_t a[S::groups][4];
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const float *low = factor[g][2 * step], *high = factor[g][2 * step + 1];
      const bool swapped = gpu_fault("grad_fragment_swapped");
      a[g][0] = T::pack(low[0], low[1]);
      a[g][swapped ? 2 : 1] = T::pack(low[2], low[3]);
      a[g][swapped ? 1 : 2] = T::pack(high[0], high[1]);
      a[g][3] = T::pack(high[2], high[3]);
    }
    GPU_UNROLL
    for (int k = 0; k < d / 16; ++k) {
      uint32_t b[4];
      const uint32_t piece = piece_address<d, S::columns>(columns, down, step * 16, k);
      gpu_ldmatrix_x4_trans(b, piece);
      GPU_UNROLL
      for (int g = 0; g < S::groups; ++g) {
        if (!plan.has(g, step)) continue;
        T::mma(sum[g][2 * k], a[g], b, sum[g][2 * k]);
        T::mma(sum[g][2 * k + 1], a[g], b + 2, sum[g][2 * k + 1]);
      }
    }
  }
}

// The columns of a tile: of which head of the group, and which of its tiles.
struct Grad_tile {
  int head, tile;
};

template <bool by_key>
GPU_DEVICE Grad_tile grad_tile(const Keys &columns, int number) {
  if (!by_key) return {0, number};
  return {number / columns.tiles, number % columns.tiles};
}

template <class T, class S, int d, bool by_key, bool with_ds, bool with_p>
GPU_DEVICE void work_on_tile(Grad_sums<S, d, with_ds, with_p> &sums, const sattn_cuda_band_grad &call, const Grad_memory &memory,
                             const Grad_plan &plan, bool wide, int number, int round, int warp, int lane) {
  const int stage = number % 2;
  const uint32_t start = (uint32_t)stage * S::tile_bytes;
  float score[S::groups][S::columns / 8][4], grad[S::groups][S::columns / 8][4];
  if (plan.any()) {
    multiply_rows<T, S, d>(score, memory.rows_a, memory.columns_a + start, plan, warp, lane);
    if (with_ds) {
      multiply_rows<T, S, d>(grad, memory.rows_b, memory.columns_b + start, plan, warp, lane);
    } else {
      GPU_UNROLL
      for (int g = 0; g < S::groups; ++g) {
        GPU_UNROLL
        for (int j = 0; j < S::columns / 8; ++j) grad[g][j][0] = grad[g][j][1] = grad[g][j][2] = grad[g][j][3] = 0.0f;
      }
    }
    const gpu_shared<uint4> pairs = gpu_shared_cast<uint4>(memory.index, (uint32_t)(number % kIndexTiles * S::columns * 8));
    const gpu_shared<float4> stats = memory.column_stats + stage * S::columns;
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const int r = group_of(warp, g) * 16 + lane / 4;
      if (!plan.any(g)) continue;
      if (plan.masked(g) || round == kCounted) {
        grad_pairs<S, by_key, true>(score[g], grad[g], call.band, plan, g, wide, memory, r, pairs, stats, round, lane);
      } else {
        grad_pairs<S, by_key, false>(score[g], grad[g], call.band, plan, g, wide, memory, r, pairs, stats, round, lane);
      }
    }
  }
  if (round != kAsIs) {
    __syncthreads();
    if (with_ds) clean_tile<T, S>(memory.bytes, S::columns_a_at + start, round);
    if (with_p) clean_tile<T, S>(memory.bytes, S::columns_b_at + start, round);
    __syncthreads();
  }
  if (!plan.any()) return;
  if constexpr (with_p) add_columns<T, S, d>(sums.p, score, memory.columns_b + start, plan, lane);
  if constexpr (with_ds) add_columns<T, S, d>(sums.ds, grad, memory.columns_a + start, plan, lane);
}

template <class T, class S, int d, bool by_key, bool with_ds, bool with_p>
GPU_DEVICE void work_on_tiles(Grad_sums<S, d, with_ds, with_p> &sums, const sattn_cuda_band_grad &call, const Grad_memory &memory,
                              int tiles, int round, int warp, int lane) {
  const gpu_shared<uint32_t> words = gpu_shared_cast<uint32_t>(memory.index, 0);
  auto load = [&](int number) {
    if (number >= tiles) return;
    const int head = grad_tile<by_key>(read_note<Keys>(memory.columns), number).head;
    load_columns<S, d, by_key>(memory, words + number % kIndexTiles * S::columns * 2, call, number % 2, head);
  };
  auto load_index = [&](int number) {
    const Keys columns = read_note<Keys>(memory.columns);
    if (number < tiles) load_column_index<S>(memory.index, columns, number, grad_tile<by_key>(columns, number).tile);
  };
  load_index(0);
  load_index(1);
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
  __syncthreads();
  load(0);
  gpu_cp_async_commit();
  GPU_NO_UNROLL
  for (int number = 0; number < tiles; ++number) {
    if (!gpu_fault("grad_no_copy_wait")) gpu_cp_async_wait<0>();
    if (!gpu_fault("grad_no_barrier")) __syncthreads();  // the tile is there, and everybody has left the one before
    load(number + 1);
    load_index(number + 2);
    gpu_cp_async_commit();
    const Keys columns = read_note<Keys>(memory.columns);
    const bool wide = is_wide(call, read_note<Place>(memory.place), columns, grad_tile<by_key>(columns, number).tile, by_key);
    const Grad_plan plan = plan_tile<S, by_key>(call.band, wide, memory.index + number % kIndexTiles * S::columns, memory, warp, lane);
    work_on_tile<T, S, d, by_key>(sums, call, memory, plan, wide, number, round, warp, lane);
  }
  gpu_cp_async_wait<0>();
}

// Shared memory up to the point where the tiles can begin. Returns how many there are.
template <class S, int d, bool by_key>
GPU_DEVICE int prepare_grad(const sattn_cuda_band_grad &call, const Grad_memory &memory, int warp, int lane) {
  const Place place = by_key ? locate_keys(call) : locate(call.band);
  const Keys columns = by_key ? queries_of(call, place, S::rows, S::columns) : keys_of(call.band, place, S::columns);
  if (threadIdx.x == 0) {
    write_note(memory.place, place);
    write_note(memory.columns, columns);
    write_note(memory.source, grad_source<by_key>(call, place));
  }
  fill_table<S, by_key>(memory, call, place);
  __syncthreads();
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) bound_rows<S, by_key>(memory, group_of(warp, g), lane);
  load_grad_rows<S, d, by_key>(memory, call, place);
  if (!by_key) load_row_stats<S>(memory, call, place);
  gpu_cp_async_commit();
  const int heads = gpu_fault("grad_group_first_head") ? 1 : call.band.group;
  return by_key ? columns.tiles * heads : columns.tiles;
}

template <class T, int d, bool by_key, bool with_ds, bool with_p>
GPU_DEVICE void attend_mma_grad(const sattn_cuda_band_grad &call) {
  using S = Grad_shape<d, by_key>;
  GPU_DYNAMIC_SHARED(unsigned char, bytes);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const Grad_memory memory = grad_memory<S>(bytes);
  const int tiles = prepare_grad<S, d, by_key>(call, memory, warp, lane);
  const sattn_cuda_band &band = call.band;
  Grad_sums<S, d, with_ds, with_p> sums;
  GPU_NO_UNROLL
  for (int round = kAsIs; round <= kCounted; ++round) {
    __syncthreads();
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const int group = group_of(warp, g);
      if constexpr (with_ds) start_group<S, d, by_key>(sums.ds[g], ds_target<by_key>(call).partial, band, memory, group, round, lane);
      if constexpr (with_p) start_group<S, d, by_key>(sums.p[g], call.partial_value, band, memory, group, round, lane);
    }
    work_on_tiles<T, S, d, by_key>(sums, call, memory, tiles, round, warp, lane);
    bool bad = false;
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      if constexpr (with_ds) bad |= is_bad<S, d, by_key>(sums.ds[g], memory, group_of(warp, g), lane);
      if constexpr (with_p) bad |= is_bad<S, d, by_key>(sums.p[g], memory, group_of(warp, g), lane);
    }
    bad = __syncthreads_or(bad && !gpu_fault("grad_nonfinite_ignored")) != 0;
    if (round == kAsIs && bad) continue;
    // Asked for once more, so that nothing of what follows is worked out before the tiles and kept in registers.
    const int same_warp = __shfl_sync(kAllLanes, warp, 0), same_lane = __shfl_sync(kAllLanes, lane, lane);
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const int group = group_of(same_warp, g);
      if (round == kCounted) {
        if constexpr (with_ds) patch_sums<T, S, d, by_key>(sums.ds[g], ds_target<by_key>(call), band, memory, group, same_lane);
        if constexpr (with_p) patch_sums<T, S, d, by_key>(sums.p[g], p_target(call), band, memory, group, same_lane);
      } else {
        if constexpr (with_ds) finish_sums<T, S, d, by_key>(sums.ds[g], ds_target<by_key>(call), band, memory, 0, group, same_lane);
        if constexpr (with_p) finish_sums<T, S, d, by_key>(sums.p[g], p_target(call), band, memory, S::rows_b_at, group, same_lane);
      }
    }
    if (round == kAsIs) break;
  }
}

}  // namespace

#define GRAD_MMA_KERNEL(name, T, d, by_key, with_ds, with_p)                                \
  GPU_KERNEL(name, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_band_grad call) { \
    attend_mma_grad<T, d, by_key, with_ds, with_p>(call);                                   \
  }                                                                                         \
  GPU_REGISTER_KERNEL(name, SATTN_BAND_THREADS)

#endif
