// Attention on tensor cores: fp16 and bf16 with fp32 accumulation, mma.sync m16n8k16. One thread block per (tile of query rows, key/value
// head, batch entry); a head dimension per file attend_mma_<d>.cu.
//
//               keys of a tile (64; 32 from d = 96 on), steps of 16
//               step 0   1    2    3
//     group 0  +----+----+----+----+
//     group 1  |    |    |    |....|     rows and keys are sorted by position, so what causality hides of a (group, tile) pair is a
//       ...    |    |    |....|....|     staircase; steps wholly in the dotted part are skipped
//     group 7  |    |    |    |....|
//              +----+----+----+----+
//
// A warp owns two groups of 16 rows, i and 7 - i, so that the warps of a block finish together and each fragment of K and V that is read
// from shared memory serves two products. Q, O [B, n_q, H, d], K, V [B, n_k, H_kv, d] with any strides whose rows are 16-byte aligned.
//
// Per tile: S = Q K^T; mask and softmax in registers (mma_softmax.h); the accumulators of P are, packed, the A fragments of O += P V. Rows
// come by cp.async straight from where they lie, through the order; nothing is packed before. While a tile is worked on, the next one is on
// its way, and the index of the one after that. For d = 256 keys and values have one buffer each, which are filled in turn.
//
// A V row that a query does not see is multiplied with 0, so an infinity or NaN in it makes the sum NaN. If a block ends with such a row,
// it starts again with all of them replaced by zeros: then each row has, to the bit, what it has with a harmless V. Rows that were not
// finite are also done key by key (redo_row.h), which tells those that do see the infinity. Nobody else pays for it.
#ifndef SATTN_CUDA_KERNELS_ATTEND_MMA_H
#define SATTN_CUDA_KERNELS_ATTEND_MMA_H

#include "mma_epilogue.h"

namespace {

template <int d>
struct Fragments {
  using S = Shape<d>;
  uint32_t query[S::queries_in_registers ? S::groups : 1][S::queries_in_registers ? d / 16 : 1][4];
};

template <int d>
GPU_DEVICE void read_queries(Fragments<d> &fragments, uint32_t queries, int warp, int lane) {
  using S = Shape<d>;
  if constexpr (S::queries_in_registers) {
    const Pieces pieces = pieces_down<d>(lane);
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      GPU_UNROLL
      for (int k = 0; k < d / 16; ++k) {
        const uint32_t piece = piece_address<d, S::rows>(queries, pieces, group_of(warp, g) * 16, k);
        gpu_ldmatrix_x4(fragments.query[g][k], piece);
      }
    }
  }
}

// S = Q K^T for the steps that the plan asks for. `whole`: all steps of all groups, known at compile time.
template <class T, int d, bool whole>
GPU_DEVICE void multiply_keys(float (*score)[Shape<d>::keys / 8][4], const Fragments<d> &fragments, uint32_t queries, uint32_t keys,
                              const Tile &plan, int warp, int lane) {
  using S = Shape<d>;
  const Pieces down = pieces_down<d>(lane), right = pieces_right<d>(lane);
  constexpr int slices = d / 16, at_once = d == 64 || d == 96 ? 2 : 1;  // of 16 dimensions
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) {
    GPU_UNROLL
    for (int j = 0; j < S::keys / 8; ++j) score[g][j][0] = score[g][j][1] = score[g][j][2] = score[g][j][3] = 0.0f;
  }
  GPU_UNROLL
  for (int slice = 0; slice < slices; slice += at_once) {
    uint32_t a[S::groups][at_once][4];
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      GPU_UNROLL
      for (int k = 0; k < at_once; ++k) {
        if constexpr (S::queries_in_registers) {
          GPU_UNROLL
          for (int e = 0; e < 4; ++e) a[g][k][e] = fragments.query[g][slice + k][e];
        } else {
          const uint32_t piece = piece_address<d, S::rows>(queries, down, group_of(warp, g) * 16, slice + k);
          gpu_ldmatrix_x4(a[g][k], piece);
        }
      }
    }
    GPU_UNROLL
    for (int step = 0; step < S::keys / 16; ++step) {
      if (!whole && !plan.has(0, step) && !plan.has(S::groups - 1, step)) continue;
      uint32_t b[at_once][4];
      GPU_UNROLL
      for (int k = 0; k < at_once; ++k) {
        const uint32_t piece = piece_address<d, S::keys>(keys, right, step * 16, slice + k);
        gpu_ldmatrix_x4(b[k], piece);
      }
      GPU_UNROLL
      for (int g = 0; g < S::groups; ++g) {
        if (!whole && !plan.has(g, step)) continue;
        GPU_UNROLL
        for (int k = 0; k < at_once; ++k) {
          T::mma(score[g][2 * step], a[g][k], b[k], score[g][2 * step]);
          T::mma(score[g][2 * step + 1], a[g][k], b[k] + 2, score[g][2 * step + 1]);
        }
      }
    }
  }
}

