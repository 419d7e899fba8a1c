/* Gradients for every mode and option, plain and right rather than fast. No atomics: every sum has one work-item and a fixed order.
 *
 *     P_ij   = exp(s_ij - LSE_i)            recomputed; dY = dO, in GATED sigmoid(g) * dO
 *     dP_ij  = <dY_i, V_j>
 *     delta_i = sum_j P_ij dP_ij - dLSE_i
 *     dS_ij  = P_ij (dP_ij - delta_i) slope_ij       slope of the softcap
 *
 *     grad_query      one work-item per (query, head, batch entry):      keys it sees ->  delta, then dQ; dg
 *     grad_key_value  one work-item per (key, kv head, batch entry):     queries that see it, all heads of the group -> dK, dV
 *     grad_sinks      one work-item per head:                            dsink = - sum_i P_sink,i delta_i
 *
 * Q, dO, dQ [B, n_q, H, d], K, V, dK, dV [B, n_k, H_kv, d] with any strides; LSE, dLSE [B, H, n_q]; deltas [branches, B, H, n_q]. Sums are
 * fp32 with compensation. What does not see or is not seen is never read.
 */

/* One sum per element. */
typedef struct row_sum {
  float total[HEAD_DIM], error[HEAD_DIM];
} row_sum;

static inline void clear_sum(row_sum *sum) {
  for (int c = 0; c < HEAD_DIM; ++c) sum->total[c] = sum->error[c] = 0.0f;
}

static inline void add_row(row_sum *sum, float weight, const float *row) {
  for (int c = 0; c < HEAD_DIM; ++c) add_compensated(weight * row[c], &sum->total[c], &sum->error[c]);
}

static inline void store_sum(const row_sum *sum, __global element *array, long at) {
  for (int c = 0; c < HEAD_DIM; ++c) store_element(sum->total[c] - sum->error[c], array, at + c);
}

static inline void load_row(__global const element *array, long at, float *row) {
  for (int c = 0; c < HEAD_DIM; ++c) row[c] = load_element(array, at + c);
}

static inline float dot_rows(const float *a, const float *b) {
  float8 lanes = (float8)(0.0f);
  for (int c = 0; c < WIDE; ++c) lanes += vload8(c, a) * vload8(c, b);
  float sum = sum_of_eight(lanes);
  for (int c = NARROW_FROM; c < HEAD_DIM; ++c) sum += a[c] * b[c];
  return sum;
}

/* d score / d (scale * <q, k>). */
static inline float softcap_slope(float raw, const sattn_general_params *params) {
  return params->softcap > 0.0f ? slope_of_tanh(raw / params->softcap) : 1.0f;
}

/* The arrays of a call; what a mode or call does not have is NULL. Index 0 and 1: branches. */
typedef struct grad_arrays {
  __global const element *query, *key, *value, *grad_out;
  __global const float *lse[2], *grad_lse[2];
  __global const uint *order, *slots, *selected;
  __global const void *gate[2];
} grad_arrays;

static inline int branch_count(const sattn_general_params *params) {
  return params->mode == MODE_GATED ? 2 : 1;
}

static inline long row_number(const sattn_general_params *params, long b, long h, long i) {
  return (b * params->heads + h) * params->queries + i;
}

static inline float row_lse(const sattn_general_grad_params *params, const grad_arrays *arrays, int branch, long row) {
  return arrays->lse[branch][(branch ? params->forward.lse_swa : params->forward.lse_sa) + row];
}

static inline long delta_index(const sattn_general_grad_params *params, int branch, long row) {
  return params->deltas + branch * params->forward.batch * params->forward.heads * params->forward.queries + row;
}

/* dY of a branch: dO, in GATED through the open gate. */
static inline void load_grad_branch(const sattn_general_grad_params *params, const grad_arrays *arrays, int branch, long b, long i, long h,
                                    float *row) {
  load_row(arrays->grad_out, row_offset(&params->grad_out, b, i, h), row);
  if (params->forward.mode != MODE_GATED) return;
  long at = row_offset(branch ? &params->forward.gate_swa : &params->forward.gate_sa, b, i, h);
  int per_element = branch ? params->forward.gate_swa_element : params->forward.gate_sa_element;
  for (int c = 0; c < HEAD_DIM; ++c) {
    row[c] *= sigmoid(gate_logit(arrays->gate[branch], params->forward.gate_dtype, at + (per_element ? c : 0)));
  }
}

