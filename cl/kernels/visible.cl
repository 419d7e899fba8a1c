/* Who sees whom, as a list of candidates, and the few formulas that the passes of the general path share.
 *
 * The relation is walked both ways:
 *
 *     forward, dQ     tokens = keys that a query sees              band [p - left, p + right], the same for slots
 *     dK, dV          tokens = query positions that see a key      band [j - right, j + left]: the sides change places
 *
 * Needs HEAD_DIM and elements.cl.
 */
#define WIDE                (HEAD_DIM / 8)
#define NARROW_FROM         (HEAD_DIM / 8 * 8)
#define NO_BLOCK            0xffffffffu

#define MODE_FULL           1
#define MODE_SLIDING_WINDOW 2
#define MODE_STOCHASTIC     3
#define MODE_UNION          4
#define MODE_GATED          5
#define MODE_MOBA           6

/* What one row sees as candidates 0..total-1: tokens [0, sinks), tokens [first, first + band), then `others` entries of a list: slots from
 * slot_first on, or the tokens of selected blocks. The last kind needs a test each. */
typedef struct candidates {
  int lowest, last; /* the tokens that causality and length allow */
  int sinks;
  int first;
  int band;
  long others;
  int slot_first, slot_count;
  __global const uint *order;
  __global const uint *selected;
} candidates;

/* ---- which keys ---- */

static inline void add_positions(candidates *keys, long first, long last) {
  first = max(first, (long)max(keys->sinks, keys->lowest));
  last = min(last, (long)keys->last);
  keys->first = (int)first;
  keys->band = last >= first ? (int)(last - first + 1) : 0;
}

static inline void add_slots(candidates *keys, int slot, int left, int right, int wrap) {
  long width = (long)left + right + 1;
  if (wrap && width >= keys->slot_count) {
    keys->slot_first = 0;
    keys->others = keys->slot_count;
  } else if (wrap) {
    long first = (long)slot - left;
    keys->slot_first = (int)(first < 0 ? first + keys->slot_count : first);
    keys->others = width;
  } else {
    long first = max((long)slot - left, 0L);
    long last = min((long)slot + right, (long)keys->slot_count - 1);
    keys->slot_first = (int)first;
    keys->others = last - first + 1;
  }
}

static inline void add_blocks(candidates *keys, const sattn_general_params *params, __global const uint *selected) {
  long count = 0;
  while (count < params->selected_stride && selected[count] != NO_BLOCK) ++count;
  keys->selected = selected;
  keys->others = count * params->block;
}

/* Token of candidate c, or -1 if the query does not see it after all or an earlier kind held it already. */
static inline int candidate_token(const candidates *keys, const sattn_general_params *params, long c) {
  if (c < keys->sinks) return (int)c;
  c -= keys->sinks;
  if (c < keys->band) return keys->first + (int)c;
  c -= keys->band;
  long token;
  if (keys->selected) {
    token = (long)keys->selected[c / params->block] * params->block + c % params->block;
  } else {
    long slot = keys->slot_first + c;
    if (slot >= keys->slot_count) slot -= keys->slot_count;
    token = keys->order[slot];
  }
  bool held = token < keys->sinks || (token >= keys->first && token < (long)keys->first + keys->band);
  return token > keys->last || token < keys->lowest || held ? -1 : (int)token;
}

static inline void no_candidates(candidates *keys, int lowest, int last) {
  keys->lowest = lowest;
  keys->last = last;
  keys->sinks = keys->first = keys->band = 0;
  keys->others = 0;
  keys->slot_first = keys->slot_count = 0;
  keys->order = keys->selected = 0;
}

static inline long candidate_count(const candidates *keys) {
  return (long)keys->sinks + keys->band + keys->others;
}

/* Which bands a branch has: in GATED branch 0 is SA and 1 is SWA; the other modes have everything in branch 0. */
static inline int has_swa(int mode, int branch) {
  return mode == MODE_SLIDING_WINDOW || mode == MODE_UNION || (mode == MODE_GATED && branch == 1);
}

static inline int has_sa(int mode, int branch) {
  return mode == MODE_STOCHASTIC || mode == MODE_UNION || (mode == MODE_GATED && branch == 0);
}

