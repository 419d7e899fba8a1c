/* Decoding on CPUs: few queries against a long cache of keys, which is read once, in place and in the order in which it lies in memory.
 *
 *     token ->   0 ..... CHUNK | CHUNK ..... | ...                 one work-item takes one chunk of keys for all heads
 *               [16][16]...                                        and, in it, 16 tokens of every key head before the next 16:
 *     item      head 0, head 1, ... head H_kv - 1                  in [B, n, H, d] that is memory in one piece
 *               scores of 16 keys -> weights -> totals of the chunk
 *
 *     attend_decode   totals of each chunk: max, sum of weights, sum of weights times V         partial [chunk][B, H, n_q][d]
 *     join_decode     chunks of a row in ascending order -> O, LSE                               maxima, sums [chunk][B, H, n_q]
 *
 * Q, O  [B, n_q, H, d] and K, V [B, n_k, H_kv, d] with any strides; LSE [B, H, n_q]. Chunks depend on n_k alone, so results have the same
 * bits on any number of cores. A key that a row does not see is neither scored nor multiplied. The host sets HEAD_DIM, a multiple of 16,
 * and DTYPE.
 */
#define CHUNK          256
#define LANES          16
#define WIDE           (HEAD_DIM / LANES)
#define ALL_SEEN       0xffffu
#define SLIDING_WINDOW 2 /* sattn_mode */

typedef struct decode_arrays {
  global const stored *query, *key, *value;
  global float *workspace;
} decode_arrays;

/* The keys that a row sees: [0, sinks) and [first, last]. */
typedef struct visible_keys {
  int first, last, sinks;
} visible_keys;

static inline long row_offset(const sattn_kernel_tensor *tensor, long b, long token, long head) {
  return tensor->offset + b * tensor->stride_batch + token * tensor->stride_token + head * tensor->stride_head;
}

static inline float sum_of_lanes(float16 lanes) {
  float8 eight = lanes.lo + lanes.hi;
  float4 four = eight.lo + eight.hi;
  float2 two = four.lo + four.hi;
  return two.x + two.y;
}

static inline visible_keys keys_of(const sattn_general_params *p, int position, int length) {
  visible_keys keys;
  keys.last = p->causal ? position : length - 1;
  keys.sinks = min(p->sink_tokens, keys.last + 1);
  keys.first = 0;
  if (p->mode == SLIDING_WINDOW) {
    keys.first = (int)max((long)position - p->left_swa, 0L);
    keys.last = (int)min((long)position + p->right_swa, (long)keys.last);
  }
  return keys;
}

/* Bit t: the row sees token base + t. */
static inline uint seen_of(const visible_keys *keys, int base) {
  int first = clamp(keys->first - base, 0, LANES), last = clamp(keys->last + 1 - base, 0, LANES),
      sinks = clamp(keys->sinks - base, 0, LANES);
  uint band = last > first ? ((1u << last) - 1) & ~((1u << first) - 1) : 0;
  return band | ((1u << sinks) - 1);
}

/* ---- one row, sixteen keys ---- */

/* Sums of sixteen vectors, one to a lane, in key order: three instructions a vector. */
static inline float16 sums_of_sixteen(float16 a[16]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) a[i] = PAIR_LO(a[2 * i], a[2 * i + 1]) + PAIR_HI(a[2 * i], a[2 * i + 1]);
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = DUAL_LO(a[2 * i], a[2 * i + 1]) + DUAL_HI(a[2 * i], a[2 * i + 1]);
#pragma unroll
  for (int i = 0; i < 2; ++i) a[i] = QUAD_LO(a[2 * i], a[2 * i + 1]) + QUAD_HI(a[2 * i], a[2 * i + 1]);
  return QUAD_LO(a[0], a[1]) + QUAD_HI(a[0], a[1]);
}

static inline float16 products(const float16 *query, global const stored *key) {
  float16 lanes = query[0] * stored_load(key);
#pragma unroll
  for (int c = 1; c < WIDE; ++c) lanes = fma(query[c], stored_load(key + LANES * c), lanes);
  return lanes;
}

