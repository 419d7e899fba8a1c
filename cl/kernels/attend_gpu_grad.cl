/* Gradients for devices with real local memory: ROWS rows of one side stay with a work-group, rows of the other side pass in blocks.
 *
 *     attend_gpu_grad_query      queries stay, the keys that they see pass                                    -> dQ, delta, dg
 *     attend_gpu_grad_key_value  keys stay, the queries that see them pass, one head of the group at a time   -> dK, dV
 *
 *     P_ij = exp(s_ij - LSE_i)      dP_ij = <dY_i, V_j>      delta_i = <dY_i, Y_i> - dLSE_i      dS_ij = P_ij (dP_ij - delta_i) slope_ij
 *     dQ_i = sum_j dS_ij K_j        dK_j = sum_i dS_ij Q_i   dV_j = sum_i P_ij dY_i
 *
 * Y is O, in GATED the saved branch; dY is dO, in GATED sigmoid(g) dO. A query row is the pair (Q, dY), a key row the pair (K, V): the
 * product of the first ones is the score, that of the second ones dP, whichever side stays. So both kernels are one tile:
 *
 *                     BLOCK passing rows
 *                  +-----------------------------+
 *     ROWS         | item (r, c) has P and dS of |   P, dS [ROWS][BLOCK] go through local memory, then the sums of row r,
 *     staying rows | row r with passing rows     |   elements c, c + COLUMNS, ...: dQ, or dK and dV, in registers
 *                  | c, c + COLUMNS, ...         |
 *                  +-----------------------------+
 *
 *     staying keys, by slot  [first .. last]     passing queries  [first - right .. last + left]: the band seen from the key
 *
 * Q, O, dO, dQ [B, n_q, H, d] and K, V, dK, dV [B, n_k, H_kv, d] with any strides; LSE, dLSE [B, H, n_q]; gate logits [B, n_q, H, 1 or d];
 * order, slots: see slots.cl. In the workspace, fp32: delta [B, H, n_q]; what a first pass leaves for the second (UNION, GATED): dQ [B, H,
 * n_q, d], dK and dV [B, H_kv, n_k, d].
 *
 * Tiles: of sink tokens (keys stay; every query passes), then of slots or positions, then, by slot, of positions that do not exist, whose
 * gradients are zeros. Each row has one tile that writes it. Every sum has one item and a fixed order.
 *
 * Rules that keep barriers safe everywhere: every loop around a barrier has the same trip count for all items of a group, and nothing
 * returns early. A pair that does not see has P = HIDDEN, not zero, so that a NaN in a row is never multiplied.
 */
#ifndef ROWS
#define ROWS 32 /* rows that stay */
#endif
#ifndef BLOCK
#define BLOCK 16 /* rows that pass at once */
#endif
#ifndef ITEMS
#define ITEMS 128 /* of a work-group; a multiple of ROWS */
#endif
#define COLUMNS             (ITEMS / ROWS)                       /* items that share a row */
#define PAIRS               ((BLOCK + COLUMNS - 1) / COLUMNS)    /* pairs that an item computes of a block */
#define OWN_WIDTH           ((HEAD_DIM + COLUMNS - 1) / COLUMNS) /* elements of a row that an item sums */
#define STRIDE              (HEAD_DIM | 1)                       /* odd: rows one below the other begin in different banks */
#define HIDDEN              (-1.0f)
#define NO_TOKEN            (-1)

#define FLAG_BY_SLOT        1  /* the band is one of slots; else of positions */
#define FLAG_SINKS          2  /* the sink tokens are attended to in this pass */
#define FLAG_TAKES_PARTIAL  4  /* second pass: sums start from what the first one left */
#define FLAG_GIVES_PARTIAL  8  /* first pass of UNION or GATED */
#define FLAG_EXCLUDES_SLOTS 16 /* UNION, second pass: keys of the SA band were counted in the first */
#define FLAG_GATED          32 /* the pass is a branch behind a gate */

#define TILE_SLOTS          0
#define TILE_POSITIONS      1
#define TILE_SINKS          2
#define TILE_ABSENT         3 /* by slot: positions at and beyond the length */

typedef struct tile_memory {
  __local float *staying[2];                 /* [ROWS][STRIDE]: Q and dY, or K and V */
  __local float *passing[2];                 /* [BLOCK][STRIDE]: the other pair */
  __local float *probability, *grad_score;   /* [ROWS][BLOCK] */
  __local float *part;                       /* [ROWS][COLUMNS] parts of delta */
  __local float *lse, *delta;                /* [BLOCK] of passing queries */
  __local int *staying_token, *staying_slot; /* [ROWS] */
  __local int *passing_token, *passing_slot; /* [BLOCK] */
} tile_memory;