// O += P V for the same steps.
template <class T, int d, bool whole>
GPU_DEVICE void multiply_values(float (*out)[d / 8][4], float (*score)[Shape<d>::keys / 8][4], uint32_t values, const Tile &plan,
                                int lane) {
  using S = Shape<d>;
  const Pieces down = pieces_down<d>(lane);
  GPU_UNROLL
  for (int step = 0; step < S::keys / 16; ++step) {
    if (!whole && !plan.has(0, step) && !plan.has(S::groups - 1, step)) continue;
    uint32_t a[S::groups][4];
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) {
      const float *low = score[g][2 * step], *high = score[g][2 * step + 1];
      const bool swapped = gpu_fault("fragment_swapped");
      a[g][0] = T::pack(low[0], low[1]);
      a[g][swapped ? 2 : 1] = T::pack(low[2], low[3]);
      a[g][swapped ? 1 : 2] = T::pack(high[0], high[1]);
      a[g][3] = T::pack(high[2], high[3]);
    }
    GPU_UNROLL
    for (int k = 0; k < d / 16; ++k) {
      uint32_t b[4];
      const uint32_t piece = piece_address<d, S::keys>(values, down, step * 16, k);
      if (gpu_fault("no_transpose")) {
        gpu_ldmatrix_x4(b, piece);
      } else {
        gpu_ldmatrix_x4_trans(b, piece);
      }
      GPU_UNROLL
      for (int g = 0; g < S::groups; ++g) {
        if (!whole && !plan.has(g, step)) continue;
        T::mma(out[g][2 * k], a[g], b, out[g][2 * k]);
        T::mma(out[g][2 * k + 1], a[g], b + 2, out[g][2 * k + 1]);
      }
    }
  }
}

// What a warp keeps from the first tile to the last.
template <int d>
struct Warp_state {
  Fragments<d> fragments;
  Sums<d> sums;
};

// The shared memory of a block.
struct Block_memory {
  gpu_shared<unsigned char> bytes;
  uint32_t queries, keys, values;
  gpu_shared<uint2> index;
  gpu_shared<uint4> place, key_tiles, source;  // notes
  gpu_shared<uint32_t> bad;
  Row_table rows;
};

template <int d>
GPU_DEVICE Block_memory block_memory(gpu_shared<unsigned char> bytes) {
  using S = Shape<d>;
  const uint32_t start = gpu_shared_address(bytes);
  Block_memory memory;
  memory.bytes = bytes;
  memory.queries = start;
  memory.keys = start + S::keys_at;
  memory.values = start + S::values_at;
  memory.index = gpu_shared_cast<uint2>(bytes, S::index_at);
  memory.place = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Notes, place));
  memory.key_tiles = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Notes, keys));
  memory.source = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Notes, source));
  memory.bad = gpu_shared_cast<uint32_t>(bytes, S::notes_at + (uint32_t)offsetof(Notes, bad));
  memory.rows = row_table<S>(bytes);
  return memory;
}