/* ---- dQ ---- */

typedef struct query_place {
  long b, h, i, row;
  int position, length;
} query_place;

/* One branch of one query: adds to dQ and returns delta. The keys are walked twice, because delta must be known first. */
static inline float grad_query_branch(const sattn_general_grad_params *params, const grad_arrays *arrays, const query_place *place,
                                      int branch, const float *query, row_sum *grad) {
  const sattn_general_params *forward = &params->forward;
  long g = place->h / forward->group;
  __global const element *head_key = arrays->key + row_offset(&forward->key, place->b, 0, g);
  __global const element *head_value = arrays->value + row_offset(&forward->value, place->b, 0, g);
  float grad_branch[HEAD_DIM], row[HEAD_DIM];
  load_grad_branch(params, arrays, branch, place->b, place->i, place->h, grad_branch);
  candidates keys;
  list_keys(forward, place->b, g, place->position, place->length, branch, arrays->order, arrays->slots,
            arrays->selected + forward->selected + place->row * forward->selected_stride, &keys);
  long total = candidate_count(&keys);
  float lse = row_lse(params, arrays, branch, place->row);
  float delta = 0.0f, error = 0.0f;
  for (int walk = 0; walk < 2; ++walk) {
    for (long c = 0; c < total; ++c) {
      int token = candidate_token(&keys, forward, c);
      if (token < 0) continue;
      const float raw = raw_score(query, head_key, token * forward->key.stride_token, forward);
      float probability = exp(capped(raw, forward) - lse);
      load_row(head_value, token * forward->value.stride_token, row);
      float grad_probability = dot_rows(grad_branch, row);
      if (walk == 0) {
        add_compensated(probability * grad_probability, &delta, &error);
      } else {
        load_row(head_key, token * forward->key.stride_token, row);
        add_row(grad, probability * (grad_probability - delta) * softcap_slope(raw, forward) * forward->scale, row);
      }
    }
    if (walk == 0) {
      delta -= error;
      __global const float *grad_lse = arrays->grad_lse[branch];
      if (grad_lse) delta -= grad_lse[(branch ? params->grad_lse_swa : params->grad_lse_sa) + place->row];
    }
  }
  return delta;
}

static inline void store_gate(float value, __global void *gate, int dtype, long at) {
  if (dtype == 1) {
    ((__global float *)gate)[at] = value;
  } else {
    store_element(value, (__global element *)gate, at);
  }
}

/* dg = dO Y sigmoid(g) sigmoid(-g), per head summed over the elements; 1 - sigmoid(g) would lose the digits of a large g. */
static inline void store_grad_gate(const sattn_general_grad_params *params, const grad_arrays *arrays, const query_place *place, int branch,
                                   __global const element *y, __global void *grad_gate) {
  const sattn_general_params *forward = &params->forward;
  int per_element = branch ? forward->gate_swa_element : forward->gate_sa_element;
  long gate_at = row_offset(branch ? &forward->gate_swa : &forward->gate_sa, place->b, place->i, place->h);
  long target = row_offset(branch ? &params->grad_gate_swa : &params->grad_gate_sa, place->b, place->i, place->h);
  long y_at = (branch ? forward->y_swa : forward->y_sa) + ((place->b * forward->queries + place->i) * forward->heads + place->h) * HEAD_DIM;
  long out_at = row_offset(&params->grad_out, place->b, place->i, place->h);
  float sum = 0.0f;
  for (int c = 0; c < HEAD_DIM; ++c) {
    float part = 0.0f;
    if (place->position < place->length) {
      float logit = gate_logit(arrays->gate[branch], forward->gate_dtype, gate_at + (per_element ? c : 0));
      part = load_element(arrays->grad_out, out_at + c) * load_element(y, y_at + c) * sigmoid(logit) * sigmoid(-logit);
    }
    if (per_element) store_gate(part, grad_gate, forward->gate_dtype, target + c);
    sum += part;
  }
  if (!per_element) store_gate(sum, grad_gate, forward->gate_dtype, target);
}

