/* The gradient kernels of the family for devices with real local memory: a tile from beginning to end, with the parts of
 * attend_gpu_grad.cl. */

#define LANES_END (HEAD_DIM / 4 * 4)

/* ---- one block of passing rows ---- */

static inline float dot_rows(__local const float *a, __local const float *b) {
  float4 lanes = (float4)(0.0f);
  for (int c = 0; c < LANES_END; c += 4)
    lanes = fma((float4)(a[c], a[c + 1], a[c + 2], a[c + 3]), (float4)(b[c], b[c + 1], b[c + 2], b[c + 3]), lanes);
  float sum = (lanes.s0 + lanes.s1) + (lanes.s2 + lanes.s3);
  for (int c = LANES_END; c < HEAD_DIM; ++c) sum = fma(a[c], b[c], sum);
  return sum;
}

static inline int sees_pair(const sattn_gpu_grad_params *params, const tile_place *place, const tile_memory *memory, int band, int r,
                            int k) {
  const int staying = memory->staying_token[r], staying_slot = memory->staying_slot[r];
  const int passing = memory->passing_token[k], passing_slot = memory->passing_slot[k];
  return place->by_key ? sees(params, band, passing, passing_slot, staying, staying_slot)
                       : sees(params, band, staying, staying_slot, passing, passing_slot);
}

/* P and dS of this item's pairs. */
static inline void weigh_pairs(const sattn_gpu_grad_params *params, const tile_place *place, const tile_memory *memory, int band,
                               const row_state *row) {
  for (int own = 0; own < PAIRS; ++own) {
    const int k = row->c + own * COLUMNS;
    if (k >= BLOCK) continue;
    float probability = HIDDEN, grad_score = 0.0f;
    if (sees_pair(params, place, memory, band, row->r, k)) {
      const float lse = place->by_key ? memory->lse[k] : row->lse, delta = place->by_key ? memory->delta[k] : row->delta;
      float score = params->scale * dot_rows(memory->staying[0] + row->r * STRIDE, memory->passing[0] + k * STRIDE);
      float slope = params->scale;
      if (params->softcap > 0.0f) {
        const float x = score / params->softcap;
        score = params->softcap * tanh(x);
        slope *= slope_of_tanh(x);
      }
      probability = exp(score - lse);
      grad_score = probability * (dot_rows(memory->staying[1] + row->r * STRIDE, memory->passing[1] + k * STRIDE) - delta) * slope;
    }
    memory->probability[row->r * BLOCK + k] = probability;
    memory->grad_score[row->r * BLOCK + k] = grad_score;
  }
}

/* What the block adds to dQ, or to dK and dV, of this item's elements. */
static inline void add_pairs(const tile_place *place, const tile_memory *memory, row_state *row) {
  for (int k = 0; k < BLOCK; ++k) {
    const float probability = memory->probability[row->r * BLOCK + k], grad_score = memory->grad_score[row->r * BLOCK + k];
    if (probability == HIDDEN) continue;
    for (int own = 0; own < OWN_WIDTH; ++own) {
      const int c = row->c + own * COLUMNS;
      if (c >= HEAD_DIM) continue;
      row->grad[0][own] = fma(grad_score, memory->passing[0][k * STRIDE + c], row->grad[0][own]);
      if (place->by_key) row->grad[1][own] = fma(probability, memory->passing[1][k * STRIDE + c], row->grad[1][own]);
    }
  }
}

