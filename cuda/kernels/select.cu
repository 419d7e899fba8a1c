// MoBA: which blocks of keys a query attends to.
//
//     K rows    | b b b b | b b b b | b b b b | b b
//     means     |    0    |    1    |    2    |  3       fp32 sum in position order, divided by the rows that exist
//     query p         own block = p / block: always chosen; the other topk - 1 by the highest <q, mean>
//
// means     [B, H_kv, blocks, head_dim] fp32
// scores    [B, H, n_q, scores_stride] fp32: the best so far, highest first; scratch
// selected  [B, H, n_q, selected_stride] uint32, ascending, unused places 0xffffffff
// A score that is NaN counts as -infinity; of equal scores the lowest block wins. The twin of cl/kernels/select.cl.
#include "elements.h"
#include "general_params.h"

namespace {

constexpr uint32_t kNoBlock = 0xffffffffu;

GPU_DEVICE int length_of(const sattn_cuda_general &call, int64_t b) {
  const sattn_general_params &p = call.params;
  return call.lengths ? gpu_max(0, gpu_min(gpu_load(call.lengths + p.lengths + b), p.keys)) : p.keys;
}

// A thread per element of a mean.
template <int dtype>
GPU_DEVICE void block_means(const sattn_cuda_general &call) {
  const sattn_general_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_SMALL_THREADS + threadIdx.x;
  if (index >= p.batch * p.kv_heads * p.blocks * call.head_dim) return;
  const int64_t c = index % call.head_dim, block = index / call.head_dim % p.blocks;
  const int64_t g = index / call.head_dim / p.blocks % p.kv_heads, b = index / call.head_dim / p.blocks / p.kv_heads;
  const int64_t first = block * p.block, end = gpu_min<int64_t>(first + p.block, length_of(call, b));
  if (first >= end) return;  // a block of tokens that do not exist has no mean, and nobody asks for it
  const int64_t head = p.key.offset + b * p.key.stride_batch + g * p.key.stride_head + c;
  float sum = 0.0f;
  for (int64_t j = first; j < end; ++j) sum += load_element<dtype>(call.key, head + j * p.key.stride_token);
  gpu_store(call.means + p.means + index, sum / (float)(end - first));
}

template <int dtype>
GPU_DEVICE float gate_score(const sattn_cuda_general &call, int64_t query_at, int64_t mean_at) {
  float even = 0.0f, odd = 0.0f;
  int c = 0;
  for (; c + 1 < call.head_dim; c += 2) {
    even = fmaf(load_element<dtype>(call.query, query_at + c), gpu_load(call.means + mean_at + c), even);
    odd = fmaf(load_element<dtype>(call.query, query_at + c + 1), gpu_load(call.means + mean_at + c + 1), odd);
  }
  if (c < call.head_dim) even = fmaf(load_element<dtype>(call.query, query_at + c), gpu_load(call.means + mean_at + c), even);
  const float sum = even + odd;
  return sum == sum ? sum : -GPU_INFINITY;
}

// Puts a block behind all that score at least as much; the last falls out when the list is full. Blocks come in ascending order, so of
// equal ones the lowest stays. Returns the new count.
GPU_DEVICE int insert_block(uint32_t *blocks, float *scores, int count, int room, uint32_t block, float score) {
  if (count == room && !(score > gpu_load_written(scores + room - 1))) return count;
  int at = count < room ? count++ : room - 1;
  while (at > 0 && (score > gpu_load_written(scores + at - 1) || gpu_fault("select_last_wins"))) {
    gpu_store(scores + at, gpu_load_written(scores + at - 1));
    gpu_store(blocks + at, gpu_load_written(blocks + at - 1));
    --at;
  }
  gpu_store(scores + at, score);
  gpu_store(blocks + at, block);
  return count;
}

GPU_DEVICE void sort_blocks(uint32_t *blocks, int count) {
  for (int i = 1; i < count; ++i) {
    const uint32_t block = gpu_load_written(blocks + i);
    int at = i;
    while (at > 0 && gpu_load_written(blocks + at - 1) > block) {
      gpu_store(blocks + at, gpu_load_written(blocks + at - 1));
      --at;
    }
    gpu_store(blocks + at, block);
  }
}

// `candidates` blocks [0, candidates) compete, own excepted. Returns how many are chosen.
template <int dtype>
GPU_DEVICE int choose_blocks(const sattn_cuda_general &call, int64_t query_at, int64_t means_at, int own, int candidates, uint32_t *blocks,
                             float *scores) {
  const sattn_general_params &p = call.params;
  const int others = candidates - (own < candidates ? 1 : 0);
  const bool all = others <= p.topk - 1;
  int count = 0;
  for (int block = 0; block < candidates && p.topk > 1; ++block) {
    if (block == own && !gpu_fault("select_own_twice")) continue;
    if (all) {
      gpu_store(blocks + count++, (uint32_t)block);
    } else {
      const float score = gate_score<dtype>(call, query_at, means_at + (int64_t)block * call.head_dim);
      count = insert_block(blocks, scores, count, p.topk - 1, (uint32_t)block, score);
    }
  }
  gpu_store(blocks + count++, (uint32_t)own);
  sort_blocks(blocks, count);
  return count;
}

// A thread per query row.
template <int dtype>
GPU_DEVICE void select_blocks(const sattn_cuda_general &call) {
  const sattn_general_params &p = call.params;
  const int64_t row = (int64_t)blockIdx.x * SATTN_SMALL_THREADS + threadIdx.x;
  if (row >= p.batch * p.heads * p.queries) return;
  const int64_t i = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  const int length = length_of(call, b);
  int start = p.keys - p.queries;
  if (call.query_start) start = gpu_max(0, gpu_min(gpu_load(call.query_start + p.query_start + b), start));
  const int position = start + (int)i;
  uint32_t *blocks = call.selected + p.selected + row * p.selected_stride;
  int count = 0;
  if (position < length) {
    const int64_t query_at = p.query.offset + b * p.query.stride_batch + i * p.query.stride_token + h * p.query.stride_head;
    const int64_t means_at = p.means + (b * p.kv_heads + h / p.group) * p.blocks * call.head_dim;
    const int own = position / p.block;
    const int candidates = p.causal ? own : (length - 1) / p.block + 1;
    count = choose_blocks<dtype>(call, query_at, means_at, own, candidates, blocks, call.scores + p.scores + row * p.scores_stride);
  }
  for (int64_t place = count; place < p.selected_stride; ++place) gpu_store(blocks + place, gpu_fault("select_rest_kept") ? 0u : kNoBlock);
}

}  // namespace

GPU_KERNEL(block_means_fp32, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  block_means<1>(call);
}
GPU_KERNEL(block_means_fp16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  block_means<2>(call);
}
GPU_KERNEL(block_means_bf16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  block_means<3>(call);
}
GPU_KERNEL(select_blocks_fp32, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  select_blocks<1>(call);
}
GPU_KERNEL(select_blocks_fp16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  select_blocks<2>(call);
}
GPU_KERNEL(select_blocks_bf16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  select_blocks<3>(call);
}
GPU_REGISTER_KERNEL(block_means_fp32, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(block_means_fp16, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(block_means_bf16, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(select_blocks_fp32, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(select_blocks_fp16, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(select_blocks_bf16, SATTN_SMALL_THREADS);
