// Gradients for every mode and option, plain and right rather than fast. No atomics: every sum has one warp and a fixed order.
//
//     P_ij    = exp(s_ij - LSE_i)            recomputed; dY = dO, in GATED sigmoid(g) * dO
//     dP_ij   = <dY_i, V_j>
//     delta_i = sum_j P_ij dP_ij - dLSE_i
//     dS_ij   = P_ij (dP_ij - delta_i) slope_ij       slope of the softcap
//
//     grad_query      one warp per (query, head, batch entry):      keys it sees ->  delta, then dQ; dg
//     grad_key_value  one warp per (key, kv head, batch entry):     queries that see it, all heads of the group -> dK, dV          dsink:
//     see grad_sinks.cu
//
//     row ----> candidates, 32 at a time, one a lane
//                  lane k: s, P, dP and from them the factor of row k      through shared memory to all lanes
//                  lane c: sum of the 32 factor * row[.][c]                then added to the totals with compensation
//
// Q, dO, dQ [B, n_q, H, d], K, V, dK, dV [B, n_k, H_kv, d] with any strides; LSE, dLSE [B, H, n_q]; deltas [branches, B, H, n_q]. Lane c
// owns the elements c, c + 32, ... of the rows that are written. What does not see or is not seen is never read. dP is summed in the same
// order in both passes, so what cancels in one cancels in the other. The twin of cl/kernels/attend_general_grad.cl.
#include "general_grad.h"

namespace {

// Shared memory of one warp.
struct Scratch {
  gpu_shared<float> row;          // kMaxDim: query; key
  gpu_shared<float> other;        // kMaxDim: dY; value
  gpu_shared<float> factor;       // kLanes: what a candidate's row is multiplied with for dQ or dK
  gpu_shared<float> probability;  // kLanes
  gpu_shared<float> open;         // kLanes: gate of a candidate, where a head has one
  gpu_shared<int> token;          // kLanes: key, or number of the query; -1: none
};

// The part of a row of sums that a lane owns.
struct Sums {
  float total[kOwned], lost[kOwned];
};

GPU_DEVICE void clear_sums(Sums &sums) {
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) sums.total[k] = sums.lost[k] = 0.0f;
}

template <int dtype>
GPU_DEVICE void store_sums(const Sums &sums, void *array, int64_t at, int head_dim, int lane) {
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    const int c = lane + k * kLanes;
    if (c < head_dim) store_element<dtype>(sums.total[k] - sums.lost[k], array, at + c);
  }
}

// ---- dQ

struct Query_place {
  Row row;
  int64_t number, grad_out_at, key_at, value_at;
};

// What a key adds to delta, or its factor in dQ once delta is known.
template <int dtype>
GPU_DEVICE float key_part(const sattn_cuda_general_grad &call, const Scratch &scratch, const Query_place &place, int token, float lse,
                          bool delta_known, float delta) {
  const sattn_general_params &p = call.params.forward;
  const float raw = raw_score<dtype>(scratch.row, call.key, place.key_at + token * p.key.stride_token, p, call.head_dim);
  const float probability = expf(capped(raw, p) - lse);
  const float grad_probability = dot_row<dtype>(scratch.other, call.value, place.value_at + token * p.value.stride_token, call.head_dim);
  if (!delta_known) return probability * grad_probability;
  return probability * (grad_probability - delta) * softcap_slope(raw, p) * p.scale;
}

template <int dtype>
GPU_DEVICE void add_keys(Sums &grad, const sattn_cuda_general_grad &call, const Scratch &scratch, const Query_place &place, int lane) {
  const sattn_general_params &p = call.params.forward;
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    const int c = lane + k * kLanes;
    if (c >= call.head_dim) break;
    float sum = 0.0f;
    for (int other = 0; other < kLanes; ++other) {
      const int seen = scratch.token[other];
      if (seen < 0) continue;
      sum = fmaf(scratch.factor[other], load_element<dtype>(call.key, place.key_at + seen * p.key.stride_token + c), sum);
    }
    add_compensated(sum, grad.total[k], grad.lost[k]);
  }
}

