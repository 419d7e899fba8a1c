// Attention for every mode and option, plain and right rather than fast: one warp per (query, head, batch entry).
//
//     query i ----> candidates, 32 at a time, one a lane          sinks | band of positions | band of slots | selected blocks
//                       lane k: s = scale * <q, key k>, softcap   fp32; lanes without a visible key sit out
//                       p = exp(s - max), through shared memory to all lanes
//                       lane c: sum of the 32 p * V[.][c]         then added to the row's totals with compensation
//
// Q, O [B, n_q, H, d] and K, V [B, n_k, H_kv, d] with any strides; LSE [B, H, n_q]; order, slots: see slots.cu. Lane c owns the elements
// c, c + 32, ... of the output row. The twin of cl/kernels/attend_general.cl: same candidates, same sums.
//
// The reference maximum is only replaced when 32 keys exceed it by more than 8 (exp(8) is far from overflow), so totals are rarely
// rescaled, and each 32 are added with Kahan's compensation; the error does not grow with the number of keys. A key row that the query does
// not see is never read, so a NaN there cannot reach the result.
#include "visible.h"

namespace {

constexpr float kMaxSlack = 8.0f;

// Shared memory of one warp.
struct Scratch {
  gpu_shared<float> query;   // kMaxDim
  gpu_shared<float> weight;  // kLanes
  gpu_shared<int> token;     // kLanes
};

// Totals of one row: the part that this lane owns, and what all lanes hold alike.
struct Totals {
  float accumulated[kOwned], lost[kOwned];
  float sum, sum_lost;
  float max;
};

// ---- 32 keys

GPU_DEVICE void raise_max(Totals &totals, float chunk_max) {
  if (!(chunk_max > totals.max + kMaxSlack)) return;
  const float shrink = expf(totals.max - chunk_max);  // 0 for the first chunk, whose totals are 0
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    totals.accumulated[k] *= shrink;
    totals.lost[k] *= shrink;
  }
  if (!gpu_fault("general_rescale_forgotten")) totals.sum *= shrink;
  totals.sum_lost *= shrink;
  totals.max = chunk_max;
}

template <int dtype>
GPU_DEVICE void add_chunk(Totals &totals, const Scratch &scratch, int token, const void *key, const void *value, int64_t key_at,
                          int64_t value_at, const sattn_general_params &p, int head_dim, int lane) {
  const float s = token >= 0 ? score<dtype>(scratch.query, key, key_at + token * p.key.stride_token, p, head_dim) : -GPU_INFINITY;
  raise_max(totals, warp_max(s));
  const float reference = totals.max == -GPU_INFINITY ? 0.0f : totals.max;  // infinity minus infinity would be NaN
  const float weight = token >= 0 ? expf(s - reference) : 0.0f;
  add_compensated(warp_sum(weight), totals.sum, totals.sum_lost);
  if (!gpu_fault("general_no_sync")) __syncwarp();  // the lanes may still be reading the chunk before
  scratch.weight[lane] = weight;
  scratch.token[lane] = token;
  __syncwarp();
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    const int c = lane + k * kLanes;
    if (c >= head_dim) break;
    float sum = 0.0f;
    for (int other = 0; other < kLanes; ++other) {
      const int seen = scratch.token[other];
      if (seen >= 0 || gpu_fault("general_reads_unseen"))
        sum = fmaf(scratch.weight[other], load_element<dtype>(value, value_at + seen * p.value.stride_token + c), sum);
    }
    add_compensated(sum, totals.accumulated[k], totals.lost[k]);
  }
}

// ---- one row

// Attends to all candidates; totals.accumulated becomes the finished output. Returns the LSE.
template <int dtype>
GPU_DEVICE float attend_row(Totals &totals, const sattn_cuda_general &call, const Row &row, const Candidates &keys, const Scratch &scratch,
                            int lane) {
  const sattn_general_params &p = call.params;
  const int64_t g = row.h / p.group;
  const int64_t key_at = row_offset(p.key, row.b, 0, g), value_at = row_offset(p.value, row.b, 0, g);
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) totals.accumulated[k] = totals.lost[k] = 0.0f;
  totals.sum = totals.sum_lost = 0.0f;
  totals.max = -GPU_INFINITY;
  const int64_t total = candidate_count(keys);
  for (int64_t c = 0; c < total; c += kLanes) {
    const int token = c + lane < total ? candidate_token(keys, p, c + lane) : -1;
    add_chunk<dtype>(totals, scratch, token, call.key, call.value, key_at, value_at, p, call.head_dim, lane);
  }
  const float sink_logit = call.sink_logits ? gpu_load(call.sink_logits + p.sink_logits + row.h) : -GPU_INFINITY;
  float sum = totals.sum - totals.sum_lost, max_all = totals.max, shrink = 1.0f;
  if (sink_logit > -GPU_INFINITY) {
    max_all = fmaxf(totals.max, sink_logit);
    shrink = totals.max == max_all ? 1.0f : expf(totals.max - max_all);
    sum = sum * shrink + (sink_logit == max_all ? 1.0f : expf(sink_logit - max_all));
  }
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) totals.accumulated[k] = (totals.accumulated[k] - totals.lost[k]) * shrink / sum;
  return max_all + logf(sum);
}

