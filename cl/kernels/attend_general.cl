/* Attention for every mode and option, plain and right rather than fast: one work-item per (query, head, batch entry).
 *
 *     query i ----> list of visible keys, 32 at a time            sinks | band of positions | band of slots | selected blocks
 *                     scores  s = scale * <q, k>, softcap         fp32, eight lanes
 *                     p = exp(s - max)
 *                     sum of the 32 p, sum of the 32 p * V        then added to the row's totals with compensation
 *
 * Q, O  [B, n_q, H, d] and K, V [B, n_k, H_kv, d] with any strides; LSE [B, H, n_q]; order, slots: see slots.cl.
 * Specialised by HEAD_DIM and DTYPE only; all else is a parameter that is the same for all work-items.
 *
 * Sums over many keys: `max` is only replaced when a block exceeds it by more than 8 (exp(8) is far from overflow), so totals are rarely
 * rescaled, and blocks are added with Kahan's compensation; the error does not grow with the number of keys.
 * A key row that the query does not see is never read, so a NaN there cannot reach the result.
 */
#define KEYS_AT_ONCE 32
#define MAX_SLACK    8.0f

/* Totals of one row. */
typedef struct row_totals {
  float accumulated[HEAD_DIM], accumulated_error[HEAD_DIM];
  float sum, sum_error;
  float max;
} row_totals;

/* ---- one block of keys ---- */

/* Raises the reference maximum when a block needs it. */
static inline void raise_max(row_totals *row, float block_max) {
  if (!(block_max > row->max + MAX_SLACK)) return;
  float shrink = exp(row->max - block_max); /* 0 for the first block, whose totals are 0 */
  for (int c = 0; c < HEAD_DIM; ++c) {
    row->accumulated[c] *= shrink;
    row->accumulated_error[c] *= shrink;
  }
  row->sum *= shrink;
  row->sum_error *= shrink;
  row->max = block_max;
}

static inline void add_block(row_totals *row, const float *query, const int *tokens, int count, __global const element *key,
                             __global const element *value, const sattn_general_params *params) {
  float weight[KEYS_AT_ONCE];
  float block_max = -INFINITY;
  for (int k = 0; k < count; ++k) {
    weight[k] = score(query, key, tokens[k] * params->key.stride_token, params);
    block_max = fmax(block_max, weight[k]);
  }
  raise_max(row, block_max);
  float reference = row->max == -INFINITY ? 0.0f : row->max; /* infinity minus infinity would be NaN */
  float sum = 0.0f;
  for (int k = 0; k < count; ++k) {
    weight[k] = exp(weight[k] - reference);
    sum += weight[k];
  }
  add_compensated(sum, &row->sum, &row->sum_error);
  for (int c = 0; c < WIDE; ++c) {
    float8 lanes = (float8)(0.0f);
    for (int k = 0; k < count; ++k) lanes += weight[k] * load_eight(value, tokens[k] * params->value.stride_token + 8 * c);
    float8 total = vload8(c, row->accumulated), corrected = lanes - vload8(c, row->accumulated_error);
    float8 next = total + corrected, lost = (next - total) - corrected;
    vstore8(select((float8)(0.0f), lost, isfinite(lost)), c, row->accumulated_error);
    vstore8(next, c, row->accumulated);
  }
  for (int c = NARROW_FROM; c < HEAD_DIM; ++c) {
    float lane = 0.0f;
    for (int k = 0; k < count; ++k) lane += weight[k] * load_element(value, tokens[k] * params->value.stride_token + c);
    add_compensated(lane, &row->accumulated[c], &row->accumulated_error[c]);
  }
}

/* ---- one row ---- */

/* Attends to all candidates; `accumulated` becomes the finished output row. Returns the LSE. */
static inline float attend_row(row_totals *row, const float *query, const candidates *keys, __global const element *key,
                               __global const element *value, float sink_logit, const sattn_general_params *params) {
  for (int c = 0; c < HEAD_DIM; ++c) row->accumulated[c] = row->accumulated_error[c] = 0.0f;
  row->sum = row->sum_error = 0.0f;
  row->max = -INFINITY;
  int tokens[KEYS_AT_ONCE];
  int count = 0;
  long total = candidate_count(keys);
  for (long c = 0; c < total; ++c) {
    int token = candidate_token(keys, params, c);
    if (token >= 0) tokens[count++] = token;
    if (count == KEYS_AT_ONCE || (count > 0 && c == total - 1)) {
      add_block(row, query, tokens, count, key, value, params);
      count = 0;
    }
  }
  float sum = row->sum - row->sum_error, max_all = row->max, shrink = 1.0f;
  if (sink_logit > -INFINITY) {
    max_all = fmax(row->max, sink_logit);
    shrink = row->max == max_all ? 1.0f : exp(row->max - max_all);
    sum = sum * shrink + (sink_logit == max_all ? 1.0f : exp(sink_logit - max_all));
  }
  for (int c = 0; c < HEAD_DIM; ++c) row->accumulated[c] = (row->accumulated[c] - row->accumulated_error[c]) * shrink / sum;
  return max_all + log(sum);
}

/* ---- one query ---- */

/* The arrays of a call; what a mode or call does not have is NULL. */
typedef struct call_arrays {
  __global const element *query, *key, *value;
  __global element *out, *y_sa, *y_swa;
  __global float *lse, *lse_sa, *lse_swa;
  __global const uint *order, *slots, *selected;
  __global const void *gate_sa, *gate_swa;
} call_arrays;

