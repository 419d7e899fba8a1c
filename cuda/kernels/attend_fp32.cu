// Attention in fp32 throughout, by fused multiply-adds: one thread block per (tile of query rows, key/value head, batch entry).
//
//              keys of a tile
//              0       16      32      48
//     half    +-------+-------+-------+-------+
//     warp 0  |l   ...|l + 16 |l + 32 |l + 48 |    rows of one thread (8; 4 for d = 256) x one key of each step
//     half    |       |       |       |.......|    steps that causality hides of all rows of a warp are skipped
//     warp 1  |       |       |.......|.......|
//       ...   +-------+-------+-------+-------+
//
// Layouts, tiles and bands are those of attend_mma.h. Scores and O are held in registers; probabilities go through shared memory to the
// other lanes of the same half warp, whose lane l then owns the chunks l, l + 16, ... of four output elements. Keys and values have one
// buffer each, filled in turn while the other one is in use.
#include "fp32_epilogue.h"

namespace {

struct Block_memory {
  gpu_shared<unsigned char> bytes;
  uint32_t start;
  gpu_shared<uint2> index;
  gpu_shared<uint4> place, key_tiles, source;  // notes
  Row_table rows;
};

template <int d>
GPU_DEVICE Block_memory block_memory(gpu_shared<unsigned char> bytes) {
  using S = Shape<d>;
  Block_memory memory;
  memory.bytes = bytes;
  memory.start = gpu_shared_address(bytes);
  memory.index = gpu_shared_cast<uint2>(bytes, S::index_at);
  memory.place = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Notes, place));
  memory.key_tiles = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Notes, keys));
  memory.source = gpu_shared_cast<uint4>(bytes, S::notes_at + (uint32_t)offsetof(Notes, source));
  memory.rows = row_table<S>(bytes);
  return memory;
}