/* Everything that the staying rows meet, for one head. */
static inline void meet_bands(const sattn_gpu_grad_params *params, const tile_place *place, const tile_memory *memory,
                              const tile_arrays *arrays, row_state *row, int item) {
#pragma unroll 1 /* twice the code would compile for twice the time */
  for (int band = 0; band < 2; ++band) {
    const band_range range = range_of(params, place, band);
    const int by_slot = band == 1 && place->kind == TILE_SLOTS;
    for (long first = range.first; first <= range.last; first += BLOCK) {
      load_ids(params, place, arrays, by_slot, first, range.last, place->other_low, place->other_end, BLOCK, memory->passing_token,
               memory->passing_slot, item);
      barrier(CLK_LOCAL_MEM_FENCE);
      if (place->by_key) {
        load_queries(params, place, arrays, BLOCK, memory->passing_token, memory->passing[0], memory->passing[1], item);
        load_statistics(params, place, arrays, memory, item);
      } else {
        load_keys(params, place, arrays, BLOCK, memory->passing_token, memory->passing[0], memory->passing[1], item);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      weigh_pairs(params, place, memory, band, row);
      barrier(CLK_LOCAL_MEM_FENCE);
      add_pairs(place, memory, row);
      barrier(CLK_LOCAL_MEM_FENCE); /* before the next block overwrites ids, rows and pairs */
    }
  }
}

/* Ids and rows that stay; sums of this item's row at zero. */
static inline void begin_tile(const sattn_gpu_grad_params *params, tile_place *place, const tile_memory *memory, const tile_arrays *arrays,
                              row_state *row, int item) {
  open_tile(params, place);
  const int by_slot = place->kind == TILE_SLOTS;
  const long last = place->kind == TILE_ABSENT ? -1 : by_slot ? place->slot_count - 1 : place->end - 1;
  load_ids(params, place, arrays, by_slot, place->first, last, place->low, place->end, ROWS, memory->staying_token, memory->staying_slot,
           item);
  barrier(CLK_LOCAL_MEM_FENCE);
  place->any = 0;
  for (int r = 0; r < ROWS; ++r) place->any |= memory->staying_token[r] != NO_TOKEN;
  row->r = item / COLUMNS;
  row->c = item % COLUMNS;
  row->token = memory->staying_token[row->r];
  row->lse = row->delta = 0.0f;
  for (int own = 0; own < OWN_WIDTH; ++own) row->grad[0][own] = row->grad[1][own] = 0.0f;
  if (place->by_key) {
    load_keys(params, place, arrays, ROWS, memory->staying_token, memory->staying[0], memory->staying[1], item);
  } else {
    load_queries(params, place, arrays, ROWS, memory->staying_token, memory->staying[0], memory->staying[1], item);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

/* The position of an item's row if no token stands there, but a gradient is to be written; else -1. */
static inline long absent_position(const tile_place *place, int r) {
  const long position = place->first + r;
  const int by_position = place->kind == TILE_POSITIONS || place->kind == TILE_ABSENT;
  return by_position && position >= place->length && position < place->limit ? position : -1;
}

/* ---- dQ ---- */

static inline void store_gate(const sattn_gpu_grad_params *params, const tile_place *place, __global void *grad_gate, float value, long i,
                              int c) {
  const long at = offset_of(&params->grad_gate, place->b, i, place->h) + c;
  if (params->gate_dtype == 1) {
    ((__global float *)grad_gate)[at] = value;
  } else {
    store_element(value, (__global element *)grad_gate, at);
  }
}

/* An item's part of delta. In the order of dot_rows: where a query sees one key, delta must be dP to the bit, and the gradient zero. */
static inline void sum_delta(const sattn_gpu_grad_params *params, const tile_place *place, const tile_memory *memory,
                             const tile_arrays *arrays, const row_state *row) {
  float sum = 0.0f;
  if (row->token != NO_TOKEN && row->c < 4) {
    const long out_at = offset_of(&params->out, place->b, row->token - place->start, place->h);
    __local const float *grad_out = memory->staying[1] + row->r * STRIDE;
    for (int c = row->c; c < LANES_END; c += 4) sum = fma(grad_out[c], load_element(arrays->out, out_at + c), sum);
  }
  memory->part[row->r * COLUMNS + row->c] = sum;
}

/* delta from its parts, and dg = dO Y sigmoid(g) sigmoid(-g), per head summed over the elements; 1 - sigmoid(g) would lose the digits of a
 * large g. */
static inline void take_delta(const sattn_gpu_grad_params *params, const tile_place *place, const tile_memory *memory,
                              const tile_arrays *arrays, row_state *row, __global void *grad_gate) {
  if (row->token == NO_TOKEN) return;
  const long i = row->token - place->start, index = query_row(params, place, i);
  const long out_at = offset_of(&params->out, place->b, i, place->h);
  __local const float *grad_out = memory->staying[1] + row->r * STRIDE, *part = memory->part + row->r * COLUMNS;
  float sum = (part[0] + part[1]) + (part[2] + part[3]);
  for (int c = LANES_END; c < HEAD_DIM; ++c) sum = fma(grad_out[c], load_element(arrays->out, out_at + c), sum);
  row->lse = arrays->lse[params->lse + index];
  row->delta = arrays->grad_lse ? sum - arrays->grad_lse[params->grad_lse + index] : sum;
  if (row->c == 0) arrays->deltas[params->deltas + index] = row->delta;
  if (!(params->flags & FLAG_GATED)) return;
  for (int c = row->c; c < (params->gate_element ? HEAD_DIM : 1); c += COLUMNS) {
    const float product = params->gate_element ? grad_out[c] * load_element(arrays->out, out_at + c) : sum;
    store_gate(params, place, grad_gate, product * sigmoid(-gate_logit(params, place, arrays, i, c)), i, c);
  }
}

static inline void store_query(const sattn_gpu_grad_params *params, const tile_place *place, const row_state *row,
                               __global element *grad_query, __global void *grad_gate, __global float *partial) {
  const long absent = absent_position(place, row->r);
  if (row->token == NO_TOKEN && absent < 0) return;
  const long i = (absent < 0 ? row->token : absent) - place->start;
  for (int own = 0; own < OWN_WIDTH; ++own) {
    const int c = row->c + own * COLUMNS;
    if (c >= HEAD_DIM) continue;
    if (!(params->flags & FLAG_GIVES_PARTIAL)) {
      store_element(row->grad[0][own], grad_query, offset_of(&params->grad_query, place->b, i, place->h) + c);
    } else if (absent < 0) {
      partial[params->partial_query + query_row(params, place, i) * HEAD_DIM + c] = row->grad[0][own];
    }
    if (absent >= 0 && (params->flags & FLAG_GATED) && (params->gate_element || c == 0)) store_gate(params, place, grad_gate, 0.0f, i, c);
  }
}

/* Grid of groups: tile, head, batch entry; every axis is walked in strides, so any grid covers any size. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attend_gpu_grad_query(
    const sattn_gpu_grad_params params, __global const element *query, __global const element *key, __global const element *value,
    __global const element *out, __global const element *grad_out, __global const float *lse, __global const float *grad_lse,
    __global const uint *order, __global const uint *slots, __global const int *lengths, __global const int *query_start,
    __global const void *gate, __global float *deltas, __global float *partial, __global element *grad_query, __global void *grad_gate) {
  __local float staying[2 * ROWS * STRIDE], passing[2 * BLOCK * STRIDE], probability[ROWS * BLOCK], grad_score[ROWS * BLOCK];
  __local float part[ITEMS];
  __local int staying_token[ROWS], staying_slot[ROWS], passing_token[BLOCK], passing_slot[BLOCK];
  const tile_memory memory = {{staying, staying + ROWS * STRIDE},
                              {passing, passing + BLOCK * STRIDE},
                              probability,
                              grad_score,
                              part,
                              0,
                              0,
                              staying_token,
                              staying_slot,
                              passing_token,
                              passing_slot};
  const tile_arrays arrays = {query, key, value, out, grad_out, lse, grad_lse, order, slots, gate, deltas};
  const int item = (int)get_local_id(0);
  tile_place place;
  row_state row;
  place.by_key = 0;
  for (place.b = get_group_id(2); place.b < params.batch; place.b += get_num_groups(2)) {
    open_batch(&params, &place, lengths, query_start);
    for (place.h = get_group_id(1); place.h < params.heads; place.h += get_num_groups(1)) {
      place.g = place.h / params.group;
      for (place.tile = get_group_id(0); place.tile < params.tiles; place.tile += get_num_groups(0)) {
        begin_tile(&params, &place, &memory, &arrays, &row, item);
        sum_delta(&params, &place, &memory, &arrays, &row);
        barrier(CLK_LOCAL_MEM_FENCE);
        take_delta(&params, &place, &memory, &arrays, &row, grad_gate);
        if (row.token != NO_TOKEN && (params.flags & FLAG_TAKES_PARTIAL)) {
          const long at = params.partial_query + query_row(&params, &place, row.token - place.start) * HEAD_DIM;
          for (int own = 0; own < OWN_WIDTH; ++own)
            if (row.c + own * COLUMNS < HEAD_DIM) row.grad[0][own] = partial[at + row.c + own * COLUMNS];
        }
        meet_bands(&params, &place, &memory, &arrays, &row, item);
        store_query(&params, &place, &row, grad_query, grad_gate, partial);
        barrier(CLK_LOCAL_MEM_FENCE); /* before the next tile of this group overwrites ids and rows */
      }
    }
  }
}