/* Grid: query, head, batch entry, each walked in strides. */
__kernel void grad_query(const sattn_general_grad_params params, __global const element *query, __global const element *key,
                         __global const element *value, __global const element *grad_out, __global const float *lse_0,
                         __global const float *lse_1, __global const float *grad_lse_0, __global const float *grad_lse_1,
                         __global const uint *order, __global const uint *slots, __global const uint *selected,
                         __global const void *gate_sa, __global const void *gate_swa, __global const int *lengths,
                         __global const int *query_start, __global const element *y_sa, __global const element *y_swa,
                         __global element *grad_query_out, __global void *grad_gate_sa, __global void *grad_gate_swa,
                         __global float *deltas) {
  const grad_arrays arrays = {query, key,   value,    grad_out,           {lse_0, lse_1}, {grad_lse_0, grad_lse_1},
                              order, slots, selected, {gate_sa, gate_swa}};
  const sattn_general_params *forward = &params.forward;
  query_place place;
  for (place.b = get_global_id(2); place.b < forward->batch; place.b += get_global_size(2)) {
    place.length = lengths ? clamp(lengths[forward->lengths + place.b], 0, forward->keys) : forward->keys;
    int start = forward->keys - forward->queries;
    if (query_start) start = clamp(query_start[forward->query_start + place.b], 0, start);
    for (place.h = get_global_id(1); place.h < forward->heads; place.h += get_global_size(1)) {
      for (place.i = get_global_id(0); place.i < forward->queries; place.i += get_global_size(0)) {
        place.position = start + (int)place.i;
        place.row = row_number(forward, place.b, place.h, place.i);
        int exists = place.position < place.length;
        float row_query[HEAD_DIM];
        row_sum grad;
        clear_sum(&grad);
        if (exists) load_row(query, row_offset(&forward->query, place.b, place.i, place.h), row_query);
        for (int branch = 0; branch < branch_count(forward); ++branch) {
          float delta = exists ? grad_query_branch(&params, &arrays, &place, branch, row_query, &grad) : 0.0f;
          deltas[delta_index(&params, branch, place.row)] = delta;
          if (forward->mode != MODE_GATED) continue;
          store_grad_gate(&params, &arrays, &place, branch, branch ? y_swa : y_sa, branch ? grad_gate_swa : grad_gate_sa);
        }
        store_sum(&grad, grad_query_out, row_offset(&params.grad_query, place.b, place.i, place.h));
      }
    }
  }
}

/* ---- dK, dV ---- */

typedef struct key_place {
  long b, g;
  int token, start, length;
} key_place;

/* What the queries of one head add through one branch. */
static inline void add_queries(const sattn_general_grad_params *params, const grad_arrays *arrays, __global const float *deltas,
                               const key_place *place, long h, int branch, const float *key, const float *value, row_sum *grad_key,
                               row_sum *grad_value) {
  const sattn_general_params *forward = &params->forward;
  candidates queries;
  list_queries(forward, place->b, place->g, place->token, place->start, place->length, branch, arrays->order, arrays->slots, &queries);
  long total = candidate_count(&queries);
  __global const element *head_query = arrays->query + row_offset(&forward->query, place->b, 0, h);
  float row[HEAD_DIM], grad_branch[HEAD_DIM];
  for (long c = 0; c < total; ++c) {
    int position = candidate_token(&queries, forward, c);
    if (position < 0) continue;
    long i = position - place->start;
    long number = row_number(forward, place->b, h, i);
    if (forward->mode == MODE_MOBA && place->token >= forward->sink_tokens &&
        !selects_block(arrays->selected + forward->selected + number * forward->selected_stride, forward->selected_stride,
                       (uint)(place->token / forward->block))) {
      continue;
    }
    const float raw = raw_score(key, head_query, i * forward->query.stride_token, forward);
    float probability = exp(capped(raw, forward) - row_lse(params, arrays, branch, number));
    load_grad_branch(params, arrays, branch, place->b, i, h, grad_branch);
    float grad_probability = dot_rows(grad_branch, value);
    float delta = deltas[delta_index(params, branch, number)];
    load_row(head_query, i * forward->query.stride_token, row);
    add_row(grad_key, probability * (grad_probability - delta) * softcap_slope(raw, forward) * forward->scale, row);
    add_row(grad_value, probability, grad_branch);
  }
}