static inline void open_order(candidates *keys, const sattn_general_params *params, long b, long g, int length,
                              __global const uint *order) {
  keys->order = order + params->order.offset + b * params->order.stride_batch + g * params->order.stride_head;
  keys->slot_count = params->order_length ? params->order_length : length;
}

static inline int slot_of(const sattn_general_params *params, long b, long g, long token, __global const uint *slots) {
  return (int)slots[params->slots.offset + b * params->slots.stride_batch + g * params->slots.stride_head + token];
}

/* The keys that the query at `position` sees; `selected` is its own list of blocks. */
static inline void list_keys(const sattn_general_params *params, long b, long g, int position, int length, int branch,
                             __global const uint *order, __global const uint *slots, __global const uint *selected, candidates *keys) {
  int mode = params->mode;
  no_candidates(keys, 0, params->causal ? position : length - 1);
  keys->sinks = min(params->sink_tokens, keys->last + 1);
  if (mode == MODE_FULL) add_positions(keys, 0, keys->last);
  if (has_swa(mode, branch)) add_positions(keys, (long)position - params->left_swa, (long)position + params->right_swa);
  if (has_sa(mode, branch)) {
    open_order(keys, params, b, g, length, order);
    add_slots(keys, slot_of(params, b, g, position, slots), params->left_sa, params->right_sa, params->wrap);
  }
  if (mode == MODE_MOBA) add_blocks(keys, params, selected);
}

/* The positions of the queries [start, start + queries) that see key `token`. In MoBA they are only those that may: see selects_block. */
static inline void list_queries(const sattn_general_params *params, long b, long g, int token, int start, int length, int branch,
                                __global const uint *order, __global const uint *slots, candidates *keys) {
  int mode = params->mode;
  int lowest = params->causal ? max(start, token) : start;
  no_candidates(keys, lowest, min(start + params->queries, length) - 1);
  if (mode == MODE_FULL || mode == MODE_MOBA || token < params->sink_tokens) {
    add_positions(keys, lowest, keys->last);
    return;
  }
  if (has_swa(mode, branch)) add_positions(keys, (long)token - params->right_swa, (long)token + params->left_swa);
  if (has_sa(mode, branch)) {
    open_order(keys, params, b, g, length, order);
    add_slots(keys, slot_of(params, b, g, token, slots), params->right_sa, params->left_sa, params->wrap);
  }
}

/* Whether an ascending list of `places` blocks holds one. */
static inline int selects_block(__global const uint *selected, long places, uint block) {
  long at = 0;
  while (at < places && selected[at] < block) ++at;
  return at < places && selected[at] == block;
}

/* ---- formulas ---- */

static inline long row_offset(const sattn_kernel_tensor *tensor, long b, long token, long head) {
  return tensor->offset + b * tensor->stride_batch + token * tensor->stride_token + head * tensor->stride_head;
}

static inline float sigmoid(float logit) {
  return 1.0f / (1.0f + exp(-logit));
}

/* Gate logits are fp32 or of the call's dtype; which one is a parameter. */
static inline float gate_logit(__global const void *gate, int dtype, long at) {
  return dtype == 1 ? ((__global const float *)gate)[at] : load_element((__global const element *)gate, at);
}

/* The error is only kept while it is finite: an infinite total has none, and infinity minus infinity would turn it into NaN. */
static inline void add_compensated(float value, float *total, float *error) {
  float corrected = value - *error;
  float next = *total + corrected;
  float lost = (next - *total) - corrected;
  *error = isfinite(lost) ? lost : 0.0f;
  *total = next;
}

static inline float raw_score(const float *query, __global const element *key, long at, const sattn_general_params *params) {
  float8 lanes = (float8)(0.0f);
  for (int c = 0; c < WIDE; ++c) lanes += vload8(c, query) * load_eight(key, at + 8 * c);
  float sum = sum_of_eight(lanes);
  for (int c = NARROW_FROM; c < HEAD_DIM; ++c) sum += query[c] * load_element(key, at + c);
  return sum * params->scale;
}

static inline float capped(float score, const sattn_general_params *params) {
  return params->softcap > 0.0f ? params->softcap * tanh(score / params->softcap) : score;
}

static inline float score(const float *query, __global const element *key, long at, const sattn_general_params *params) {
  return capped(raw_score(query, key, at, params), params);
}