template <class T, int d>
GPU_DEVICE void soften(Warp_state<d> &state, float (*score)[Shape<d>::keys / 8][4], const sattn_cuda_band &call, const Tile &plan,
                       gpu_shared<uint4> pairs, const Row_table &table, int warp, int lane) {
  using S = Shape<d>;
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) {
    if (!plan.steps(g)) continue;
    if (call.cap_out > 0.0f) cap_scores<d>(score[g], call, plan.steps(g));
    const int r = group_of(warp, g) * 16 + lane / 4;
    if (plan.masked(g) && call.exclude) {
      mask_scores<d, true>(score[g], call, plan.steps(g), plan.sink(), table, r, pairs, lane);
    } else if (plan.masked(g)) {
      mask_scores<d, false>(score[g], call, plan.steps(g), plan.sink(), table, r, pairs, lane);
    }
    float shrink[2];
    if (exponentials<d>(score[g], state.sums.max[g], state.sums.sum[g], shrink, call.scale_log2, plan.steps(g)) &&
        !gpu_fault("rescale_forgotten")) {
      GPU_UNROLL
      for (int j = 0; j < d / 8; ++j) {
        GPU_UNROLL
        for (int e = 0; e < 4; ++e) state.sums.out[g][j][e] *= shrink[e / 2];
      }
    }
  }
}

template <int d>
GPU_DEVICE void wait_for_copies() {
  if (!gpu_fault("no_copy_wait")) {
    if (gpu_fault("weak_copy_wait")) {
      gpu_cp_async_wait<1>();
    } else {
      gpu_cp_async_wait<0>();
    }
  }
  if (!gpu_fault("no_barrier")) __syncthreads();
}

template <class T, int d>
GPU_DEVICE void attend_tiles(Warp_state<d> &state, const sattn_cuda_band &call, int tiles, bool clean, const Block_memory &memory, int warp,
                             int lane) {
  using S = Shape<d>;
  const gpu_shared<uint32_t> words = gpu_shared_cast<uint32_t>(memory.index, 0);
  constexpr uint32_t all = (1u << S::keys / 16) - 1;
  auto tokens_of = [&](int tile) { return words + tile % kIndexTiles * S::keys * 2; };
  auto stage_of = [&](int tile) { return (uint32_t)(tile % S::stages) * S::tile_bytes; };
  auto load_keys = [&](int tile) {
    const Source source = read_note<Source>(memory.source);
    const uint16_t *rows = static_cast<const uint16_t *>(source.key);
    if (tile < tiles) load_rows<d>(memory.keys + stage_of(tile), tokens_of(tile), rows, call.key.stride_token);
  };
  auto load_values = [&](int tile) {
    const Source source = read_note<Source>(memory.source);
    const uint16_t *rows = static_cast<const uint16_t *>(source.value);
    if (tile < tiles) load_rows<d>(memory.values + stage_of(tile), tokens_of(tile), rows, call.value.stride_token);
  };
  load_keys(0);
  if (!S::staggered) load_values(0);
  gpu_cp_async_commit();
  GPU_NO_UNROLL
  for (int tile = 0; tile < tiles; ++tile) {
    const gpu_shared<uint32_t> tokens = tokens_of(tile);
    wait_for_copies<d>();  // the tile is there, and everybody has left the one before
    if (S::staggered) {
      load_values(tile);
    } else {
      load_keys(tile + 1);
      load_values(tile + 1);
      load_index<S>(memory.index, read_note<Keys>(memory.key_tiles), tile + 2);
    }
    gpu_cp_async_commit();
    Tile plan = {0};
    const Keys keys = read_note<Keys>(memory.key_tiles);
    GPU_UNROLL
    for (int g = 0; g < S::groups; ++g) plan_group<S>(plan, g, call, keys, tile, tokens, memory.rows, group_of(warp, g));
    const bool whole = (plan.steps(0) & plan.steps(S::groups - 1)) == all;
    float score[S::groups][S::keys / 8][4];
    if (whole) {
      multiply_keys<T, d, true>(score, state.fragments, memory.queries, memory.keys + stage_of(tile), plan, warp, lane);
    } else {
      multiply_keys<T, d, false>(score, state.fragments, memory.queries, memory.keys + stage_of(tile), plan, warp, lane);
    }
    soften<T, d>(state, score, call, plan, gpu_shared_cast<uint4>(tokens, 0), memory.rows, warp, lane);
    if (S::staggered) {
      wait_for_copies<d>();
      load_keys(tile + 1);
      load_index<S>(memory.index, read_note<Keys>(memory.key_tiles), tile + 2);
      gpu_cp_async_commit();
    }
    if (clean) {
      clean_values<T, d>(memory.bytes, S::values_at + stage_of(tile));
      __syncthreads();
    }
    if (whole) {
      multiply_values<T, d, true>(state.sums.out, score, memory.values + stage_of(tile), plan, lane);
    } else {
      multiply_values<T, d, false>(state.sums.out, score, memory.values + stage_of(tile), plan, lane);
    }
  }
}