/* Grid: key, key/value head, batch entry, each walked in strides. Every row is written; those that nobody sees, or that do not exist, get
 * exact zeros. */
__kernel void grad_key_value(const sattn_general_grad_params params, __global const element *query, __global const element *key,
                             __global const element *value, __global const element *grad_out, __global const float *lse_0,
                             __global const float *lse_1, __global const uint *order, __global const uint *slots,
                             __global const uint *selected, __global const void *gate_sa, __global const void *gate_swa,
                             __global const int *lengths, __global const int *query_start, __global const float *deltas,
                             __global element *grad_key_out, __global element *grad_value_out) {
  const grad_arrays arrays = {query, key, value, grad_out, {lse_0, lse_1}, {0, 0}, order, slots, selected, {gate_sa, gate_swa}};
  const sattn_general_params *forward = &params.forward;
  key_place place;
  for (place.b = get_global_id(2); place.b < forward->batch; place.b += get_global_size(2)) {
    place.length = lengths ? clamp(lengths[forward->lengths + place.b], 0, forward->keys) : forward->keys;
    place.start = forward->keys - forward->queries;
    if (query_start) place.start = clamp(query_start[forward->query_start + place.b], 0, place.start);
    for (place.g = get_global_id(1); place.g < forward->kv_heads; place.g += get_global_size(1)) {
      for (long j = get_global_id(0); j < forward->keys; j += get_global_size(0)) {
        place.token = (int)j;
        row_sum grad_key, grad_value;
        clear_sum(&grad_key);
        clear_sum(&grad_value);
        if (place.token < place.length && forward->queries > 0) {
          float row_key[HEAD_DIM], row_value[HEAD_DIM];
          load_row(key, row_offset(&forward->key, place.b, j, place.g), row_key);
          load_row(value, row_offset(&forward->value, place.b, j, place.g), row_value);
          for (long h = place.g * forward->group; h < (place.g + 1) * forward->group; ++h) {
            for (int branch = 0; branch < branch_count(forward); ++branch) {
              add_queries(&params, &arrays, deltas, &place, h, branch, row_key, row_value, &grad_key, &grad_value);
            }
          }
        }
        store_sum(&grad_key, grad_key_out, row_offset(&params.grad_key, place.b, j, place.g));
        store_sum(&grad_value, grad_value_out, row_offset(&params.grad_value, place.b, j, place.g));
      }
    }
  }
}

/* ---- dsink ---- */

/* Grid: head. Empty rows have LSE = -infinity and are passed over. */
__kernel void grad_sinks(const sattn_general_grad_params params, __global const float *lse_0, __global const float *lse_1,
                         __global const float *sink_logits, __global const float *deltas, __global float *grad_sink_logits) {
  const sattn_general_params *forward = &params.forward;
  for (long h = get_global_id(0); h < forward->heads; h += get_global_size(0)) {
    float sum = 0.0f, error = 0.0f;
    float logit = sink_logits[forward->sink_logits + h];
    for (long b = 0; b < forward->batch; ++b) {
      for (long i = 0; i < forward->queries; ++i) {
        long row = row_number(forward, b, h, i);
        for (int branch = 0; branch < branch_count(forward); ++branch) {
          float lse = branch ? lse_1[forward->lse_swa + row] : lse_0[forward->lse_sa + row];
          if (lse == -INFINITY) continue;
          add_compensated(-exp(logit - lse) * deltas[delta_index(&params, branch, row)], &sum, &error);
        }
      }
    }
    grad_sink_logits[params.grad_sink_logits + h] = sum - error;
  }
}
