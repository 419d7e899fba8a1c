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
// The reference maximum is only replaced when 32 keys exceed it by more than 8 (exp(8) is far from overflow), so totals are rarely rescaled,
// and each 32 are added with Kahan's compensation; the error does not grow with the number of keys. A key row that the query does not see is
// never read, so a NaN there cannot reach the result.
#include "elements.h"
#include "general_params.h"

namespace {

constexpr int kLanes = 32;
constexpr int kWarps = SATTN_GENERAL_THREADS / kLanes;
constexpr int kMaxDim = 256;
constexpr int kOwned = kMaxDim / kLanes; // elements of a row that a lane owns at most
constexpr float kMaxSlack = 8.0f;
constexpr uint32_t kNoBlock = 0xffffffffu;
constexpr uint32_t kAllLanes = 0xffffffffu;

enum { kFull = 1, kSlidingWindow = 2, kStochastic = 3, kUnion = 4, kGated = 5, kMoba = 6 };

// The row that a warp works on.
struct Row {
  int64_t b;
  int h, i;
  int position; // of the query
  int length;   // tokens that exist in this batch entry
};

// The visible keys of a row as candidates 0..total-1: tokens [0, sinks), tokens [first, first + band), then `others` entries of a list: slots
// from slot_first on, or the tokens of selected blocks. The last kind needs a test each.
struct Candidates {
  int sinks;
  int first;
  int band;
  int last; // the last token that causality and length allow
  int64_t others;
  int64_t slot_first, slot_count;
  const uint32_t *order;
  const uint32_t *selected;
};

// Shared memory of one warp.
struct Scratch {
  gpu_shared<float> query;  // kMaxDim
  gpu_shared<float> weight; // kLanes
  gpu_shared<int> token;    // kLanes
};

// Totals of one row: the part that this lane owns, and what all lanes hold alike.
struct Totals {
  float accumulated[kOwned], lost[kOwned];
  float sum, sum_lost;
  float max;
};

GPU_DEVICE float warp_max(float x) {
  GPU_UNROLL
  for (int step = 16; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

GPU_DEVICE float warp_sum(float x) {
  GPU_UNROLL
  for (int step = 16; step; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

// ---- which keys

GPU_DEVICE void add_positions(Candidates &keys, int64_t first, int64_t last) {
  first = gpu_max<int64_t>(first, keys.sinks);
  last = gpu_min<int64_t>(last, keys.last);
  keys.first = (int)first;
  keys.band = last >= first ? (int)(last - first + 1) : 0;
}

GPU_DEVICE void add_slots(Candidates &keys, const sattn_general_params &p, int64_t slot) {
  const int64_t width = (int64_t)p.left_sa + p.right_sa + 1;
  if (p.wrap && width >= keys.slot_count) {
    keys.slot_first = 0;
    keys.others = keys.slot_count;
  } else if (p.wrap) {
    keys.slot_first = slot < p.left_sa ? slot - p.left_sa + keys.slot_count : slot - p.left_sa;
    keys.others = width;
  } else {
    const int64_t last = gpu_min<int64_t>(slot + p.right_sa, keys.slot_count - 1);
    keys.slot_first = gpu_max<int64_t>(slot - p.left_sa, 0);
    keys.others = last - keys.slot_first + 1;
  }
}

GPU_DEVICE void add_blocks(Candidates &keys, const sattn_general_params &p, const uint32_t *selected) {
  int64_t count = 0;
  while (count < p.selected_stride && gpu_load(selected + count) != kNoBlock) ++count;
  keys.selected = selected;
  keys.others = count * p.block;
}

GPU_DEVICE Candidates list_keys(const sattn_cuda_general &call, const Row &row, int branch) {
  const sattn_general_params &p = call.params;
  Candidates keys = {0, 0, 0, 0, 0, 0, 0, nullptr, nullptr};
  keys.last = p.causal ? row.position : row.length - 1;
  keys.sinks = gpu_min(p.sink_tokens, keys.last + 1);
  const int64_t position = row.position, g = row.h / p.group;
  if (p.mode == kFull) add_positions(keys, 0, keys.last);
  if (p.mode == kSlidingWindow || p.mode == kUnion || (p.mode == kGated && branch == 1)) {
    add_positions(keys, position - p.left_swa, position + p.right_swa);
  }
  if (p.mode == kStochastic || p.mode == kUnion || (p.mode == kGated && branch == 0)) {
    keys.order = call.order + p.order.offset + row.b * p.order.stride_batch + g * p.order.stride_head;
    keys.slot_count = p.order_length ? p.order_length : row.length;
    add_slots(keys, p, gpu_load(call.slots + p.slots.offset + row.b * p.slots.stride_batch + g * p.slots.stride_head + position));
  }
  if (p.mode == kMoba) {
    const int64_t index = (row.b * p.heads + row.h) * p.queries + row.i;
    add_blocks(keys, p, call.selected + p.selected + index * p.selected_stride);
  }
  return keys;
}

// Token of candidate c, or -1 if the query does not see it after all or an earlier kind held it already.
GPU_DEVICE int candidate_token(const Candidates &keys, const sattn_general_params &p, int64_t c) {
  if (c < keys.sinks) return (int)c;
  c -= keys.sinks;
  if (c < keys.band) return keys.first + (int)c;
  c -= keys.band;
  if (c >= keys.others) return -1;
  int64_t token;
  if (keys.selected) {
    token = (int64_t)gpu_load(keys.selected + c / p.block) * p.block + c % p.block;
  } else {
    int64_t slot = keys.slot_first + c;
    if (slot >= keys.slot_count) slot -= keys.slot_count;
    token = gpu_load(keys.order + slot);
  }
  const bool held = token < keys.sinks || (token >= keys.first && token < (int64_t)keys.first + keys.band);
  return token > keys.last || held ? -1 : (int)token;
}

// ---- 32 keys

template <int dtype>
GPU_DEVICE float score(const Scratch &scratch, const void *key, int64_t at, const sattn_general_params &p, int head_dim) {
  float even = 0.0f, odd = 0.0f;
  int c = 0;
  for (; c + 1 < head_dim; c += 2) {
    even = fmaf(scratch.query[c], load_element<dtype>(key, at + c), even);
    odd = fmaf(scratch.query[c + 1], load_element<dtype>(key, at + c + 1), odd);
  }
  if (c < head_dim) even = fmaf(scratch.query[c], load_element<dtype>(key, at + c), even);
  const float s = (even + odd) * p.scale;
  return p.softcap > 0.0f ? p.softcap * tanhf(s / p.softcap) : s;
}

// The error is only kept while it is finite: an infinite total has none, and infinity minus infinity would turn it into NaN.
GPU_DEVICE void add_compensated(float value, float &total, float &lost) {
  const float corrected = value - lost;
  const float next = total + corrected;
  const float error = (next - total) - corrected;
  lost = fabsf(error) < GPU_INFINITY ? error : 0.0f;
  total = next;
}

GPU_DEVICE void raise_max(Totals &totals, float chunk_max) {
  if (!(chunk_max > totals.max + kMaxSlack)) return;
  const float shrink = expf(totals.max - chunk_max); // 0 for the first chunk, whose totals are 0
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) {
    totals.accumulated[k] *= shrink;
    totals.lost[k] *= shrink;
  }
  totals.sum *= shrink;
  totals.sum_lost *= shrink;
  totals.max = chunk_max;
}

template <int dtype>
GPU_DEVICE void add_chunk(Totals &totals, const Scratch &scratch, int token, const void *key, const void *value, int64_t key_at,
                          int64_t value_at, const sattn_general_params &p, int head_dim, int lane) {
  const float s = token >= 0 ? score<dtype>(scratch, key, key_at + token * p.key.stride_token, p, head_dim) : -GPU_INFINITY;
  raise_max(totals, warp_max(s));
  const float reference = totals.max == -GPU_INFINITY ? 0.0f : totals.max; // infinity minus infinity would be NaN
  const float weight = token >= 0 ? expf(s - reference) : 0.0f;
  add_compensated(warp_sum(weight), totals.sum, totals.sum_lost);
  __syncwarp(); // the lanes may still be reading the chunk before
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
      if (seen >= 0) sum = fmaf(scratch.weight[other], load_element<dtype>(value, value_at + seen * p.value.stride_token + c), sum);
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
  const int64_t key_at = p.key.offset + row.b * p.key.stride_batch + g * p.key.stride_head;
  const int64_t value_at = p.value.offset + row.b * p.value.stride_batch + g * p.value.stride_head;
  GPU_UNROLL
  for (int k = 0; k < kOwned; ++k) totals.accumulated[k] = totals.lost[k] = 0.0f;
  totals.sum = totals.sum_lost = 0.0f;
  totals.max = -GPU_INFINITY;
  const int64_t total = (int64_t)keys.sinks + keys.band + keys.others;
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
  const int64_t at = tensor.offset + row.b * tensor.stride_batch + row.i * tensor.stride_token + row.h * tensor.stride_head;
  return 1.0f / (1.0f + expf(-load_element_of(dtype, gate, at + (per_element ? c : 0))));
}

GPU_DEVICE int64_t lse_index(const sattn_general_params &p, const Row &row) {
  return (row.b * p.heads + row.h) * p.queries + row.i;
}

// One branch of GATED, or the only one: writes its LSE, and its output where backward will want it.
template <int dtype>
GPU_DEVICE void store_branch(const sattn_cuda_general &call, const Row &row, int branch, float lse, const float *values, int lane) {
  const sattn_general_params &p = call.params;
  const bool gated = p.mode == kGated;
  float *lse_array = !gated ? call.lse : branch ? call.lse_swa : call.lse_sa;
  const int64_t lse_at = (!gated ? p.lse : branch ? p.lse_swa : p.lse_sa) + lse_index(p, row);
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
      const Candidates keys = list_keys(call, row, branch);
      lse = attend_row<dtype>(totals, call, row, keys, scratch, lane);
    } else { // an empty row: O = 0, with sink logits or without
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
  const int64_t out_at = p.out.offset + row.b * p.out.stride_batch + row.i * p.out.stride_token + row.h * p.out.stride_head;
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
  if (index >= p.batch * p.heads * p.queries) return; // whole warps only, and no barrier of the block follows
  const Scratch scratch = {query + warp * kMaxDim, weight + warp * kLanes, token + warp * kLanes};
  Row row;
  row.i = (int)(index % p.queries);
  row.h = (int)(index / p.queries % p.heads);
  row.b = index / p.queries / p.heads;
  row.length = call.lengths ? gpu_max(0, gpu_min(gpu_load(call.lengths + p.lengths + row.b), p.keys)) : p.keys;
  int start = p.keys - p.queries;
  if (call.query_start) start = gpu_max(0, gpu_min(gpu_load(call.query_start + p.query_start + row.b), start));
  row.position = start + row.i;
  const int64_t query_at = p.query.offset + row.b * p.query.stride_batch + row.i * p.query.stride_token + row.h * p.query.stride_head;
  for (int c = lane; c < call.head_dim; c += kLanes) scratch.query[c] = load_element<dtype>(call.query, query_at + c);
  __syncwarp();
  finish_row<dtype>(call, row, scratch, lane);
}

} // namespace

GPU_KERNEL(attend_general_fp32, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) { attend_general<1>(call); }
GPU_KERNEL(attend_general_fp16, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) { attend_general<2>(call); }
GPU_KERNEL(attend_general_bf16, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general call) { attend_general<3>(call); }
GPU_REGISTER_KERNEL(attend_general_fp32, SATTN_GENERAL_THREADS);
GPU_REGISTER_KERNEL(attend_general_fp16, SATTN_GENERAL_THREADS);
GPU_REGISTER_KERNEL(attend_general_bf16, SATTN_GENERAL_THREADS);