GPU_DEVICE float sigmoid_of_gate(const void *gate, const sattn_kernel_tensor &tensor, const Row &row, int dtype, int per_element, int c) {
  return sigmoid(load_element_of(dtype, gate, row_offset(tensor, row.b, row.i, row.h) + (per_element ? c : 0)));
}

// One branch of GATED, or the only one: writes its LSE, and its output where backward will want it.
template <int dtype>
GPU_DEVICE void store_branch(const sattn_cuda_general &call, const Row &row, int branch, float lse, const float *values, int lane) {
  const sattn_general_params &p = call.params;
  const bool gated = p.mode == kGated;
  float *lse_array = !gated ? call.lse : branch ? call.lse_swa : call.lse_sa;
  const int64_t lse_at = (!gated ? p.lse : branch ? p.lse_swa : p.lse_sa) + row_number(p, row.b, row.h, row.i);
  if (lse_array && lane == 0) gpu_store(lse_array + lse_at, lse);
  void *saved = !gated ? nullptr : branch ? call.y_swa : call.y_sa;
  if (!saved) return;
  const int64_t saved_at = (branch ? p.y_swa : p.y_sa) + ((row.b * p.queries + row.i) * p.heads + row.h) * call.head_dim;
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    const int c = lane + k * kLanes;
    if (c < call.head_dim) store_element<dtype>(values[k], saved, saved_at + c);
  }
}

template <int dtype>
GPU_DEVICE void finish_row(const sattn_cuda_general &call, const Row &row, const Scratch &scratch, int lane) {
  const sattn_general_params &p = call.params;
  const int branches = p.mode == kGated ? 2 : 1;
  float mixed[kOwned];
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) mixed[k] = 0.0f;
  for (int branch = 0; branch < branches; ++branch) {
    Totals totals;
    float lse = -GPU_INFINITY;
    if (row.position < row.length) {
      const Candidates keys = list_keys(p, row, branch, call.order, call.slots, call.selected);
      lse = attend_row<dtype>(totals, call, row, keys, scratch, lane);
    } else {  // an empty row: O = 0, with sink logits or without
      GPU_UNROLL
      for (int k = 0; k < kOwned; ++k) totals.accumulated[k] = 0.0f;
    }
    store_branch<dtype>(call, row, branch, lse, totals.accumulated, lane);
    GPU_UNROLL
    for (int k = 0; k < kOwned; ++k) {
      const int c = lane + k * kLanes;
      if (branches == 1) {
        mixed[k] = totals.accumulated[k];
      } else if (c < call.head_dim && row.position < row.length) {
        const float gate = branch ? sigmoid_of_gate(call.gate_swa, p.gate_swa, row, p.gate_dtype, p.gate_swa_element, c)
                                  : sigmoid_of_gate(call.gate_sa, p.gate_sa, row, p.gate_dtype, p.gate_sa_element, c);
        mixed[k] += gate * totals.accumulated[k];
      }
    }
  }
  const int64_t out_at = row_offset(p.out, row.b, row.i, row.h);
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    const int c = lane + k * kLanes;
    if (c < call.head_dim) store_element<dtype>(mixed[k], call.out, out_at + c);
  }
}

template <int dtype>
GPU_DEVICE void attend_general(const sattn_cuda_general &call) {
  GPU_STATIC_SHARED(float, query, kWarps *kMaxDim);
  GPU_STATIC_SHARED(float, weight, kWarps *kLanes);
  GPU_STATIC_SHARED(int, token, kWarps *kLanes);
  const sattn_general_params &p = call.params;
  const int warp = (int)threadIdx.x / kLanes, lane = (int)threadIdx.x % kLanes;
  const int64_t index = (int64_t)blockIdx.x * kWarps + warp;
  if (index >= p.batch * p.heads * p.queries) return;  // whole warps only, and no barrier of the block follows
  const Scratch scratch = {query + warp * kMaxDim, weight + warp * kLanes, token + warp * kLanes};
  const Row row = query_row(p, call.lengths, call.query_start, index);
  const int64_t query_at = row_offset(p.query, row.b, row.i, row.h);
  for (int c = lane; c < call.head_dim; c += kLanes) scratch.query[c] = load_element<dtype>(call.query, query_at + c);
  __syncwarp();
  finish_row<dtype>(call, row, scratch, lane);
}

}  // namespace

// Two blocks at once: for three the assembler spills.
GPU_KERNEL(attend_general_fp32, SATTN_GENERAL_THREADS, 2)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  attend_general<1>(call);
}
GPU_KERNEL(attend_general_fp16, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  attend_general<2>(call);
}
GPU_KERNEL(attend_general_bf16, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) {
  attend_general<3>(call);
}
GPU_REGISTER_KERNEL(attend_general_fp32, SATTN_GENERAL_THREADS);
GPU_REGISTER_KERNEL(attend_general_fp16, SATTN_GENERAL_THREADS);
GPU_REGISTER_KERNEL(attend_general_bf16, SATTN_GENERAL_THREADS);
