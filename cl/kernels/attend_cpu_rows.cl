/* How rows enter and leave a tile: queries in, outputs and LSE out, and the fp32 rows that the passes of UNION, GATED and MOBA hand on.
 *
 * Rows of a tile are ordered (group, token of the group, head), so that four consecutive ones are a group. They are read just before a
 * group meets its first block and written just after it met its last, so that memory is busy while other groups compute.
 */
#define TOKENS_PER_GROUP (4 / HEADS_PER_TILE)
#define GROUPS           (64 / TOKENS_PER_GROUP)
#define ROWS             (64 * HEADS_PER_TILE)

/* What a launch does with its rows. */
#define PASS_PLAIN       0
#define PASS_FIRST_UNION 1
#define PASS_UNION       2
#define PASS_FIRST_GATED 3
#define PASS_GATED       4
#define PASS_MIDDLE      5 /* between PASS_FIRST_UNION and PASS_UNION */

#define ADDS_TO_PARTIAL  (PASS == PASS_FIRST_UNION || PASS == PASS_MIDDLE)
#define WRITES_PARTIAL   (ADDS_TO_PARTIAL || PASS == PASS_FIRST_GATED)
#define STARTS_PARTIAL   (PASS == PASS_UNION || PASS == PASS_MIDDLE)
#define WRITES_BRANCH    (PASS == PASS_FIRST_GATED || PASS == PASS_GATED)

/* The state of a tile; about 40 KiB at d = 64, so it lives in the second-level cache and passes through the first. */
typedef struct tile_state {
  float query[ROWS * HEAD_DIM] __attribute__((aligned(64)));
  float out[ROWS * HEAD_DIM] __attribute__((aligned(64)));
  float16 sum[ROWS];
  float start[ROWS] __attribute__((aligned(64)));
  float total[ROWS] __attribute__((aligned(64)));
  int known[GROUPS]; /* every row of the group has seen something */
  int position[64];
  int limit[64];
  int slot[64];
  uint low[64];
  uint other_low[64];
  int row[64];
  /* extremes of each group, for the staircases */
  int last_position[GROUPS] __attribute__((aligned(64)));
  int first_position[GROUPS] __attribute__((aligned(64)));
  int first_slot[GROUPS] __attribute__((aligned(64)));
  int last_slot[GROUPS] __attribute__((aligned(64)));
  tile_extent extent;
  int loaded, finished; /* groups that came in and went out */
  int ahead;            /* tokens of the next tile that are on their way */
  int again[GROUPS];    /* the last round of a group: 0 plain, 1 and 2 careful (finish_group) */
  int any_again, careful;
  int kept[ROWS]; /* the row came out finite */
  float kept_start[ROWS];
} tile_state;

typedef struct tile_io {
  global const stored *query; /* token 0 of this head */
  global const stored *next_query;
  global const int *next_row; /* NULL: nothing follows */
  global stored *out;
  global stored *branch;
  global float *partial; /* [n_q][HEAD_DIM] of this head */
  global const float *next_partial;
  global float *lse; /* [n_q] of this head; NULL: not wanted */
  global float *partial_lse;
  global const uchar *gate_own;
  global const uchar *gate_first;
  long query_token, query_head, out_token, out_head, branch_token, branch_head;
  long own_token, own_head, first_token, first_head;
  long partial_head, lse_head;
  int gate_dtype;
  float scale;                /* of queries */
  float sink[HEADS_PER_TILE]; /* sink logits in units of log2; -infinity: none */
} tile_io;

INLINE int token_of(int row) {
  return row / 4 * TOKENS_PER_GROUP + row % 4 / HEADS_PER_TILE;
}

INLINE int head_of(int row) {
  return row % HEADS_PER_TILE;
}

static void load_group(tile_state *t, int g, const tile_io *io) {
  for (int r = g * 4; r < g * 4 + 4; ++r) {
    const int row = t->row[token_of(r)], head = head_of(r);
    global const stored *from = io->query + max(row, 0) * io->query_token + head * io->query_head;
    float *to = t->query + r * HEAD_DIM, *out = t->out + r * HEAD_DIM;
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) * (float16 *)(to + x) = stored_load(from + x) * io->scale;
    t->start[r] = 0.0f;
    t->sum[r] = 0.0f;
#if STARTS_PARTIAL
    if (t->position[token_of(r)] >= 0) {
      global const float *earlier = io->partial + head * io->partial_head + row * (long)HEAD_DIM;
      _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) * (float16 *)(out + x) = vload16(0, earlier + x);
      t->start[r] = -io->partial_lse[head * io->lse_head + row];
      t->sum[r].s0 = 1.0f;
      continue;
    }
#endif
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) * (float16 *)(out + x) = 0.0f;
  }
  t->known[g] = STARTS_PARTIAL && t->first_position[g] >= 0;
}

