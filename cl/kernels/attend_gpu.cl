/* Attention for devices with real local memory: one work-group per tile of queries, key and value rows gathered into local memory.
 *
 *                    KEYS key rows of a band, gathered by order              band 0: sink tokens
 *                 +-----------------------------+                            band 1: slots (by_slot) or positions around the tile
 *     ROWS        | item (r, c) has scores of   |   softmax over a row: partial maxima and sums of its COLUMNS items through
 *     query rows  | row r, keys c, c + COLUMNS. |   local memory, then the output of row r, elements c, c + COLUMNS, ...
 *                 +-----------------------------+
 *
 * Q, O  [B, n_q, H, d] and K, V [B, n_k, H_kv, d] with any strides; LSE [B, H, n_q]; order, slots: see slots.cl.
 * partial [B, H, n_q, d] and partial_lse [B, H, n_q], fp32: what a first pass leaves for the second (UNION, GATED).
 *
 * by_slot: the rows of a tile are consecutive slots, whether or not their tokens are queries of this call; tiles after the last slot cover
 * the queries at positions that do not exist. Otherwise the rows are consecutive queries.
 *
 * Rules that keep barriers safe everywhere: every loop around a barrier has the same trip count for all items of a group, and nothing
 * returns early. A key that a row does not see has the weight HIDDEN, not zero, so that a NaN in its value row is never multiplied.
 */
#ifndef ROWS
#define ROWS 32 /* query rows of a tile */
#endif
#ifndef KEYS
#define KEYS 32 /* key rows in local memory at once */
#endif
#ifndef ITEMS
#define ITEMS 128 /* of a work-group; a multiple of ROWS */
#endif
#define COLUMNS             (ITEMS / ROWS)                       /* items that share a row */
#define OWN_KEYS            ((KEYS + COLUMNS - 1) / COLUMNS)     /* scores that an item computes of a block */
#define OWN_WIDTH           ((HEAD_DIM + COLUMNS - 1) / COLUMNS) /* output elements that an item owns */
#define HIDDEN              (-1.0f)
#define NO_TOKEN            (-1)

#define FLAG_BY_SLOT        1  /* tiles of slots; else tiles of positions */
#define FLAG_SINKS          2  /* the sink tokens are attended to in this pass */
#define FLAG_TAKES_PARTIAL  4  /* UNION, second pass: starts from the first pass's result */
#define FLAG_GIVES_PARTIAL  8  /* first pass of UNION or GATED */
#define FLAG_EXCLUDES_SLOTS 16 /* UNION, second pass: keys of the SA band were counted in the first */
#define FLAG_GATED          32 /* the result is a branch: gates apply, saved for backward where asked */
#define FLAG_SINK_LOGITS    64 /* the last pass of a softmax adds the sink logit */

typedef struct tile_memory {
  __local float *query;              /* [ROWS][HEAD_DIM] */
  __local float *rows;               /* [KEYS][HEAD_DIM]: keys, then values */
  __local float *weight;             /* [ROWS][KEYS] */
  __local float *part;               /* [ROWS][COLUMNS] maxima, then sums */
  __local int *row_token, *row_slot; /* [ROWS]; NO_TOKEN: no query of this call */
  __local int *key_token, *key_slot; /* [KEYS] */
} tile_memory;

/* What a group works on; the same for all items. */
typedef struct tile_place {
  long b, h, g;
  long tile;
  int start, length; /* position of the first query; tokens that exist */
  long slot_count;
  int any; /* a row of the tile is a query */
} tile_place;

/* One item's part of its row. */
typedef struct row_state {
  int r, c;
  float max, sum;
  float out[OWN_WIDTH];
} row_state;

typedef struct band_range {
  long first, last; /* slots or positions, inclusive */
} band_range;

static inline long offset_of(const sattn_kernel_tensor *tensor, long b, long token, long head) {
  return tensor->offset + b * tensor->stride_batch + token * tensor->stride_token + head * tensor->stride_head;
}

static inline float sigmoid(float logit) {
  return 1.0f / (1.0f + exp(-logit));
}

/* ---- loading ---- */