GPU_DEVICE float dot(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// score = Q K^T for the steps of the plan. `half`: the half warp's number in the block; l: the lane's in it.
template <int d>
GPU_DEVICE void multiply_keys(float (*score)[Shape<d>::lane_keys], gpu_shared<unsigned char> bytes, const Tile &plan, int half, int l) {
  using S = Shape<d>;
  GPU_UNROLL
  for (int i = 0; i < S::lane_rows; ++i) {
    GPU_UNROLL
    for (int j = 0; j < S::lane_keys; ++j) score[i][j] = 0.0f;
  }
  const gpu_shared<float4> queries = gpu_shared_cast<float4>(bytes, (uint32_t)(half * S::lane_rows) * S::pitch);
  GPU_NO_UNROLL
  for (int c = 0; c < S::chunks; ++c) {
    float4 query[S::lane_rows];
    GPU_UNROLL
    for (int i = 0; i < S::lane_rows; ++i) query[i] = queries[i * (int)(S::pitch / 16) + query_chunk<d>(i, c)];
    const gpu_shared<float4> keys = gpu_shared_cast<float4>(bytes, S::keys_at + (uint32_t)l * S::pitch + (uint32_t)((c ^ turn(l)) << 4));
    GPU_UNROLL
    for (int j = 0; j < S::lane_keys; ++j) {
      if (!plan.has(0, j)) continue;
      const float4 key = keys[j * kHalf * (int)(S::pitch / 16)];
      GPU_UNROLL
      for (int i = 0; i < S::lane_rows; ++i) score[i][j] = dot(query[i], key, score[i][j]);
    }
  }
}

// out += P V for the same steps.
template <int d>
GPU_DEVICE void multiply_values(float4 (*out)[Shape<d>::lane_chunks], gpu_shared<unsigned char> bytes, const Tile &plan, int half, int l) {
  using S = Shape<d>;
  const gpu_shared<float4> weights = gpu_shared_cast<float4>(bytes, S::weights_at + (uint32_t)(half * S::lane_rows * S::keys * 4));
  GPU_NO_UNROLL
  for (int first = 0; first < S::keys; first += 4) {
    if (!plan.has(0, first / 16)) continue;
    float4 weight[S::lane_rows];
    GPU_UNROLL
    for (int i = 0; i < S::lane_rows; ++i) weight[i] = weights[i * (S::keys / 4) + ((first ^ (half & 1) << 4) >> 2)];
    GPU_UNROLL
    for (int k = 0; k < 4; ++k) {
      const gpu_shared<unsigned char> row = bytes + (ptrdiff_t)(S::values_at + (uint32_t)(first + k) * S::pitch);
      GPU_UNROLL
      for (int m = 0; m < S::lane_chunks; ++m) {
        const int c = l + m * kHalf;
        if (S::chunks % kHalf != 0 && c >= S::chunks) continue;
        const float4 value = gpu_shared_cast<float4>(row, (uint32_t)((c ^ turn(first + k)) << 4))[0];
        GPU_UNROLL
        for (int i = 0; i < S::lane_rows; ++i) {
          const float p = k == 0 ? weight[i].x : k == 1 ? weight[i].y : k == 2 ? weight[i].z : weight[i].w;
          out[i][m].x = fmaf(p, value.x, out[i][m].x);
          out[i][m].y = fmaf(p, value.y, out[i][m].y);
          out[i][m].z = fmaf(p, value.z, out[i][m].z);
          out[i][m].w = fmaf(p, value.w, out[i][m].w);
        }
      }
    }
  }
}

template <int d>
GPU_DEVICE void mask_scores(float (*score)[Shape<d>::lane_keys], const sattn_cuda_band &call, const Tile &plan, const Row_table &table,
                            gpu_shared<uint2> index, int half, int l) {
  using S = Shape<d>;
  const uint32_t width = plan.sink() ? kAnyWidth : (uint32_t)call.left + (uint32_t)call.right;
  const uint32_t other_width = (uint32_t)call.exclude_left + (uint32_t)call.exclude_right;
  uint2 key[S::lane_keys];  // token, slot
  GPU_UNROLL
  for (int j = 0; j < S::lane_keys; ++j) key[j] = index[l + j * kHalf];
  GPU_UNROLL
  for (int i = 0; i < S::lane_rows; ++i) {
    const int r = half * S::lane_rows + i, limit = table.limit[r];
    const uint32_t low = (uint32_t)(table.slot[r] - call.left), other = (uint32_t)(table.position[r] - call.exclude_left);
    GPU_UNROLL
    for (int j = 0; j < S::lane_keys; ++j) {
      bool seen = (int)key[j].x <= limit - (gpu_fault("fp32_mask_strict") ? 1 : 0) && key[j].y - low <= width;
      if (call.exclude) seen = seen && key[j].x - other > other_width;
      score[i][j] = seen ? score[i][j] : -GPU_INFINITY;
    }
  }
}

// Sign of the scale, softcap (scale_log2 is 1 then), mask, softmax; probabilities go to shared memory, to be read behind the next barrier.
template <int d>
GPU_DEVICE void soften(Sums<d> &sums, float (*score)[Shape<d>::lane_keys], const sattn_cuda_band &call, const Tile &plan,
                       const Block_memory &memory, gpu_shared<uint2> index, int half, int l) {
  using S = Shape<d>;
  if (call.negative || call.cap_out > 0.0f) {
    const float in = call.negative ? -call.cap_in : call.cap_in, sign = call.negative ? -1.0f : 1.0f;
    GPU_UNROLL
    for (int i = 0; i < S::lane_rows; ++i) {
      GPU_UNROLL
      for (int j = 0; j < S::lane_keys; ++j)
        score[i][j] = call.cap_out > 0.0f ? call.cap_out * tanhf(score[i][j] * in) : sign * score[i][j];
    }
  }
  if (plan.masked(0)) mask_scores<d>(score, call, plan, memory.rows, index, half, l);
  const gpu_shared<float> weights = gpu_shared_cast<float>(memory.bytes, S::weights_at);
  GPU_UNROLL
  for (int i = 0; i < S::lane_rows; ++i) {
    float top = -GPU_INFINITY;
    GPU_UNROLL
    for (int j = 0; j < S::lane_keys; ++j) {
      if (plan.has(0, j)) top = fmaxf(top, score[i][j]);
    }
    GPU_UNROLL
    for (int step = 1; step < kHalf; step *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, step));
    const float next = fmaxf(sums.max[i], gpu_multiply(top, call.scale_log2));
    const float reference = next == -GPU_INFINITY ? 0.0f : next;  // infinity minus infinity would be NaN
    const float shrink = gpu_exp2(sums.max[i] - reference);
    sums.max[i] = next;
    sums.sum[i] *= gpu_fault("fp32_rescale_forgotten") ? 1.0f : shrink;
    GPU_UNROLL
    for (int m = 0; m < S::lane_chunks; ++m) {
      sums.out[i][m].x *= shrink;
      sums.out[i][m].y *= shrink;
      sums.out[i][m].z *= shrink;
      sums.out[i][m].w *= shrink;
    }
    GPU_UNROLL
    for (int j = 0; j < S::lane_keys; ++j) {
      if (!plan.has(0, j)) continue;
      // Rounded as the reference was, so that the largest weight is exactly 1 and a row that sees one key copies its value row.
      const float p = gpu_exp2(gpu_multiply(score[i][j], call.scale_log2) - reference);
      sums.sum[i] += p;
      weights[(half * S::lane_rows + i) * S::keys + ((l + j * kHalf) ^ (half & 1) << 4)] = p;
    }
  }
}

GPU_DEVICE void wait_for_copies() {
  if (!gpu_fault("fp32_no_copy_wait")) gpu_cp_async_wait<0>();
  if (!gpu_fault("fp32_no_barrier")) __syncthreads();
}

