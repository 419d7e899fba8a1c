/* The kernel of the family for devices with real local memory: a tile from beginning to end, with the parts of attend_gpu.cl. */

typedef struct tile_arrays {
  __global element *out, *y_sa, *y_swa;
  __global float *lse, *lse_sa, *lse_swa, *partial, *partial_lse;
  __global const void *gate_sa, *gate_swa;
} tile_arrays;

static inline long lse_row(const sattn_general_params *params, const tile_place *place, long i) {
  return (place->b * params->heads + place->h) * params->queries + i;
}

/* A row starts empty, or from the first pass of UNION. */
static inline void begin_row(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place,
                             const tile_memory *memory, const tile_arrays *arrays, row_state *row) {
  int token = memory->row_token[row->r];
  row->max = -INFINITY;
  row->sum = 0.0f;
  for (int own = 0; own < OWN_WIDTH; ++own) row->out[own] = 0.0f;
  if (token == NO_TOKEN || !(pass->flags & FLAG_TAKES_PARTIAL)) return;
  long index = lse_row(params, place, token - place->start);
  row->max = arrays->partial_lse[pass->partial_lse + index];
  row->sum = row->max == -INFINITY ? 0.0f : 1.0f;
  for (int own = 0; own < OWN_WIDTH; ++own) {
    int c = row->c + own * COLUMNS;
    if (c < HEAD_DIM) row->out[own] = arrays->partial[pass->partial + index * HEAD_DIM + c];
  }
}

/* Divides by the sum, the sink logit's part included. Returns the LSE. */
static inline float normalise(const sattn_gpu_pass *pass, float sink_logit, row_state *row) {
  float largest = row->max, shrink = 1.0f, sum = row->sum;
  if ((pass->flags & FLAG_SINK_LOGITS) && sink_logit > -INFINITY) {
    largest = fmax(row->max, sink_logit);
    shrink = row->max == largest ? 1.0f : exp(row->max - largest);
    sum = sum * shrink + (sink_logit == largest ? 1.0f : exp(sink_logit - largest));
  }
  if (sum == 0.0f) return -INFINITY; /* a first pass that sees nothing: the row stays zero */
  for (int own = 0; own < OWN_WIDTH; ++own) row->out[own] *= shrink / sum;
  return largest + log(sum);
}

static inline float gate_at(const sattn_general_params *params, const tile_place *place, const tile_arrays *arrays, int branch, long i,
                            int c) {
  const sattn_kernel_tensor *tensor = branch ? &params->gate_swa : &params->gate_sa;
  __global const void *gate = branch ? arrays->gate_swa : arrays->gate_sa;
  int per_element = branch ? params->gate_swa_element : params->gate_sa_element;
  long at = offset_of(tensor, place->b, i, place->h) + (per_element ? c : 0);
  return sigmoid(params->gate_dtype == 1 ? ((__global const float *)gate)[at] : load_element((__global const element *)gate, at));
}

/* Writes one row: to the partial result, to what backward will want, and to the output. */
static inline void store_row(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place,
                             const tile_arrays *arrays, const row_state *row, long i, float row_lse) {
  int gated = pass->flags & FLAG_GATED, second = !(pass->flags & FLAG_GIVES_PARTIAL);
  long index = lse_row(params, place, i);
  __global element *saved = !gated ? 0 : second ? arrays->y_swa : arrays->y_sa;
  long saved_at = (second ? params->y_swa : params->y_sa) + ((place->b * params->queries + i) * params->heads + place->h) * HEAD_DIM;
  for (int own = 0; own < OWN_WIDTH; ++own) {
    int c = row->c + own * COLUMNS;
    if (c >= HEAD_DIM) continue;
    float value = row->out[own];
    if (saved) store_element(value, saved, saved_at + c);
    if (!second) {
      arrays->partial[pass->partial + index * HEAD_DIM + c] = value;
      continue;
    }
    if (gated) {
      value = gate_at(params, place, arrays, 0, i, c) * arrays->partial[pass->partial + index * HEAD_DIM + c] +
              gate_at(params, place, arrays, 1, i, c) * value;
    }
    store_element(value, arrays->out, offset_of(&params->out, place->b, i, place->h) + c);
  }
  if (row->c != 0) return;
  if (!second) arrays->partial_lse[pass->partial_lse + index] = row_lse;
  __global float *lse = gated ? (second ? arrays->lse_swa : arrays->lse_sa) : second ? arrays->lse : 0;
  long lse_at = gated ? (second ? params->lse_swa : params->lse_sa) : params->lse;
  if (lse) lse[lse_at + index] = row_lse;
}

/* A query beyond the length: everything that any pass would have written for it is empty. */
static inline void store_empty(const sattn_general_params *params, const tile_place *place, const tile_arrays *arrays, long i, int column) {
  long index = lse_row(params, place, i);
  long out_at = offset_of(&params->out, place->b, i, place->h);
  long saved_at = ((place->b * params->queries + i) * params->heads + place->h) * HEAD_DIM;
  for (int c = column; c < HEAD_DIM; c += COLUMNS) {
    store_element(0.0f, arrays->out, out_at + c);
    if (arrays->y_sa) store_element(0.0f, arrays->y_sa, params->y_sa + saved_at + c);
    if (arrays->y_swa) store_element(0.0f, arrays->y_swa, params->y_swa + saved_at + c);
  }
  if (column != 0) return;
  if (arrays->lse) arrays->lse[params->lse + index] = -INFINITY;
  if (arrays->lse_sa) arrays->lse_sa[params->lse_sa + index] = -INFINITY;
  if (arrays->lse_swa) arrays->lse_swa[params->lse_swa + index] = -INFINITY;
}