typedef struct tile_arrays {
  __global const element *query, *key, *value, *out, *grad_out;
  __global const float *lse, *grad_lse;
  __global const uint *order, *slots;
  __global const void *gate;
  __global float *deltas;
} tile_arrays;

/* What a group works on; the same for all items. */
typedef struct tile_place {
  int by_key; /* keys stay */
  long b, h, g;
  long tile;
  int start, length; /* position of the first query; tokens that exist */
  long slot_count;
  int kind;
  long first;                /* slot or position of the first staying row */
  long low, end;             /* tokens that stay; others have no row here */
  long other_low, other_end; /* tokens that may pass */
  long limit;                /* positions below it have a row in what is written */
  int any;                   /* a row of the tile has a token */
} tile_place;

/* One item's part of its staying row. */
typedef struct row_state {
  int r, c, token;
  float lse, delta; /* of a staying query */
  float grad[2][OWN_WIDTH];
} row_state;

typedef struct band_range {
  long first, last; /* slots or positions, inclusive; last < first: none */
} band_range;

static inline long offset_of(const sattn_kernel_tensor *tensor, long b, long token, long head) {
  return tensor->offset + b * tensor->stride_batch + token * tensor->stride_token + head * tensor->stride_head;
}

static inline long query_row(const sattn_gpu_grad_params *params, const tile_place *place, long i) {
  return (place->b * params->heads + place->h) * params->queries + i;
}

static inline long key_row(const sattn_gpu_grad_params *params, const tile_place *place, long token) {
  return (place->b * params->kv_heads + place->g) * params->keys + token;
}

static inline float sigmoid(float logit) {
  return 1.0f / (1.0f + exp(-logit));
}

static inline float gate_logit(const sattn_gpu_grad_params *params, const tile_place *place, const tile_arrays *arrays, long i, int c) {
  long at = offset_of(&params->gate, place->b, i, place->h) + (params->gate_element ? c : 0);
  return params->gate_dtype == 1 ? ((__global const float *)arrays->gate)[at] : load_element((__global const element *)arrays->gate, at);
}

/* ---- where ---- */

static inline void open_batch(const sattn_gpu_grad_params *params, tile_place *place, __global const int *lengths,
                              __global const int *query_start) {
  place->length = lengths ? clamp(lengths[params->lengths + place->b], 0, params->keys) : params->keys;
  place->start = params->keys - params->queries;
  if (query_start) place->start = clamp(query_start[params->query_start + place->b], 0, place->start);
  place->slot_count = params->order_length ? params->order_length : place->length;
}

/* From the number of the tile to its rows. */
static inline void open_tile(const sattn_gpu_grad_params *params, tile_place *place) {
  const long queries_end = min((long)place->start + params->queries, (long)place->length);
  long tile = place->tile - params->sink_tiles;
  if (tile < 0) {
    place->kind = TILE_SINKS;
    tile = place->tile;
  } else if (!(params->flags & FLAG_BY_SLOT)) {
    place->kind = TILE_POSITIONS;
  } else if (tile < params->slot_tiles) {
    place->kind = TILE_SLOTS;
  } else {
    place->kind = TILE_ABSENT;
    tile -= params->slot_tiles;
  }
  place->first = tile * ROWS;
  if (place->by_key) {
    place->low = place->kind != TILE_SINKS && (params->flags & FLAG_SINKS) ? params->sink_tokens : 0;
    place->end = place->kind == TILE_SINKS ? min(params->sink_tokens, place->length) : place->length;
    place->other_low = place->start;
    place->other_end = queries_end;
    place->limit = params->keys;
  } else {
    if (place->kind != TILE_SLOTS) place->first += place->start;
    place->low = place->start;
    place->end = queries_end;
    place->other_low = 0;
    place->other_end = place->length;
    place->limit = (long)place->start + params->queries;
  }
}

/* Token and slot of `count` rows from slot or position `first` to `last`; what is not within [low, end) has no token. */
static inline void load_ids(const sattn_gpu_grad_params *params, const tile_place *place, const tile_arrays *arrays, int by_slot,
                            long first, long last, long low, long end, int count, __local int *tokens, __local int *slots, int item) {
  const long order_at = params->order.offset + place->b * params->order.stride_batch + place->g * params->order.stride_head;
  const long slots_at = params->slots.offset + place->b * params->slots.stride_batch + place->g * params->slots.stride_head;
  for (int r = item; r < count; r += ITEMS) {
    long token = NO_TOKEN;
    int slot = 0;
    if (first + r <= last) {
      token = by_slot ? (long)arrays->order[order_at + first + r] : first + r;
      if (token < low || token >= end) token = NO_TOKEN;
      if (by_slot) slot = (int)(first + r);
      if (token != NO_TOKEN && (params->flags & FLAG_EXCLUDES_SLOTS)) slot = (int)arrays->slots[slots_at + token];
    }
    tokens[r] = (int)token;
    slots[r] = slot;
  }
}