/* ---- dK, dV ---- */

static inline void take_partial_keys(const sattn_gpu_grad_params *params, const tile_place *place, row_state *row,
                                     __global const float *partial) {
  if (row->token == NO_TOKEN || !(params->flags & FLAG_TAKES_PARTIAL)) return;
  const long at = key_row(params, place, row->token) * HEAD_DIM;
  for (int own = 0; own < OWN_WIDTH; ++own) {
    const int c = row->c + own * COLUMNS;
    if (c >= HEAD_DIM) continue;
    row->grad[0][own] = partial[params->partial_key + at + c];
    row->grad[1][own] = partial[params->partial_value + at + c];
  }
}

static inline void store_key(const sattn_gpu_grad_params *params, const tile_place *place, const row_state *row, __global element *grad_key,
                             __global element *grad_value, __global float *partial) {
  const long absent = absent_position(place, row->r), token = absent < 0 ? row->token : absent;
  const int gives = params->flags & FLAG_GIVES_PARTIAL;
  if (token == NO_TOKEN || (gives && absent >= 0)) return;
  for (int own = 0; own < OWN_WIDTH; ++own) {
    const int c = row->c + own * COLUMNS;
    if (c >= HEAD_DIM) continue;
    if (gives) {
      const long at = key_row(params, place, token) * HEAD_DIM + c;
      partial[params->partial_key + at] = row->grad[0][own];
      partial[params->partial_value + at] = row->grad[1][own];
    } else {
      store_element(row->grad[0][own], grad_key, offset_of(&params->grad_key, place->b, token, place->g) + c);
      store_element(row->grad[1][own], grad_value, offset_of(&params->grad_value, place->b, token, place->g) + c);
    }
  }
}