template <int d>
GPU_DEVICE void attend_tiles(Sums<d> &sums, const sattn_cuda_band &call, int tiles, bool clean, const Block_memory &memory, int half,
                             int l) {
  using S = Shape<d>;
  const gpu_shared<uint32_t> words = gpu_shared_cast<uint32_t>(memory.index, 0);
  auto tokens_of = [&](int tile) { return words + tile % kIndexTiles * S::keys * 2; };
  auto load = [&](int tile, uint32_t at, const void *rows, int64_t stride) {
    if (tile < tiles) load_rows<d>(memory.start + at, tokens_of(tile), static_cast<const float *>(rows), stride);
  };
  load(0, S::keys_at, read_note<Source>(memory.source).key, call.key.stride_token);
  gpu_cp_async_commit();
  GPU_NO_UNROLL
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();  // keys are there, and everybody has left the values before
    load(tile, S::values_at, read_note<Source>(memory.source).value, call.value.stride_token);
    gpu_cp_async_commit();
    Tile plan = {0};
    plan_group<S>(plan, 0, call, read_note<Keys>(memory.key_tiles), tile, tokens_of(tile), memory.rows, half / 2);
    float score[S::lane_rows][S::lane_keys];
    if (plan.steps(0)) {
      multiply_keys<d>(score, memory.bytes, plan, half, l);
      soften<d>(sums, score, call, plan, memory, memory.index + tile % kIndexTiles * S::keys, half, l);
    }
    wait_for_copies();  // values are there, and everybody has left the keys
    load(tile + 1, S::keys_at, read_note<Source>(memory.source).key, call.key.stride_token);
    load_index<S>(memory.index, read_note<Keys>(memory.key_tiles), tile + 2);
    gpu_cp_async_commit();
    if (clean) {
      clean_values<d>(memory.bytes);
      __syncthreads();
    }
    if (plan.steps(0)) multiply_values<d>(sums.out, memory.bytes, plan, half, l);
  }
}

template <int d>
GPU_DEVICE int prepare_block(const sattn_cuda_band &call, const Block_memory &memory) {
  using S = Shape<d>;
  const Place place = locate(call);
  const Keys keys = keys_of(call, place, S::keys);
  if (threadIdx.x == 0) {
    write_note(memory.place, place);
    write_note(memory.key_tiles, keys);
    write_note(memory.source, source_of<float>(call, place));
  }
  fill_row_table<S>(memory.rows, call, place);
  load_index<S>(memory.index, keys, 0);
  load_index<S>(memory.index, keys, 1);
  __syncthreads();
  bound_group<S>(memory.rows, (int)threadIdx.x / 32, (int)threadIdx.x % 32);
  load_queries<d>(memory.start, memory.rows, call, place);
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
  __syncthreads();
  return keys.tiles;
}

// After the first attempt: whether another one is needed, alike in the whole block. If so, the index is as it was in the beginning.
template <int d>
GPU_DEVICE bool attend_again(uint32_t bad, const Block_memory &memory) {
  if (!__syncthreads_or(bad != 0)) return false;
  const Keys keys = read_note<Keys>(memory.key_tiles);
  load_index<Shape<d>>(memory.index, keys, 0);
  load_index<Shape<d>>(memory.index, keys, 1);
  gpu_cp_async_commit();
  wait_for_copies();
  return true;
}

template <int d>
GPU_DEVICE void attend_fp32(const sattn_cuda_band &call) {
  using S = Shape<d>;
  GPU_DYNAMIC_SHARED(unsigned char, bytes);
  const int half = (int)threadIdx.x / kHalf, l = (int)threadIdx.x % kHalf;
  const Block_memory memory = block_memory<d>(bytes);
  const int tiles = prepare_block<d>(call, memory);
  Sums<d> sums;
  uint32_t bad = 0;
  GPU_NO_UNROLL
  for (int attempt = 0; attempt < 2; ++attempt) {  // see attend_mma.h
    start_sums<d>(sums, call, read_note<Place>(memory.place), memory.rows, half, l);
    attend_tiles<d>(sums, call, tiles, attempt != 0, memory, half, l);
    if (attempt == 0) bad = bad_rows<d>(sums, memory.rows, half);
    if (attempt == 0 && !attend_again<d>(bad, memory)) break;
  }
  const gpu_shared<float> scratch = gpu_shared_cast<float>(bytes, S::weights_at) + half / 2 * S::group_rows * S::keys;
  finish<d>(sums, call, read_note<Place>(memory.place), read_note<Keys>(memory.key_tiles), scratch, memory.rows, bad, half, l);
}

}  // namespace

GPU_KERNEL(attend_fp32_64, SATTN_BAND_THREADS, 2)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_fp32<64>(call);
}
GPU_KERNEL(attend_fp32_80, SATTN_BAND_THREADS, 2)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_fp32<80>(call);
}
GPU_KERNEL(attend_fp32_96, SATTN_BAND_THREADS, 2)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_fp32<96>(call);
}
GPU_KERNEL(attend_fp32_128, SATTN_BAND_THREADS, 2)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_fp32<128>(call);
}
GPU_KERNEL(attend_fp32_256, SATTN_BAND_THREADS, 2)(const GPU_GRID_CONSTANT sattn_cuda_band call) {
  attend_fp32<256>(call);
}
GPU_REGISTER_KERNEL(attend_fp32_64, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(attend_fp32_80, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(attend_fp32_96, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(attend_fp32_128, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(attend_fp32_256, SATTN_BAND_THREADS);