/* Scores, -infinity where hidden. */
static inline float16 score_sixteen(const sattn_general_params *p, global const stored *query, global const stored *key, uint seen) {
  float16 q[WIDE], lanes[LANES];
  int16 hidden = 0;
#pragma unroll
  for (int c = 0; c < WIDE; ++c) q[c] = stored_load(query + LANES * c);
  if (seen == ALL_SEEN) {
#pragma unroll
    for (int t = 0; t < LANES; ++t) lanes[t] = products(q, key + t * p->key.stride_token);
  } else {
    int each[LANES];
    for (int t = 0; t < LANES; ++t) {
      each[t] = seen >> t & 1 ? 0 : -1;
      lanes[t] = each[t] ? (float16)(0.0f) : products(q, key + t * p->key.stride_token);
    }
    hidden = vload16(0, each);
  }
  float16 scores = sums_of_sixteen(lanes) * p->scale;
  if (p->softcap > 0.0f) scores = p->softcap * tanh(scores / p->softcap);
  return select(scores, (float16)(-INFINITY), hidden); /* after the cap, which would make a finite score of it */
}

/* Sixteen rows of a head lie apart, which the processor does not foresee. `count` of them exist. */
static inline void ask_for(global const stored *rows, long stride, int count) {
#if SATTN_PREFETCH
  for (int t = 0; t < count; ++t) {
    for (int c = 0; c < HEAD_DIM; c += 64 / (int)sizeof(stored)) __builtin_prefetch((const void *)(size_t)(rows + t * stride + c), 0, 2);
  }
#endif
}

static inline float max_of_lanes(float16 lanes) {
  float8 eight = fmax(lanes.lo, lanes.hi);
  float4 four = fmax(eight.lo, eight.hi);
  float2 two = fmax(four.lo, four.hi);
  return fmax(two.x, two.y);
}

/* Adds sixteen keys to the totals of a row in this chunk. */
static inline void add_sixteen(const sattn_general_params *p, float16 scores, global const stored *value, uint seen, global float *total,
                               global float *row_max, global float *row_sum) {
  float old = *row_max, reached = fmax(old, max_of_lanes(scores));
  float shrink = old == reached ? 1.0f : exp(old - reached); /* 0 at first, when all totals are 0 */
  float reference = reached == -INFINITY ? 0.0f : reached;   /* infinity minus infinity would be NaN */
  float weight[LANES];
  float16 weights = exp(scores - reference);
  vstore16(weights, 0, weight);
  float16 sum[WIDE];
  for (int c = 0; c < WIDE; ++c) sum[c] = vload16(c, total) * shrink;
  for (int t = 0; t < LANES; ++t) {
    if (!(seen >> t & 1)) continue;
    for (int c = 0; c < WIDE; ++c) sum[c] = fma((float16)(weight[t]), stored_load(value + t * p->value.stride_token + LANES * c), sum[c]);
  }
  for (int c = 0; c < WIDE; ++c) vstore16(sum[c], c, total);
  *row_sum = *row_sum * shrink + sum_of_lanes(weights);
  *row_max = reached;
}

/* ---- one chunk ---- */

static inline void attend_chunk(const sattn_general_params *p, const sattn_decode_params *d, const decode_arrays *arrays, long b, int chunk,
                                int length, int start) {
  const long rows = (long)p->heads * p->queries; /* of a batch entry */
  const long first_row = (chunk * p->batch + b) * rows;
  global float *totals = arrays->workspace + d->partial + first_row * HEAD_DIM;
  global float *maxima = arrays->workspace + d->maxima + first_row;
  global float *sums = arrays->workspace + d->sums + first_row;
  for (long r = 0; r < rows; ++r) {
    for (int c = 0; c < WIDE; ++c) vstore16((float16)(0.0f), r * WIDE + c, totals);
    maxima[r] = -INFINITY;
    sums[r] = 0.0f;
  }
  const int end = min(length, (chunk + 1) * CHUNK);
  for (int base = chunk * CHUNK; base < end; base += LANES) {
    for (int i = 0; i < p->queries; ++i) {
      if (start + i >= length) continue;
      const visible_keys keys = keys_of(p, start + i, length);
      const uint seen = seen_of(&keys, base);
      if (!seen) continue;
      for (int h = 0; h < p->heads; ++h) {
        const long r = (long)h * p->queries + i;
        global const stored *key = arrays->key + row_offset(&p->key, b, base, h / p->group);
        global const stored *value = arrays->value + row_offset(&p->value, b, base, h / p->group);
        if (i == 0 && h % p->group == 0) {
          const int ahead = clamp(length - base - LANES, 0, LANES);
          ask_for(key + LANES * p->key.stride_token, p->key.stride_token, ahead);
          ask_for(value + LANES * p->value.stride_token, p->value.stride_token, ahead);
        }
        const float16 scores = score_sixteen(p, arrays->query + row_offset(&p->query, b, i, h), key, seen);
        add_sixteen(p, scores, value, seen, totals + r * HEAD_DIM, maxima + r, sums + r);
      }
    }
  }
}