/* The query at row r of the tile if it is empty, else -1. By slot, such queries have tiles of their own behind those of the slots. */
static inline long empty_query(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place, int r) {
  if (pass->flags & FLAG_GIVES_PARTIAL) return -1; /* the second pass goes by position and sees them all */
  long tile = pass->flags & FLAG_BY_SLOT ? place->tile - pass->slot_tiles : place->tile;
  long i = tile * ROWS + r;
  return tile >= 0 && i < params->queries && place->start + i >= place->length ? i : -1;
}

static inline void attend_bands(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place,
                                const tile_memory *memory, __global const element *key, __global const element *value,
                                __global const uint *order, __global const uint *slots, row_state *row, int item) {
  for (int band = 0; band < 2; ++band) {
    band_range range = range_of(params, pass, place, band);
    for (long first = range.first; first <= range.last; first += KEYS) {
      float score[OWN_KEYS];
      uint visible;
      load_key_ids(params, pass, place, memory, band, first, range.last, order, slots, item);
      barrier(CLK_LOCAL_MEM_FENCE);
      load_rows(&params->key, place, memory, key, item);
      barrier(CLK_LOCAL_MEM_FENCE);
      compute_scores(params, pass, memory, band, row, score, &visible);
      barrier(CLK_LOCAL_MEM_FENCE); /* the key rows are read, the maxima written */
      float sum = weigh(memory, row, score, visible);
      load_rows(&params->value, place, memory, value, item);
      barrier(CLK_LOCAL_MEM_FENCE); /* the maxima are read */
      memory->part[row->r * COLUMNS + row->c] = sum;
      barrier(CLK_LOCAL_MEM_FENCE);
      add_values(memory, row);
      barrier(CLK_LOCAL_MEM_FENCE); /* before the next block overwrites ids, rows, weights and sums */
    }
  }
}

static inline void attend_tile(const sattn_general_params *params, const sattn_gpu_pass *pass, tile_place *place, const tile_memory *memory,
                               __global const element *query, __global const element *key, __global const element *value,
                               __global const uint *order, __global const uint *slots, __global const float *sink_logits,
                               const tile_arrays *arrays, int item) {
  row_state row;
  row.r = item / COLUMNS;
  row.c = item % COLUMNS;
  load_row_ids(params, pass, place, memory, order, slots, item);
  barrier(CLK_LOCAL_MEM_FENCE);
  place->any = 0;
  for (int r = 0; r < ROWS; ++r) place->any |= memory->row_token[r] != NO_TOKEN;
  load_queries(params, place, memory, query, item);
  begin_row(params, pass, place, memory, arrays, &row);
  attend_bands(params, pass, place, memory, key, value, order, slots, &row, item);
  int token = memory->row_token[row.r];
  long empty = empty_query(params, pass, place, row.r);
  if (token != NO_TOKEN) {
    float row_lse = normalise(pass, sink_logits ? sink_logits[params->sink_logits + place->h] : -INFINITY, &row);
    store_row(params, pass, place, arrays, &row, token - place->start, row_lse);
  } else if (empty >= 0) {
    store_empty(params, place, arrays, empty, row.c);
  }
  barrier(CLK_LOCAL_MEM_FENCE); /* before the next tile of this group overwrites the row ids */
}

/* Grid of groups: tile, head, batch entry; every axis is walked in strides, so any grid covers any size. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void attend_gpu(
    const sattn_general_params params, const sattn_gpu_pass pass, __global const element *query, __global const element *key,
    __global const element *value, __global element *out, __global float *lse, __global float *lse_sa, __global float *lse_swa,
    __global element *y_sa, __global element *y_swa, __global const uint *order, __global const uint *slots, __global const int *lengths,
    __global const int *query_start, __global const float *sink_logits, __global const void *gate_sa, __global const void *gate_swa,
    __global float *partial, __global float *partial_lse) {
  __local float query_memory[ROWS * HEAD_DIM], row_memory[KEYS * HEAD_DIM], weight_memory[ROWS * KEYS], part_memory[ROWS * COLUMNS];
  __local int row_token[ROWS], row_slot[ROWS], key_token[KEYS], key_slot[KEYS];
  const tile_memory memory = {query_memory, row_memory, weight_memory, part_memory, row_token, row_slot, key_token, key_slot};
  const tile_arrays arrays = {out, y_sa, y_swa, lse, lse_sa, lse_swa, partial, partial_lse, gate_sa, gate_swa};
  int item = (int)get_local_id(0);
  tile_place place;
  for (place.b = get_group_id(2); place.b < params.batch; place.b += get_num_groups(2)) {
    place.length = lengths ? clamp(lengths[params.lengths + place.b], 0, params.keys) : params.keys;
    place.start = params.keys - params.queries;
    if (query_start) place.start = clamp(query_start[params.query_start + place.b], 0, place.start);
    place.slot_count = params.order_length ? params.order_length : place.length;
    for (place.h = get_group_id(1); place.h < params.heads; place.h += get_num_groups(1)) {
      place.g = place.h / params.group;
      for (place.tile = get_group_id(0); place.tile < pass.tiles; place.tile += get_num_groups(0)) {
        attend_tile(&params, &pass, &place, &memory, query, key, value, order, slots, sink_logits, &arrays, item);
      }
    }
  }
}