/* Token and slot of each row of the tile. */
static inline void load_row_ids(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place,
                                const tile_memory *memory, __global const uint *order, __global const uint *slots, int item) {
  long slot_at = params->slots.offset + place->b * params->slots.stride_batch + place->g * params->slots.stride_head;
  for (int r = item; r < ROWS; r += ITEMS) {
    int token = NO_TOKEN, slot = 0;
    long index = place->tile * ROWS + r;
    if (pass->flags & FLAG_BY_SLOT) {
      if (index < place->slot_count) {
        uint found = order[params->order.offset + place->b * params->order.stride_batch + place->g * params->order.stride_head + index];
        if (found < (uint)place->length) token = (int)found;
        slot = (int)index;
      }
    } else if (index < params->queries && place->start + index < place->length) {
      token = place->start + (int)index;
      if (pass->flags & FLAG_EXCLUDES_SLOTS) slot = (int)slots[slot_at + token];
    }
    if (token < place->start || token >= place->start + params->queries) token = NO_TOKEN;
    memory->row_token[r] = token;
    memory->row_slot[r] = slot;
  }
}

/* Rows that are no query of this call are zeros, so that nothing uninitialised is read. */
static inline void load_queries(const sattn_general_params *params, const tile_place *place, const tile_memory *memory,
                                __global const element *query, int item) {
  for (int e = item; e < ROWS * HEAD_DIM; e += ITEMS) {
    int token = memory->row_token[e / HEAD_DIM];
    float value = 0.0f;
    if (token != NO_TOKEN) value = load_element(query, offset_of(&params->query, place->b, token - place->start, place->h) + e % HEAD_DIM);
    memory->query[e] = value;
  }
}

static inline void load_key_ids(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place,
                                const tile_memory *memory, int band, long first, long last, __global const uint *order,
                                __global const uint *slots, int item) {
  long slot_at = params->slots.offset + place->b * params->slots.stride_batch + place->g * params->slots.stride_head;
  for (int k = item; k < KEYS; k += ITEMS) {
    int token = NO_TOKEN, slot = 0;
    long index = first + k;
    if (index <= last) {
      if (band == 1 && (pass->flags & FLAG_BY_SLOT)) {
        uint found = order[params->order.offset + place->b * params->order.stride_batch + place->g * params->order.stride_head + index];
        if (found < (uint)place->length) token = (int)found;
        slot = (int)index;
      } else if (index < place->length) {
        token = (int)index;
        if (pass->flags & FLAG_EXCLUDES_SLOTS) slot = (int)slots[slot_at + token];
      }
    }
    memory->key_token[k] = token;
    memory->key_slot[k] = slot;
  }
}

static inline void load_rows(const sattn_kernel_tensor *tensor, const tile_place *place, const tile_memory *memory,
                             __global const element *source, int item) {
  for (int e = item; e < KEYS * HEAD_DIM; e += ITEMS) {
    int token = memory->key_token[e / HEAD_DIM];
    memory->rows[e] = token == NO_TOKEN ? 0.0f : load_element(source, offset_of(tensor, place->b, token, place->g) + e % HEAD_DIM);
  }
}

/* ---- visibility ---- */

/* The slots or positions that the rows of the tile may see; last < first: none. */
static inline band_range range_of(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_place *place, int band) {
  band_range range = {0, -1};
  if (!place->any) return range;
  long first_row = place->tile * ROWS, last_row = first_row + ROWS - 1;
  if (band == 0) {
    if (pass->flags & FLAG_SINKS) range.last = min((long)params->sink_tokens, (long)place->length) - 1;
  } else if (pass->flags & FLAG_BY_SLOT) {
    range.first = max(first_row - params->left_sa, 0L);
    range.last = min(last_row + params->right_sa, place->slot_count - 1);
  } else {
    range.first = max(place->start + first_row - params->left_swa, 0L);
    range.last = min(place->start + last_row + params->right_swa, (long)place->length - 1);
    if (params->causal) range.last = min(range.last, place->start + last_row);
  }
  return range;
}

static inline int within(int distance, int left, int right) {
  return distance >= -left && distance <= right;
}