// One branch of one query: adds to dQ and returns delta. The keys are walked twice, because delta must be known first.
template <int dtype>
GPU_DEVICE float grad_query_branch(Sums &grad, const sattn_cuda_general_grad &call, const Scratch &scratch, const Query_place &place,
                                   int branch, int lane) {
  const sattn_general_params &p = call.params.forward;
  const Gate gate = gate_of(call, branch, place.row.b, place.row.i, place.row.h);
  const float open = head_factor(gate);
  __syncwarp();  // the lanes may still be reading the branch before
  for (int c = lane; c < call.head_dim; c += kLanes) {
    scratch.other[c] = grad_branch<dtype>(call.grad_out, place.grad_out_at, gate, open, c);
  }
  __syncwarp();
  const Candidates keys = list_keys(p, place.row, branch, call.order, call.slots, call.selected);
  const int64_t total = candidate_count(keys);
  const float lse = row_lse(call, branch, place.number);
  float delta = 0.0f, lost = 0.0f;
  for (int64_t c = 0; c < total; c += kLanes) {
    const int token = c + lane < total ? candidate_token(keys, p, c + lane) : -1;
    const float part = token >= 0 ? key_part<dtype>(call, scratch, place, token, lse, false, 0.0f) : 0.0f;
    add_compensated(warp_sum(part), delta, lost);
  }
  delta -= lost;
  delta -= row_grad_lse(call, branch, place.number);
  for (int64_t c = 0; c < total; c += kLanes) {
    const int token = c + lane < total ? candidate_token(keys, p, c + lane) : -1;
    const float factor = token >= 0 ? key_part<dtype>(call, scratch, place, token, lse, true, delta) : 0.0f;
    __syncwarp();  // the lanes may still be reading the chunk before
    scratch.factor[lane] = factor;
    scratch.token[lane] = token;
    __syncwarp();
    add_keys<dtype>(grad, call, scratch, place, lane);
  }
  return delta;
}

// dg = dO Y sigmoid(g) sigmoid(-g), per head summed over the elements; 1 - sigmoid(g) would lose the digits of a large g.
template <int dtype>
GPU_DEVICE void store_grad_gate(const sattn_cuda_general_grad &call, const Query_place &place, int branch, int lane) {
  const sattn_general_params &p = call.params.forward;
  const Row &row = place.row;
  const Gate gate = gate_of(call, branch, row.b, row.i, row.h);
  void *target = branch ? call.grad_gate_swa : call.grad_gate_sa;
  const int64_t target_at =
      branch ? row_offset(call.params.grad_gate_swa, row.b, row.i, row.h) : row_offset(call.params.grad_gate_sa, row.b, row.i, row.h);
  const void *y = branch ? call.y_swa : call.y_sa;
  const int64_t y_at = (branch ? p.y_swa : p.y_sa) + ((row.b * p.queries + row.i) * p.heads + row.h) * call.head_dim;
  float sum = 0.0f;
  for (int c = lane; c < call.head_dim; c += kLanes) {
    float part = 0.0f;
    if (row.position < row.length) {
      const float logit = gate_logit(gate, c);
      part =
          load_element<dtype>(call.grad_out, place.grad_out_at + c) * load_element<dtype>(y, y_at + c) * sigmoid(logit) * sigmoid(-logit);
    }
    if (gate.per_element) store_element_of(gate.dtype, part, target, target_at + c);
    sum += part;
  }
  sum = warp_sum(sum);
  if (!gate.per_element && lane == 0) store_element_of(gate.dtype, sum, target, target_at);
}

template <int dtype>
GPU_DEVICE void grad_query_row(const sattn_cuda_general_grad &call, const Scratch &scratch, int64_t index, int lane) {
  const sattn_general_params &p = call.params.forward;
  Query_place place;
  place.row = query_row(p, call.lengths, call.query_start, index);
  const Row &row = place.row;
  place.number = index;
  place.grad_out_at = row_offset(call.params.grad_out, row.b, row.i, row.h);
  place.key_at = row_offset(p.key, row.b, 0, row.h / p.group);
  place.value_at = row_offset(p.value, row.b, 0, row.h / p.group);
  const bool exists = row.position < row.length;
  const int64_t query_at = row_offset(p.query, row.b, row.i, row.h);
  for (int c = lane; c < call.head_dim && exists; c += kLanes) scratch.row[c] = load_element<dtype>(call.query, query_at + c);
  Sums grad;
  clear_sums(grad);
  const int branches = branch_count(p);
  for (int branch = 0; branch < branches; ++branch) {
    const float delta = exists ? grad_query_branch<dtype>(grad, call, scratch, place, branch, lane) : 0.0f;
    if (lane == 0) gpu_store(call.deltas + delta_index(call.params, branch, index), delta);
    if (p.mode == kGated) store_grad_gate<dtype>(call, place, branch, lane);
  }
  store_sums<dtype>(grad, call.grad_query, row_offset(call.params.grad_query, row.b, row.i, row.h), call.head_dim, lane);
}