static inline int length_of(const sattn_general_params *p, global const int *lengths, long b) {
  return lengths ? clamp(lengths[p->lengths + b], 0, p->keys) : p->keys;
}

/* Position of the first query. */
static inline int start_of(const sattn_general_params *p, global const int *query_start, long b) {
  const int most = p->keys - p->queries;
  return query_start ? clamp(query_start[p->query_start + b], 0, most) : most;
}

/* Grid: chunk, batch entry. */
kernel void attend_decode(const sattn_general_params p, const sattn_decode_params d, global const stored *query, global const stored *key,
                          global const stored *value, global const int *lengths, global const int *query_start, global float *workspace) {
  const decode_arrays arrays = {query, key, value, workspace};
  for (long b = get_global_id(1); b < p.batch; b += get_global_size(1)) {
    const int length = length_of(&p, lengths, b), start = start_of(&p, query_start, b);
    for (int chunk = (int)get_global_id(0); chunk < d.chunks; chunk += (int)get_global_size(0)) {
      attend_chunk(&p, &d, &arrays, b, chunk, length, start);
    }
  }
}

/* ---- joining ---- */

static inline void join_row(const sattn_general_params *p, const sattn_decode_params *d, global const float *workspace, long row,
                            float sink_logit, global stored *out, global float *lse) {
  const long rows = p->batch * p->heads * (long)p->queries;
  float reached = sink_logit;
  for (int chunk = 0; chunk < d->chunks; ++chunk) reached = fmax(reached, workspace[d->maxima + chunk * rows + row]);
  float reference = reached == -INFINITY ? 0.0f : reached;
  float sum = sink_logit == -INFINITY ? 0.0f : exp(sink_logit - reference);
  float16 total[WIDE];
  for (int c = 0; c < WIDE; ++c) total[c] = 0.0f;
  for (int chunk = 0; chunk < d->chunks; ++chunk) {
    const long at = chunk * rows + row;
    const float weight = exp(workspace[d->maxima + at] - reference);
    sum = fma(weight, workspace[d->sums + at], sum);
    for (int c = 0; c < WIDE; ++c) total[c] = fma((float16)(weight), vload16(c, workspace + d->partial + at * HEAD_DIM), total[c]);
  }
  for (int c = 0; c < WIDE; ++c) stored_store(total[c] / sum, out + LANES * c);
  if (lse) *lse = reached + log(sum);
}

/* Grid: query, head, batch entry. A query that does not exist has O = 0 and LSE = -infinity, with sink logits or without. */
kernel void join_decode(const sattn_general_params p, const sattn_decode_params d, global const float *workspace, global const int *lengths,
                        global const int *query_start, global const float *sink_logits, global stored *out, global float *lse) {
  for (long b = get_global_id(2); b < p.batch; b += get_global_size(2)) {
    const int length = length_of(&p, lengths, b), start = start_of(&p, query_start, b);
    for (long h = get_global_id(1); h < p.heads; h += get_global_size(1)) {
      for (long i = get_global_id(0); i < p.queries; i += get_global_size(0)) {
        const long row = (b * p.heads + h) * p.queries + i;
        global stored *out_row = out + row_offset(&p.out, b, i, h);
        global float *lse_row = lse ? lse + p.lse + row : 0;
        if (start + i < length) {
          join_row(&p, &d, workspace, row, sink_logits ? sink_logits[p.sink_logits + h] : -INFINITY, out_row, lse_row);
          continue;
        }
        for (int c = 0; c < WIDE; ++c) stored_store((float16)(0.0f), out_row + LANES * c);
        if (lse_row) *lse_row = -INFINITY;
      }
    }
  }
}
