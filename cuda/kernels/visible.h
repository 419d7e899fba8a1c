// Who sees whom, as a list of candidates, and what the passes of the general path share. One warp works on one row and takes 32 candidates
// at a time, one a lane.
//
// The relation is walked both ways:
//
//     forward, dQ     tokens = keys that a query sees              band [p - left, p + right], the same for slots
//     dK, dV          tokens = query positions that see a key      band [j - right, j + left]: the sides change places
//
// The twin of cl/kernels/visible.cl.
#ifndef SATTN_CUDA_KERNELS_VISIBLE_H
#define SATTN_CUDA_KERNELS_VISIBLE_H

#include "elements.h"
#include "general_params.h"

namespace {

constexpr int kLanes = 32;
constexpr int kWarps = SATTN_GENERAL_THREADS / kLanes;
constexpr int kMaxDim = 256;
constexpr int kOwned = kMaxDim / kLanes;  // elements of a row that a lane owns at most: c, c + 32, ...
constexpr uint32_t kNoBlock = 0xffffffffu;
constexpr uint32_t kAllLanes = 0xffffffffu;

enum { kFull = 1, kSlidingWindow = 2, kStochastic = 3, kUnion = 4, kGated = 5, kMoba = 6 };

// The query that a warp works on.
struct Row {
  int64_t b;
  int h, i;
  int position;
  int length;  // tokens that exist in this batch entry
};

// What a row sees as candidates 0..total-1: tokens [0, sinks), tokens [first, first + band), then `others` entries of a list: slots from
// slot_first on, or the tokens of selected blocks. The last kind needs a test each.
struct Candidates {
  int lowest, last;  // the tokens that causality and length allow
  int sinks;
  int first;
  int band;
  int64_t others;
  int64_t slot_first, slot_count;
  const uint32_t *order;
  const uint32_t *selected;
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

// ---- rows

GPU_DEVICE int token_count(const sattn_general_params &p, const int32_t *lengths, int64_t b) {
  return lengths ? gpu_max(0, gpu_min(gpu_load(lengths + p.lengths + b), p.keys)) : p.keys;
}

// Position of query 0.
GPU_DEVICE int first_position(const sattn_general_params &p, const int32_t *query_start, int64_t b) {
  const int start = p.keys - p.queries;
  return query_start ? gpu_max(0, gpu_min(gpu_load(query_start + p.query_start + b), start)) : start;
}

// Query number `index` of all rows, counted as LSE lies in memory.
GPU_DEVICE Row query_row(const sattn_general_params &p, const int32_t *lengths, const int32_t *query_start, int64_t index) {
  Row row;
  row.i = (int)(index % p.queries);
  row.h = (int)(index / p.queries % p.heads);
  row.b = index / p.queries / p.heads;
  row.length = token_count(p, lengths, row.b);
  row.position = first_position(p, query_start, row.b) + row.i;
  return row;
}

GPU_DEVICE int64_t row_number(const sattn_general_params &p, int64_t b, int64_t h, int64_t i) {
  return (b * p.heads + h) * p.queries + i;
}

GPU_DEVICE int64_t row_offset(const sattn_kernel_tensor &tensor, int64_t b, int64_t token, int64_t head) {
  return tensor.offset + b * tensor.stride_batch + token * tensor.stride_token + head * tensor.stride_head;
}

// ---- which keys, which queries

GPU_DEVICE Candidates no_candidates(int lowest, int last) {
  const Candidates none = {lowest, last, 0, 0, 0, 0, 0, 0, nullptr, nullptr};
  return none;
}

GPU_DEVICE int64_t candidate_count(const Candidates &tokens) {
  return (int64_t)tokens.sinks + tokens.band + tokens.others;
}

GPU_DEVICE void add_positions(Candidates &tokens, int64_t first, int64_t last) {
  first = gpu_max<int64_t>(first, gpu_max(tokens.sinks, tokens.lowest));
  last = gpu_min<int64_t>(last, tokens.last);
  tokens.first = (int)first;
  tokens.band = last >= first ? (int)(last - first + 1) : 0;
}

GPU_DEVICE void add_slots(Candidates &tokens, int64_t slot, int64_t left, int64_t right, int wrap) {
  const int64_t width = left + right + 1;
  if (wrap && width >= tokens.slot_count) {
    tokens.slot_first = 0;
    tokens.others = tokens.slot_count;
  } else if (wrap) {
    tokens.slot_first = slot < left ? slot - left + tokens.slot_count : slot - left;
    tokens.others = width;
  } else {
    const int64_t last = gpu_min<int64_t>(slot + right, tokens.slot_count - 1);
    tokens.slot_first = gpu_max<int64_t>(slot - left, 0);
    tokens.others = last - tokens.slot_first + 1;
  }
}

GPU_DEVICE void add_blocks(Candidates &tokens, const sattn_general_params &p, const uint32_t *selected) {
  int64_t count = 0;
  while (count < p.selected_stride && gpu_load(selected + count) != kNoBlock) ++count;
  tokens.selected = selected;
  tokens.others = count * p.block;
}

// Which bands a branch has: in GATED branch 0 is SA and 1 is SWA; the other modes have everything in branch 0.
GPU_DEVICE bool has_swa(int mode, int branch) {
  return mode == kSlidingWindow || mode == kUnion || (mode == kGated && branch == 1);
}

GPU_DEVICE bool has_sa(int mode, int branch) {
  return mode == kStochastic || mode == kUnion || (mode == kGated && branch == 0);
}

// Enters the order of (b, g) and returns the slot of a token in it.
GPU_DEVICE int64_t open_order(Candidates &tokens, const sattn_general_params &p, int64_t b, int64_t g, int64_t token, int length,
                              const uint32_t *order, const uint32_t *slots) {
  tokens.order = order + p.order.offset + b * p.order.stride_batch + g * p.order.stride_head;
  tokens.slot_count = p.order_length ? p.order_length : length;
  return gpu_load(slots + p.slots.offset + b * p.slots.stride_batch + g * p.slots.stride_head + token);
}

// The keys that a query sees. `selected`: all lists of blocks.
GPU_DEVICE Candidates list_keys(const sattn_general_params &p, const Row &row, int branch, const uint32_t *order, const uint32_t *slots,
                                const uint32_t *selected) {
  const int64_t position = row.position, g = row.h / p.group;
  Candidates keys = no_candidates(0, p.causal ? row.position : row.length - 1);
  keys.sinks = gpu_min(p.sink_tokens, keys.last + 1);
  if (p.mode == kFull) add_positions(keys, 0, keys.last);
  if (has_swa(p.mode, branch)) add_positions(keys, position - p.left_swa, position + p.right_swa);
  if (has_sa(p.mode, branch)) {
    const int64_t slot = open_order(keys, p, row.b, g, position, row.length, order, slots);
    add_slots(keys, slot, p.left_sa, p.right_sa, p.wrap);
  }
  if (p.mode == kMoba) add_blocks(keys, p, selected + p.selected + row_number(p, row.b, row.h, row.i) * p.selected_stride);
  return keys;
}

// The positions of the queries [start, start + queries) that see key `token`. In MoBA they are only those that may: see selects_block.
GPU_DEVICE Candidates list_queries(const sattn_general_params &p, int64_t b, int64_t g, int token, int start, int length, int branch,
                                   const uint32_t *order, const uint32_t *slots) {
  const int lowest = p.causal ? gpu_max(start, token) : start;
  Candidates queries = no_candidates(lowest, gpu_min(start + p.queries, length) - 1);
  if (p.mode == kFull || p.mode == kMoba || token < p.sink_tokens) {
    add_positions(queries, lowest, queries.last);
    return queries;
  }
  if (has_swa(p.mode, branch)) add_positions(queries, (int64_t)token - p.right_swa, (int64_t)token + p.left_swa);
  if (has_sa(p.mode, branch)) {
    const int64_t slot = open_order(queries, p, b, g, token, length, order, slots);
    add_slots(queries, slot, p.right_sa, p.left_sa, p.wrap);
  }
  return queries;
}

// Token of candidate c, or -1 if it is not seen after all or an earlier kind held it already.
GPU_DEVICE int candidate_token(const Candidates &tokens, const sattn_general_params &p, int64_t c) {
  if (c < tokens.sinks) return (int)c;
  c -= tokens.sinks;
  if (c < tokens.band) return tokens.first + (int)c;
  c -= tokens.band;
  if (c >= tokens.others) return -1;
  int64_t token;
  if (tokens.selected) {
    token = (int64_t)gpu_load(tokens.selected + c / p.block) * p.block + c % p.block;
  } else {
    int64_t slot = tokens.slot_first + c;
    if (slot >= tokens.slot_count) slot -= tokens.slot_count;
    token = gpu_load(tokens.order + slot);
  }
  const bool held = token < tokens.sinks || (token >= tokens.first && token < (int64_t)tokens.first + tokens.band);
  return token > tokens.last || token < tokens.lowest || held ? -1 : (int)token;
}

// Whether an ascending list of `places` blocks holds one.
GPU_DEVICE bool selects_block(const uint32_t *selected, int64_t places, uint32_t block) {
  int64_t at = 0;
  while (at < places && gpu_load(selected + at) < block) ++at;
  return at < places && gpu_load(selected + at) == block;
}

// ---- formulas

// <row in shared memory, row of an array>.
template <int dtype>
GPU_DEVICE float dot_row(gpu_shared<float> row, const void *array, int64_t at, int head_dim) {
  float even = 0.0f, odd = 0.0f;
  int c = 0;
  for (; c + 1 < head_dim; c += 2) {
    even = fmaf(row[c], load_element<dtype>(array, at + c), even);
    odd = fmaf(row[c + 1], load_element<dtype>(array, at + c + 1), odd);
  }
  if (c < head_dim) even = fmaf(row[c], load_element<dtype>(array, at + c), even);
  return even + odd;
}

template <int dtype>
GPU_DEVICE float raw_score(gpu_shared<float> row, const void *array, int64_t at, const sattn_general_params &p, int head_dim) {
  return dot_row<dtype>(row, array, at, head_dim) * p.scale;
}

GPU_DEVICE float capped(float raw, const sattn_general_params &p) {
  return p.softcap > 0.0f ? p.softcap * tanhf(raw / p.softcap) : raw;
}

template <int dtype>
GPU_DEVICE float score(gpu_shared<float> row, const void *array, int64_t at, const sattn_general_params &p, int head_dim) {
  return capped(raw_score<dtype>(row, array, at, p, head_dim), p);
}

// The error is only kept while it is finite: an infinite total has none, and infinity minus infinity would turn it into NaN.
GPU_DEVICE void add_compensated(float value, float &total, float &lost) {
  const float corrected = value - lost;
  const float next = total + corrected;
  const float error = (next - total) - corrected;
  lost = fabsf(error) < GPU_INFINITY ? error : 0.0f;
  total = next;
}

GPU_DEVICE float sigmoid(float logit) {
  return 1.0f / (1.0f + expf(-logit));
}

}  // namespace

#endif