static inline int sees(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_memory *memory, int band, int r, int k) {
  int row = memory->row_token[r], key = memory->key_token[k];
  if (row == NO_TOKEN || key == NO_TOKEN || (params->causal && key > row)) return 0;
  if (band == 0) return 1;
  if (key < params->sink_tokens) return 0; /* counted as a sink, in this pass or the one before */
  int slot_distance = memory->key_slot[k] - memory->row_slot[r];
  if (pass->flags & FLAG_BY_SLOT) return within(slot_distance, params->left_sa, params->right_sa);
  if ((pass->flags & FLAG_EXCLUDES_SLOTS) && within(slot_distance, params->left_sa, params->right_sa)) return 0;
  return within(key - row, params->left_swa, params->right_swa);
}

/* ---- one block of keys ---- */

static inline float score_of(const sattn_general_params *params, const tile_memory *memory, int r, int k) {
  float4 lanes = (float4)(0.0f);
  int c = 0;
  for (; c + 4 <= HEAD_DIM; c += 4) {
    float4 q = (float4)(memory->query[r * HEAD_DIM + c], memory->query[r * HEAD_DIM + c + 1], memory->query[r * HEAD_DIM + c + 2],
                        memory->query[r * HEAD_DIM + c + 3]);
    float4 x = (float4)(memory->rows[k * HEAD_DIM + c], memory->rows[k * HEAD_DIM + c + 1], memory->rows[k * HEAD_DIM + c + 2],
                        memory->rows[k * HEAD_DIM + c + 3]);
    lanes = fma(q, x, lanes);
  }
  float sum = (lanes.s0 + lanes.s1) + (lanes.s2 + lanes.s3);
  for (; c < HEAD_DIM; ++c) sum = fma(memory->query[r * HEAD_DIM + c], memory->rows[k * HEAD_DIM + c], sum);
  sum *= params->scale;
  return params->softcap > 0.0f ? params->softcap * tanh(sum / params->softcap) : sum;
}

/* The scores of this item, and their maximum into `part`. */
static inline void compute_scores(const sattn_general_params *params, const sattn_gpu_pass *pass, const tile_memory *memory, int band,
                                  const row_state *row, float *score, uint *visible) {
  float largest = -INFINITY;
  *visible = 0;
  for (int own = 0; own < OWN_KEYS; ++own) {
    int k = row->c + own * COLUMNS;
    if (k < KEYS && sees(params, pass, memory, band, row->r, k)) {
      score[own] = score_of(params, memory, row->r, k);
      largest = fmax(largest, score[own]);
      *visible |= 1u << own;
    }
  }
  memory->part[row->r * COLUMNS + row->c] = largest;
}

/* From scores to weights with the row's new maximum; rescales what the row has so far. */
static inline float weigh(const tile_memory *memory, row_state *row, const float *score, uint visible) {
  float largest = row->max;
  for (int c = 0; c < COLUMNS; ++c) largest = fmax(largest, memory->part[row->r * COLUMNS + c]);
  float reference = largest == -INFINITY ? 0.0f : largest; /* infinity minus infinity would be NaN */
  float shrink = row->max == -INFINITY ? 0.0f : exp(row->max - reference);
  row->max = largest;
  row->sum *= shrink;
  for (int own = 0; own < OWN_WIDTH; ++own) row->out[own] *= shrink;
  float sum = 0.0f;
  for (int own = 0; own < OWN_KEYS; ++own) {
    int k = row->c + own * COLUMNS;
    if (k >= KEYS) continue;
    float weight = HIDDEN;
    if (visible & (1u << own)) {
      weight = exp(score[own] - reference);
      sum += weight;
    }
    memory->weight[row->r * KEYS + k] = weight;
  }
  return sum;
}

static inline void add_values(const tile_memory *memory, row_state *row) {
  float sum = 0.0f;
  for (int c = 0; c < COLUMNS; ++c) sum += memory->part[row->r * COLUMNS + c];
  row->sum += sum;
  for (int k = 0; k < KEYS; ++k) {
    float weight = memory->weight[row->r * KEYS + k];
    if (weight == HIDDEN) continue;
    for (int own = 0; own < OWN_WIDTH; ++own) {
      int c = row->c + own * COLUMNS;
      if (c < HEAD_DIM) row->out[own] = fma(weight, memory->rows[k * HEAD_DIM + c], row->out[own]);
    }
  }
}