/* Grid of groups: tile, key/value head, batch entry, each walked in strides. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attend_gpu_grad_key_value(
    const sattn_gpu_grad_params params, __global const element *query, __global const element *key, __global const element *value,
    __global const element *grad_out, __global const float *lse, __global const uint *order, __global const uint *slots,
    __global const int *lengths, __global const int *query_start, __global const void *gate, __global float *deltas,
    __global float *partial, __global element *grad_key, __global element *grad_value) {
  __local float staying[2 * ROWS * STRIDE], passing[2 * BLOCK * STRIDE], probability[ROWS * BLOCK], grad_score[ROWS * BLOCK];
  __local float passing_lse[BLOCK], passing_delta[BLOCK];
  __local int staying_token[ROWS], staying_slot[ROWS], passing_token[BLOCK], passing_slot[BLOCK];
  const tile_memory memory = {{staying, staying + ROWS * STRIDE},
                              {passing, passing + BLOCK * STRIDE},
                              probability,
                              grad_score,
                              0,
                              passing_lse,
                              passing_delta,
                              staying_token,
                              staying_slot,
                              passing_token,
                              passing_slot};
  const tile_arrays arrays = {query, key, value, 0, grad_out, lse, 0, order, slots, gate, deltas};
  const int item = (int)get_local_id(0);
  tile_place place;
  row_state row;
  place.by_key = 1;
  for (place.b = get_group_id(2); place.b < params.batch; place.b += get_num_groups(2)) {
    open_batch(&params, &place, lengths, query_start);
    for (place.g = get_group_id(1); place.g < params.kv_heads; place.g += get_num_groups(1)) {
      for (place.tile = get_group_id(0); place.tile < params.tiles; place.tile += get_num_groups(0)) {
        begin_tile(&params, &place, &memory, &arrays, &row, item);
        take_partial_keys(&params, &place, &row, partial);
        for (place.h = place.g * params.group; place.h < (place.g + 1) * params.group; ++place.h) {
          meet_bands(&params, &place, &memory, &arrays, &row, item);
        }
        store_key(&params, &place, &row, grad_key, grad_value, partial);
        barrier(CLK_LOCAL_MEM_FENCE); /* before the next tile of this group overwrites ids and rows */
      }
    }
  }
}

/* ---- dsink ---- */

/* d sink logit of a head: - sum over queries and branches of exp(logit - LSE) delta. Empty rows have LSE = -infinity and no delta. One
 * group per head: items sum every ITEMS-th row, then the first item the parts. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attend_gpu_grad_sinks(
    const sattn_sum_sinks_params params, __global const float *lse_0, __global const float *lse_1, __global const float *sink_logits,
    __global const float *deltas, __global float *grad_sink_logits) {
  __local float part[ITEMS];
  const int item = (int)get_local_id(0);
  for (long head = get_group_id(0); head < params.heads; head += get_num_groups(0)) {
    const float logit = sink_logits[params.sink_logits + head];
    float sum = 0.0f;
    for (long b = 0; b < params.batch; ++b) {
      for (long i = item; i < (long)params.queries * params.branches; i += ITEMS) {
        const int second = i >= params.queries;
        const long row = (b * params.heads + head) * params.queries + i - (second ? params.queries : 0);
        const float lse = second ? lse_1[params.lse[1] + row] : lse_0[params.lse[0] + row];
        if (lse != -INFINITY) sum -= exp(logit - lse) * deltas[params.deltas[second] + row];
      }
    }
    part[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
      for (int other = 1; other < ITEMS; ++other) sum += part[other];
      grad_sink_logits[params.grad_sink_logits + head] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* before the next head overwrites the parts */
  }
}