// ---- dK, dV

struct Key_place {
  int64_t b;
  int g, token, start, length;
};

// <dY, value>, summed as dot_row does.
template <int dtype>
GPU_DEVICE float dot_branch(const sattn_cuda_general_grad &call, gpu_shared<float> value, int64_t at, const Gate &gate, float open) {
  float even = 0.0f, odd = 0.0f;
  int c = 0;
  for (; c + 1 < call.head_dim; c += 2) {
    even = fmaf(value[c], grad_branch<dtype>(call.grad_out, at, gate, open, c), even);
    odd = fmaf(value[c + 1], grad_branch<dtype>(call.grad_out, at, gate, open, c + 1), odd);
  }
  if (c < call.head_dim) even = fmaf(value[c], grad_branch<dtype>(call.grad_out, at, gate, open, c), even);
  return even + odd;
}

// Whether a query that may see the key does so.
GPU_DEVICE bool selects(const sattn_cuda_general_grad &call, const Key_place &place, int64_t number) {
  const sattn_general_params &p = call.params.forward;
  if (p.mode != kMoba || place.token < p.sink_tokens) return true;
  return selects_block(call.selected + p.selected + number * p.selected_stride, p.selected_stride, (uint32_t)(place.token / p.block));
}

// Shares with all lanes what query i of head h has to do with the key.
template <int dtype>
GPU_DEVICE void share_query(const sattn_cuda_general_grad &call, const Scratch &scratch, const Key_place &place, int i, int h, int branch,
                            int lane) {
  const sattn_general_params &p = call.params.forward;
  const int64_t number = row_number(p, place.b, h, i);
  float probability = 0.0f, factor = 0.0f, open = 1.0f;
  if (i >= 0 && !selects(call, place, number)) i = -1;
  if (i >= 0) {
    const float raw = raw_score<dtype>(scratch.row, call.query, row_offset(p.query, place.b, i, h), p, call.head_dim);
    const Gate gate = gate_of(call, branch, place.b, i, h);
    open = head_factor(gate);
    probability = expf(capped(raw, p) - row_lse(call, branch, number));
    const float grad_probability = dot_branch<dtype>(call, scratch.other, row_offset(call.params.grad_out, place.b, i, h), gate, open);
    const float delta = gpu_load(call.deltas + delta_index(call.params, branch, number));
    factor = probability * (grad_probability - delta) * softcap_slope(raw, p) * p.scale;
  }
  __syncwarp();  // the lanes may still be reading the chunk before
  scratch.probability[lane] = probability;
  scratch.factor[lane] = factor;
  scratch.open[lane] = open;
  scratch.token[lane] = i;
  __syncwarp();
}

// What the queries of one head add through one branch.
template <int dtype>
GPU_DEVICE void add_queries(Sums &grad_key, Sums &grad_value, const sattn_cuda_general_grad &call, const Scratch &scratch,
                            const Key_place &place, int h, int branch, int lane) {
  const sattn_general_params &p = call.params.forward;
  const Candidates queries = list_queries(p, place.b, place.g, place.token, place.start, place.length, branch, call.order, call.slots);
  const int64_t total = candidate_count(queries);
  for (int64_t first = 0; first < total; first += kLanes) {
    const int position = first + lane < total ? candidate_token(queries, p, first + lane) : -1;
    share_query<dtype>(call, scratch, place, position < 0 ? -1 : position - place.start, h, branch, lane);
    GPU_UNROLL
    for (int k = 0; k < kOwned; ++k) {
      const int c = lane + k * kLanes;
      if (c >= call.head_dim) break;
      float key_sum = 0.0f, value_sum = 0.0f;
      for (int other = 0; other < kLanes; ++other) {
        const int i = scratch.token[other];
        if (i < 0) continue;
        const Gate gate = gate_of(call, branch, place.b, i, h);
        const int64_t grad_out_at = row_offset(call.params.grad_out, place.b, i, h);
        key_sum = fmaf(scratch.factor[other], load_element<dtype>(call.query, row_offset(p.query, place.b, i, h) + c), key_sum);
        const float grad = grad_branch<dtype>(call.grad_out, grad_out_at, gate, scratch.open[other], c);
        value_sum = fmaf(scratch.probability[other], grad, value_sum);
      }
      add_compensated(key_sum, grad_key.total[k], grad_key.lost[k]);
      add_compensated(value_sum, grad_value.total[k], grad_value.lost[k]);
    }
  }
}