INLINE int group_is_finite(const float *out) {
  float16 zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  EACH(r, 4) {
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) zero[r] =
        fma(*(const float16 *)(out + r * HEAD_DIM + x), (float16)(0.0f), zero[r]);
  }
  return sum_of((zero[0] + zero[1]) + (zero[2] + zero[3])) == 0.0f;
}

static int row_is_finite(const float *out) {
  float16 zero = 0.0f;
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) zero = fma(*(const float16 *)(out + x), (float16)(0.0f), zero);
  return sum_of(zero) == 0.0f;
}

#if PASS == PASS_GATED
static float gate_logit(global const uchar *logits, long at, int dtype) {
  if (dtype == 1) return ((global const float *)logits)[at];
  if (dtype == 2) return vload_half(at, (global const half *)logits);
  return as_float((uint)((global const ushort *)logits)[at] << 16);
}

static float gate_of(global const uchar *logits, long at, int dtype) {
  return 1.0f / (1.0f + exp(-gate_logit(logits, at, dtype)));
}
#endif

/* The sink logit takes part in the denominator only, and an empty row stays empty with it. */
static void finish_row(tile_state *t, int r, const tile_io *io) {
  const int row = t->row[token_of(r)], head = head_of(r);
  const float *from = t->out + r * HEAD_DIM;
  const float sum = sum_of(t->sum[r]), sink = io->sink[head];
  float total = sum, scale = sum == 0.0f ? 0.0f : 1.0f / sum;
  if (sink != -INFINITY && sum != 0.0f) {
    const float base = -t->start[r], top = fmax(base, sink), shrink = base == top ? 1.0f : exp2(base - top);
    total = fma(sum, shrink, sink == top ? 1.0f : exp2(sink - top));
    scale = shrink / total;
    t->start[r] = -top;
  }
  t->total[r] = total;
  if (row < 0) return;
#if WRITES_PARTIAL
  global float *partial = io->partial + head * io->partial_head + row * (long)HEAD_DIM;
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) vstore16(*(const float16 *)(from + x) * scale, 0, partial + x);
#endif
#if WRITES_BRANCH
  if (io->branch) {
    global stored *branch = io->branch + row * io->branch_token + head * io->branch_head;
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) stored_store(*(const float16 *)(from + x) * scale, branch + x);
  }
#endif
#if !WRITES_PARTIAL
  global stored *out = io->out + row * io->out_token + head * io->out_head;
#if PASS == PASS_GATED
  /* The gates of a token that does not exist may hold anything, NaN included. */
  const int exists = t->position[token_of(r)] >= 0;
  const float own = exists ? scale * gate_of(io->gate_own, row * io->own_token + head * io->own_head, io->gate_dtype) : 0.0f;
  const float first = exists ? gate_of(io->gate_first, row * io->first_token + head * io->first_head, io->gate_dtype) : 0.0f;
  global const float *earlier = io->partial + head * io->partial_head + row * (long)HEAD_DIM;
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) {
    stored_store(fma(*(const float16 *)(from + x), (float16)(own), vload16(0, earlier + x) * first), out + x);
  }
#else
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) stored_store(*(const float16 *)(from + x) * scale, out + x);
#endif
#endif
}

/* LSE of the whole tile at once: 16 logarithms cost little more than one. The second pass of UNION takes it in units of log2. */
static void store_lse(const tile_state *t, const tile_io *io) {
  global float *lse = ADDS_TO_PARTIAL ? io->partial_lse : io->lse;
  const float unit = ADDS_TO_PARTIAL ? 1.0f : M_LN2_F;
  if (!lse) return;
  for (int i = 0; i < ROWS; i += 16) {
    const float16 total = vload16(0, t->total + i);
    float value[16];
    vstore16(select((log2(total) - vload16(0, t->start + i)) * unit, (float16)(-INFINITY), total == 0.0f), 0, value);
    for (int r = 0; r < 16; ++r) {
      const int row = t->row[token_of(i + r)];
      if (row >= 0) lse[head_of(i + r) * io->lse_head + row] = value[r];
    }
  }
}

/* One row of the next tile is asked for with every group that is computed, and what an earlier pass left for it. */
INLINE void prefetch_query(tile_state *t, const tile_io *io) {
#if SATTN_PREFETCH
  if (!io->next_row || t->ahead == 64) return;
  const int row = max(io->next_row[t->ahead++], 0);
  for (int h = 0; h < HEADS_PER_TILE; ++h) {
    global const stored *from = io->next_query + row * io->query_token + h * io->query_head;
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 64 / (int)sizeof(stored))
        __builtin_prefetch((const void *)(size_t)(from + x), 0, 2);
#if STARTS_PARTIAL || PASS == PASS_GATED
    global const float *earlier = io->next_partial + h * io->partial_head + row * (long)HEAD_DIM;
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) __builtin_prefetch((const void *)(size_t)(earlier + x), 0, 2);
#endif
  }
#endif
}
