// What one row starts from and becomes, in all fast kernels.
#ifndef SATTN_CUDA_KERNELS_ROW_RESULTS_H
#define SATTN_CUDA_KERNELS_ROW_RESULTS_H

#include "redo_row.h"

namespace {

// Of row r: in the LSE array, and in the partial arrays, which have splits in front.
GPU_DEVICE int64_t lse_index(const sattn_cuda_band &call, const Place &place, int r, int query) {
  return ((place.split * call.batch + place.b) * call.heads + place.head + r % call.pack) * (int64_t)call.queries + query;
}

// Every lane of a row gets the maximum; the sum counts once, so only one of them has it.
GPU_DEVICE void start_row(float &max, float &sum, const sattn_cuda_band &call, const Place &place, int r, int query, bool counts) {
  max = -GPU_INFINITY;
  sum = 0.0f;
  if (query < 0) return;
  if (call.start == SATTN_BAND_CONTINUED) {
    max = gpu_load(call.partial_lse + lse_index(call, place, r, query)) * kLog2e;
  } else if (call.sink_logits && (place.split == 0 || gpu_fault("sink_in_every_split"))) {
    // What is finite stays finite in units of log 2.
    max = fminf(gpu_load(call.sink_logits + place.head + r % call.pack) * kLog2e, kMostFinite);
  }
  if (counts && max > -GPU_INFINITY) sum = 1.0f;
}

// The gates of one row: logits of either branch, one for all elements (step 0) or one each.
struct Gates {
  const void *first, *second;
  int64_t first_at, second_at;
};

GPU_DEVICE int64_t gate_at(const sattn_kernel_tensor &gate, int64_t b, int query, int head) {
  return gate.offset + b * gate.stride_batch + query * gate.stride_token + head * gate.stride_head;
}

GPU_DEVICE Gates gates_of(const sattn_cuda_band &call, int64_t b, int query, int head) {
  return {call.first_logits, call.second_logits, gate_at(call.gate_first, b, query, head), gate_at(call.gate_second, b, query, head)};
}

GPU_DEVICE float open_gate(int dtype, const void *logits, int64_t at) {
  return gpu_reciprocal(1.0f + gpu_exp2(-load_element_of(dtype, logits, at) * kLog2e));
}

GPU_DEVICE float first_gate(const sattn_cuda_band &call, const Gates &gates, int c) {
  return open_gate(call.gate_dtype, gates.first, gates.first_at + c * call.gate_first_step);
}

GPU_DEVICE float second_gate(const sattn_cuda_band &call, const Gates &gates, int c) {
  return open_gate(call.gate_dtype, gates.second, gates.second_at + c * call.gate_second_step);
}

// Row r of the tile by redo_row. Its maximum and sum are not affected by what a value row holds, so its LSE stays.
template <int dtype, int owned>
GPU_DEVICE void redo_values(float *out, const sattn_cuda_band &call, const Place &place, const Keys &keys, int query, int limit, int slot,
                            int position, int r, int d, int tile_keys, int lane) {
  const Row row = {query, limit, slot, position};
  const int head = place.head + r % call.pack;
  Redo at;
  at.query = call.query.offset + place.b * call.query.stride_batch + query * call.query.stride_token + head * call.query.stride_head;
  at.key = call.key.offset + place.b * call.key.stride_batch + place.g * call.key.stride_head;
  at.value = call.value.offset + place.b * call.value.stride_batch + place.g * call.value.stride_head;
  at.tile_keys = tile_keys;
  const int64_t partial_at = lse_index(call, place, r, query) * d;
  Redo_sums sums;
  start_row(sums.max, sums.sum, call, place, r, query, true);
  GPU_UNROLL
  for (int i = 0; i < owned; ++i) {
    const int c = lane + 32 * i;
    out[i] = call.start == SATTN_BAND_CONTINUED && c < d ? gpu_load(call.partial + partial_at + c) : 0.0f;
  }
  redo_row<dtype, owned>(sums, out, call, keys, row, at, d, lane);
}

// Of a row whose elements the lanes own in turns; alike in the whole warp.
template <int owned>
GPU_DEVICE bool all_finite(const float *out, int d, int lane) {
  float check = 0.0f;  // infinity times 0 is NaN
  GPU_UNROLL
  for (int i = 0; i < owned; ++i) {
    if (lane + 32 * i < d) check += out[i] * 0.0f;
  }
  return __all_sync(kAllLanes, check == 0.0f) != 0;
}

}  // namespace

#endif
