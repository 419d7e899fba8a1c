// Permutations, drawn and sorted on the device: the tokens 0..length-1 by (sort key, token), ascending (permutation format 1).
//
//     keys    [rows][padded]  64-bit sort keys, from philox.h              draw_keys
//     tokens  [rows][padded]  uint32, moved along with the keys            draw_step, for each (run, stride) of a bitonic network
//     order   [rows][length]  the first `length` tokens                    draw_store
//
// padded is the next power of two. Entries behind the tokens have the largest key and tokens >= length, so they sort behind every token.
// The network is fixed and all (key, token) pairs differ, so the result does not depend on the device. The twin of cl/kernels/draw.cl.
#include "draw_params.h"
#include "gpu.h"

// A thread per entry.
GPU_KERNEL(draw_keys, SATTN_DRAW_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_draw_call call) {
  const sattn_draw_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_DRAW_THREADS + threadIdx.x;
  if (index >= p.rows * p.padded) return;
  const int64_t row = index / p.padded, i = index % p.padded;
  uint64_t key = ~(uint64_t)0;
  if (i < p.length) {
    key = sattn_sort_key((uint32_t)i, (uint64_t)p.seed, (uint32_t)p.layer, (uint32_t)p.substream + (uint32_t)row, (uint32_t)p.step);
  }
  gpu_store(call.keys + index, key);
  gpu_store(call.tokens + index, (uint32_t)i);
}

// A thread per pair of entries. Every entry belongs to one pair, so nothing that is read here was written in this launch.
GPU_KERNEL(draw_step, SATTN_DRAW_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_draw_call call) {
  const sattn_draw_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_DRAW_THREADS + threadIdx.x;
  if (index >= p.rows * (p.padded / 2)) return;
  const int64_t row = index / (p.padded / 2), pair = index % (p.padded / 2);
  const int64_t place = pair / p.stride * 2 * p.stride + pair % p.stride;
  const int64_t low = row * p.padded + place, high = low + p.stride;
  const bool ascending = (place & p.run) == 0;
  const uint64_t key_low = gpu_load_written(call.keys + low), key_high = gpu_load_written(call.keys + high);
  const uint32_t token_low = gpu_load_written(call.tokens + low), token_high = gpu_load_written(call.tokens + high);
  const bool after = key_low > key_high || (key_low == key_high && token_low > token_high);
  if (after != ascending) return;
  gpu_store(call.keys + low, key_high);
  gpu_store(call.keys + high, key_low);
  gpu_store(call.tokens + low, token_high);
  gpu_store(call.tokens + high, token_low);
}

// A thread per entry of the orders.
GPU_KERNEL(draw_store, SATTN_DRAW_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_draw_call call) {
  const sattn_draw_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_DRAW_THREADS + threadIdx.x;
  if (index >= p.rows * p.length) return;
  const int64_t row = index / p.length, i = index % p.length;
  gpu_store(call.order + (p.first_row + row) * p.length + i, gpu_load(call.tokens + row * p.padded + i));
}

GPU_REGISTER_KERNEL(draw_keys, SATTN_DRAW_THREADS);
GPU_REGISTER_KERNEL(draw_step, SATTN_DRAW_THREADS);
GPU_REGISTER_KERNEL(draw_store, SATTN_DRAW_THREADS);
