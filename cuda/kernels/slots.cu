// From orders to slots: slot[token] for every token that exists, and, where lengths leave gaps, the order without them.
//
//     order    [length]  slot -> token          3 0 5 1 4 2
//     compact  [keys]    tokens < 4 only        3 0 1 2          (kernels count and write; what follows the end is not written)
//     slots    [keys]    token -> slot          1 2 3 0          (tokens that do not exist are not written)
//
// Each order is cut into chunks; one thread counts the tokens of a chunk that exist, then writes them behind those of the chunks before.
// There are at most 1024 chunks, so adding up their counts is cheap. No barrier, no atomic; every entry has one writer. The twin of
// cl/kernels/slots.cl.
#include "general_params.h"
#include "gpu.h"

namespace {

GPU_DEVICE const uint32_t *order_of(const sattn_cuda_slots_call &call, int64_t row) {
  const sattn_slots_params &p = call.params;
  return call.order + p.order.offset + row / p.head_rows * p.order.stride_batch + row % p.head_rows * p.order.stride_head;
}

GPU_DEVICE uint32_t length_of(const sattn_cuda_slots_call &call, int64_t row) {
  const sattn_slots_params &p = call.params;
  return (uint32_t)gpu_max(0, gpu_min(gpu_load(call.lengths + p.lengths + row / p.head_rows), p.keys));
}

}  // namespace

// Without gaps: the inverse of the order. A thread per entry.
GPU_KERNEL(slots_invert, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_slots_call call) {
  const sattn_slots_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_SMALL_THREADS + threadIdx.x;
  if (index >= p.batch_rows * p.head_rows * p.order_length) return;
  const int64_t row = index / p.order_length, slot = index % p.order_length;
  const uint32_t token = gpu_load(order_of(call, row) + slot);
  if (token < (uint32_t)p.keys) gpu_store(call.slots + p.slots + row * p.keys + token, (uint32_t)slot);
}

// How many tokens of each chunk exist. A thread per chunk.
GPU_KERNEL(slots_count, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_slots_call call) {
  const sattn_slots_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_SMALL_THREADS + threadIdx.x;
  if (index >= p.batch_rows * p.head_rows * p.chunks) return;
  const int64_t row = index / p.chunks, chunk = index % p.chunks;
  const uint32_t *tokens = order_of(call, row);
  const uint32_t length = length_of(call, row);
  const int64_t end = gpu_min<int64_t>((chunk + 1) * p.chunk, p.keys);
  uint32_t count = 0;
  for (int64_t slot = chunk * p.chunk; slot < end; ++slot) count += gpu_load(tokens + slot) < length;
  gpu_store(call.counts + p.counts + row * p.chunks + chunk, count);
}

// The existing tokens of each chunk, in order, and their slots. A thread per chunk, after slots_count.
GPU_KERNEL(slots_write, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_slots_call call) {
  const sattn_slots_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_SMALL_THREADS + threadIdx.x;
  if (index >= p.batch_rows * p.head_rows * p.chunks) return;
  const int64_t row = index / p.chunks, chunk = index % p.chunks;
  const uint32_t *tokens = order_of(call, row);
  const uint32_t length = length_of(call, row);
  uint32_t at = 0;
  for (int64_t before = gpu_fault("slots_first_chunk_ignored") ? 1 : 0; before < chunk; ++before)
    at += gpu_load(call.counts + p.counts + row * p.chunks + before);
  const int64_t end = gpu_min<int64_t>((chunk + 1) * p.chunk, p.keys);
  for (int64_t slot = chunk * p.chunk; slot < end; ++slot) {
    const uint32_t token = gpu_load(tokens + slot);
    if (token >= length && !gpu_fault("slots_gaps_kept")) continue;
    gpu_store(call.compact + p.compact + row * p.keys + at, token);
    gpu_store(call.slots + p.slots + row * p.keys + token, at);
    ++at;
  }
}

GPU_REGISTER_KERNEL(slots_invert, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(slots_count, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(slots_write, SATTN_SMALL_THREADS);