// Shared memory up to the point where the tiles can begin. Returns how many there are.
template <int d>
GPU_DEVICE int prepare_block(const sattn_cuda_band &call, gpu_shared<unsigned char> bytes, const Block_memory &memory, int warp, int lane) {
  using S = Shape<d>;
  const Place place = locate(call);
  const Keys keys = keys_of(call, place, S::keys);
  if (threadIdx.x == 0) {
    write_note(memory.place, place);
    write_note(memory.key_tiles, keys);
    write_note(memory.source, source_of<uint16_t>(call, place));
  }
  fill_row_table<S>(memory.rows, call, place);
  load_index<S>(memory.index, keys, 0);
  load_index<S>(memory.index, keys, 1);
  __syncthreads();
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) bound_group<S>(memory.rows, group_of(warp, g), lane);
  __syncwarp();
  load_queries<d>(memory.queries, memory.rows, call, place);
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
  __syncthreads();
  if (call.negative) {
    negate_queries<d>(bytes);
    __syncthreads();
  }
  return keys.tiles;
}

// After the first attempt: whether another one is needed, alike in the whole block. If so, the index is as it was in the beginning.
template <int d>
GPU_DEVICE bool attend_again(const Warp_state<d> &state, const Block_memory &memory, int warp, int lane) {
  using S = Shape<d>;
  uint32_t any = 0;
  GPU_UNROLL
  for (int g = 0; g < S::groups; ++g) {
    const int group = group_of(warp, g);
    const uint32_t bad = bad_rows<d>(state.sums, memory.rows, g, group, lane);
    if (lane == 0) memory.bad[group] = bad;
    any |= bad;
  }
  if (!__syncthreads_or(any != 0)) return false;
  const Keys keys = read_note<Keys>(memory.key_tiles);
  load_index<S>(memory.index, keys, 0);
  load_index<S>(memory.index, keys, 1);
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
  __syncthreads();
  return true;
}

template <class T, int dtype, int d>
GPU_DEVICE void attend_mma(const sattn_cuda_band &call) {
  GPU_DYNAMIC_SHARED(unsigned char, bytes);
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const Block_memory memory = block_memory<d>(bytes);
  const int tiles = prepare_block<d>(call, bytes, memory, warp, lane);
  Warp_state<d> state;
  read_queries<d>(state.fragments, memory.queries, warp, lane);
  GPU_NO_UNROLL
  for (int attempt = 0; attempt < 2; ++attempt) {
    start_sums<d>(state.sums, call, read_note<Place>(memory.place), memory.rows, warp, lane);
    attend_tiles<T, d>(state, call, tiles, attempt != 0, memory, warp, lane);
    if (attempt == 0 && !attend_again<d>(state, memory, warp, lane)) break;
  }
  finish<T, dtype, d>(state.sums, call, read_note<Place>(memory.place), read_note<Keys>(memory.key_tiles), bytes, memory.rows, memory.bad,
                      warp, lane);
}

}  // namespace

#endif