/* ---- who sees whom ---- */

/* The sink tokens (band 0), and the slots or positions around the tile (band 1), that staying rows may meet. */
static inline band_range range_of(const sattn_gpu_grad_params *params, const tile_place *place, int band) {
  band_range range = {0, -1};
  const long first = place->first, last = first + ROWS - 1;
  if (!place->any || (place->by_key && (band == 0) != (place->kind == TILE_SINKS))) return range;
  if (band == 0) {
    if (place->by_key) {
      range.first = place->other_low;
      range.last = place->other_end - 1;
    } else if (params->flags & FLAG_SINKS) {
      range.last = min((long)params->sink_tokens, place->other_end) - 1;
    }
  } else {
    const int by_slot = place->kind == TILE_SLOTS;
    const long left = by_slot ? params->left_sa : params->left_swa, right = by_slot ? params->right_sa : params->right_swa;
    range.first = max(first - (place->by_key ? right : left), by_slot ? 0 : place->other_low);
    range.last = min(last + (place->by_key ? left : right), (by_slot ? place->slot_count : place->other_end) - 1);
    if (by_slot) return range;
  }
  if (params->causal && place->by_key) range.first = max(range.first, first);
  if (params->causal && !place->by_key && band == 1) range.last = min(range.last, last);
  return range;
}

static inline int within(int distance, int left, int right) {
  return distance >= -left && distance <= right;
}

static inline int sees(const sattn_gpu_grad_params *params, int band, int query, int query_slot, int key, int key_slot) {
  if (query == NO_TOKEN || key == NO_TOKEN || (params->causal && key > query)) return 0;
  if (band == 0) return 1;
  if (key < params->sink_tokens) return 0; /* counted as a sink, in this pass or the one before */
  const int by_slot = within(key_slot - query_slot, params->left_sa, params->right_sa);
  if (params->flags & FLAG_BY_SLOT) return by_slot;
  if ((params->flags & FLAG_EXCLUDES_SLOTS) && by_slot) return 0;
  return within(key - query, params->left_swa, params->right_swa);
}

/* ---- rows ---- */

/* Rows without a token are zeros, so that nothing uninitialised is read. */
static inline void load_queries(const sattn_gpu_grad_params *params, const tile_place *place, const tile_arrays *arrays, int count,
                                __local const int *tokens, __local float *query, __local float *grad, int item) {
  for (int e = item; e < count * HEAD_DIM; e += ITEMS) {
    const int r = e / HEAD_DIM, c = e % HEAD_DIM, token = tokens[r];
    float first = 0.0f, second = 0.0f;
    if (token != NO_TOKEN) {
      const long i = token - place->start;
      first = load_element(arrays->query, offset_of(&params->query, place->b, i, place->h) + c);
      second = load_element(arrays->grad_out, offset_of(&params->grad_out, place->b, i, place->h) + c);
      if (params->flags & FLAG_GATED) second *= sigmoid(gate_logit(params, place, arrays, i, c));
    }
    query[r * STRIDE + c] = first;
    grad[r * STRIDE + c] = second;
  }
}

static inline void load_keys(const sattn_gpu_grad_params *params, const tile_place *place, const tile_arrays *arrays, int count,
                             __local const int *tokens, __local float *key, __local float *value, int item) {
  for (int e = item; e < count * HEAD_DIM; e += ITEMS) {
    const int r = e / HEAD_DIM, c = e % HEAD_DIM, token = tokens[r];
    float first = 0.0f, second = 0.0f;
    if (token != NO_TOKEN) {
      first = load_element(arrays->key, offset_of(&params->key, place->b, token, place->g) + c);
      second = load_element(arrays->value, offset_of(&params->value, place->b, token, place->g) + c);
    }
    key[r * STRIDE + c] = first;
    value[r * STRIDE + c] = second;
  }
}

static inline void load_statistics(const sattn_gpu_grad_params *params, const tile_place *place, const tile_arrays *arrays,
                                   const tile_memory *memory, int item) {
  for (int k = item; k < BLOCK; k += ITEMS) {
    const int token = memory->passing_token[k];
    const long row = token == NO_TOKEN ? 0 : query_row(params, place, token - place->start);
    memory->lse[k] = token == NO_TOKEN ? 0.0f : arrays->lse[params->lse + row];
    memory->delta[k] = token == NO_TOKEN ? 0.0f : arrays->deltas[params->deltas + row];
  }
}