typedef struct query_place {
  long b;
  int h, i;
  int position; /* of the query */
  int length;   /* tokens that exist in this batch entry */
  float sink_logit;
} query_place;

static inline long row_index(const sattn_general_params *params, const query_place *place) {
  return (place->b * params->heads + place->h) * params->queries + place->i;
}

static inline void store_row(const float *row, __global element *array, long at) {
  for (int c = 0; c < HEAD_DIM; ++c) store_element(row[c], array, at + c);
}

/* A query beyond the length of its batch entry: O = 0, LSE = -infinity, with sink logits or without. */
static inline void store_empty(const sattn_general_params *params, const call_arrays *arrays, const query_place *place) {
  long row = row_index(params, place);
  long out_at = row_offset(&params->out, place->b, place->i, place->h);
  long saved_at = ((place->b * params->queries + place->i) * params->heads + place->h) * HEAD_DIM;
  if (arrays->lse) arrays->lse[params->lse + row] = -INFINITY;
  if (arrays->lse_sa) arrays->lse_sa[params->lse_sa + row] = -INFINITY;
  if (arrays->lse_swa) arrays->lse_swa[params->lse_swa + row] = -INFINITY;
  for (int c = 0; c < HEAD_DIM; ++c) {
    store_element(0.0f, arrays->out, out_at + c);
    if (arrays->y_sa) store_element(0.0f, arrays->y_sa, params->y_sa + saved_at + c);
    if (arrays->y_swa) store_element(0.0f, arrays->y_swa, params->y_swa + saved_at + c);
  }
}

/* Keeps a branch of GATED for backward where asked, and adds its gated row to the mix. */
static inline void mix_branch(const sattn_general_params *params, const call_arrays *arrays, const query_place *place, int branch,
                              const float *row, float *mixed) {
  __global element *saved = branch ? arrays->y_swa : arrays->y_sa;
  __global const void *gate = branch ? arrays->gate_swa : arrays->gate_sa;
  int per_element = branch ? params->gate_swa_element : params->gate_sa_element;
  long gate_at = row_offset(branch ? &params->gate_swa : &params->gate_sa, place->b, place->i, place->h);
  long saved_at = ((place->b * params->queries + place->i) * params->heads + place->h) * HEAD_DIM;
  if (saved) store_row(row, saved, (branch ? params->y_swa : params->y_sa) + saved_at);
  for (int c = 0; c < HEAD_DIM; ++c) {
    mixed[c] += sigmoid(gate_logit(gate, params->gate_dtype, gate_at + (per_element ? c : 0))) * row[c];
  }
}

static inline void attend_query(const sattn_general_params *params, const call_arrays *arrays, const query_place *place) {
  float query[HEAD_DIM], mixed[HEAD_DIM];
  int gated = params->mode == MODE_GATED;
  long g = place->h / params->group;
  long query_at = row_offset(&params->query, place->b, place->i, place->h);
  for (int c = 0; c < HEAD_DIM; ++c) {
    query[c] = load_element(arrays->query, query_at + c);
    mixed[c] = 0.0f;
  }
  row_totals row;
  for (int branch = 0; branch <= gated; ++branch) {
    candidates keys;
    list_keys(params, place->b, g, place->position, place->length, branch, arrays->order, arrays->slots,
              arrays->selected + params->selected + row_index(params, place) * params->selected_stride, &keys);
    float row_lse = attend_row(&row, query, &keys, arrays->key + row_offset(&params->key, place->b, 0, g),
                               arrays->value + row_offset(&params->value, place->b, 0, g), place->sink_logit, params);
    __global float *lse = !gated ? arrays->lse : branch ? arrays->lse_swa : arrays->lse_sa;
    long lse_at = !gated ? params->lse : branch ? params->lse_swa : params->lse_sa;
    if (lse) lse[lse_at + row_index(params, place)] = row_lse;
    if (gated) mix_branch(params, arrays, place, branch, row.accumulated, mixed);
  }
  store_row(gated ? mixed : row.accumulated, arrays->out, row_offset(&params->out, place->b, place->i, place->h));
}

/* Grid: query, head, batch entry; every axis is walked in strides, so any grid covers any size. */
__kernel void attend_general(const sattn_general_params params, __global const element *query, __global const element *key,
                             __global const element *value, __global element *out, __global float *lse, __global float *lse_sa,
                             __global float *lse_swa, __global element *y_sa, __global element *y_swa, __global const uint *order,
                             __global const uint *slots, __global const int *lengths, __global const int *query_start,
                             __global const float *sink_logits, __global const void *gate_sa, __global const void *gate_swa,
                             __global const uint *selected) {
  const call_arrays arrays = {query, key, value, out, y_sa, y_swa, lse, lse_sa, lse_swa, order, slots, selected, gate_sa, gate_swa};
  query_place place;
  for (place.b = get_global_id(2); place.b < params.batch; place.b += get_global_size(2)) {
    place.length = lengths ? clamp(lengths[params.lengths + place.b], 0, params.keys) : params.keys;
    int start = params.keys - params.queries;
    if (query_start) start = clamp(query_start[params.query_start + place.b], 0, start);
    for (long h = get_global_id(1); h < params.heads; h += get_global_size(1)) {
      place.h = (int)h;
      place.sink_logit = sink_logits ? sink_logits[params.sink_logits + h] : -INFINITY;
      for (long i = get_global_id(0); i < params.queries; i += get_global_size(0)) {
        place.i = (int)i;
        place.position = start + place.i;
        if (place.position >= place.length) {
          store_empty(&params, &arrays, &place);
        } else {
          attend_query(&params, &arrays, &place);
        }
      }
    }
  }
}