// Every row is written; those that nobody sees, or that do not exist, get exact zeros.
template <int dtype>
GPU_DEVICE void grad_key_row(const sattn_cuda_general_grad &call, const Scratch &scratch, int64_t index, int lane) {
  const sattn_general_params &p = call.params.forward;
  Key_place place;
  place.token = (int)(index % p.keys);
  place.g = (int)(index / p.keys % p.kv_heads);
  place.b = index / p.keys / p.kv_heads;
  Sums grad_key, grad_value;
  clear_sums(grad_key);
  clear_sums(grad_value);
  // Without queries there is no input at all.
  place.length = p.queries > 0 ? token_count(p, call.lengths, place.b) : 0;
  if (place.token < place.length) {
    place.start = first_position(p, call.query_start, place.b);
    const int64_t key_at = row_offset(p.key, place.b, place.token, place.g), value_at = row_offset(p.value, place.b, place.token, place.g);
    for (int c = lane; c < call.head_dim; c += kLanes) {
      scratch.row[c] = load_element<dtype>(call.key, key_at + c);
      scratch.other[c] = load_element<dtype>(call.value, value_at + c);
    }
    __syncwarp();
    const int branches = branch_count(p);
    for (int h = place.g * p.group; h < (place.g + 1) * p.group; ++h) {
      for (int branch = 0; branch < branches; ++branch) add_queries<dtype>(grad_key, grad_value, call, scratch, place, h, branch, lane);
    }
  }
  store_sums<dtype>(grad_key, call.grad_key, row_offset(call.params.grad_key, place.b, place.token, place.g), call.head_dim, lane);
  store_sums<dtype>(grad_value, call.grad_value, row_offset(call.params.grad_value, place.b, place.token, place.g), call.head_dim, lane);
}

// ---- rows of a block. Whole warps only leave early, and no barrier of the block follows.

template <int dtype, bool queries>
GPU_DEVICE void run_rows(const sattn_cuda_general_grad &call) {
  GPU_STATIC_SHARED(float, row, kWarps *kMaxDim);
  GPU_STATIC_SHARED(float, other, kWarps *kMaxDim);
  GPU_STATIC_SHARED(float, factor, kWarps *kLanes);
  GPU_STATIC_SHARED(float, probability, kWarps *kLanes);
  GPU_STATIC_SHARED(float, open, kWarps *kLanes);
  GPU_STATIC_SHARED(int, token, kWarps *kLanes);
  const sattn_general_params &p = call.params.forward;
  const int warp = (int)threadIdx.x / kLanes, lane = (int)threadIdx.x % kLanes;
  const Scratch scratch = {row + warp * kMaxDim,        other + warp * kMaxDim, factor + warp * kLanes,
                           probability + warp * kLanes, open + warp * kLanes,   token + warp * kLanes};
  const int64_t index = (int64_t)blockIdx.x * kWarps + warp;
  if (queries) {
    if (index < p.batch * p.heads * p.queries) grad_query_row<dtype>(call, scratch, index, lane);
  } else {
    if (index < p.batch * p.kv_heads * p.keys) grad_key_row<dtype>(call, scratch, index, lane);
  }
}

}  // namespace

#define GRAD_KERNEL(name, body)                                                                   \
  GPU_KERNEL(name, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general_grad call) { \
    body(call);                                                                                   \
  }                                                                                               \
  GPU_REGISTER_KERNEL(name, SATTN_GENERAL_THREADS)
GRAD_KERNEL(grad_query_fp32, (run_rows<1, true>));
GRAD_KERNEL(grad_query_fp16, (run_rows<2, true>));
GRAD_KERNEL(grad_query_bf16, (run_rows<3, true>));
GRAD_KERNEL(grad_key_value_fp32, (run_rows<1, false>));
GRAD_KERNEL(grad_key_value_fp16, (run_rows<2, false>));
GRAD_KERNEL(grad_key_value_bf16, (run_rows<3, false>));
