/* How rows of Q, dO and O enter a tile, and how rows of dQ leave it.
 *
 * The tile is forward's (tile_state): `query` as there, `start` -LSE in units of log2, `out` the sums of dQ. Beside it stand dY, the deltas
 * and the pair's weights and slopes; about 84 KiB at d = 64, so it lives in the second-level cache and passes through the first.
 */
typedef struct grad_state {
  tile_state t;
  float grad[64 * HEAD_DIM] __attribute__((aligned(64))); /* dY: dO, in GATED through the open gate */
  float weight[64 * 64] __attribute__((aligned(64)));
  float slope[64 * 64] __attribute__((aligned(64)));
  float delta[64];
  int finite; /* every element of query and grad is */
} grad_state;

/* One head; NULL: not there, or not wanted from this launch. */
typedef struct grad_io {
  global const stored *query;
  global const stored *out; /* O, or the branch's */
  global const stored *grad_out;
  global const float *lse; /* [n_q] */
  global const float *grad_lse;
  global const uchar *gate;
  global stored *grad_query;
  global uchar *grad_gate;
  global float *deltas;
  global const float *from_partial; /* [n_q][HEAD_DIM] what dQ starts from */
  global float *to_partial;         /* where it goes instead of grad_query */
  long query_token, out_token, grad_out_token, grad_query_token, gate_token, grad_gate_token;
  global const int *queries;  /* the list that they are in */
  global const int *next_row; /* of the tile that follows; NULL: nothing follows */
  int gate_dtype;
  float scale;      /* of queries */
  float grad_scale; /* of dQ */
} grad_io;

#if PASS == PASS_GATED
static void store_gate(float value, global uchar *to, int dtype) {
  if (dtype == 1) {
    *(global float *)to = value;
    return;
  }
#if DTYPE == 2
  vstore_half_rte(value, 0, (global half *)to);
#elif DTYPE == 3
  *(global ushort *)to = bf16_round((float16)(value)).s0;
#endif
}
#endif

/* Rows that do not exist are zeros, whatever stands in the arrays: they take part in sums with the weight 0. */
INLINE float16 load_existing(global const stored *from, int exists) {
  return exists ? stored_load(from) : (float16)(0.0f);
}

/* Reads row r; returns 0 * (sum of its elements), which is not 0 where one is not finite. */
INLINE float16 load_row(grad_state *s, int r, const grad_io *io) {
  const int exists = s->t.position[r] >= 0;
  const long row = max(s->t.row[r], 0);
  float *query = s->t.query + r * HEAD_DIM, *grad = s->grad + r * HEAD_DIM, *sum = s->t.out + r * HEAD_DIM;
  float16 dot = 0.0f, zero = 0.0f;
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) {
    const float16 q = load_existing(io->query + row * io->query_token + x, exists) * io->scale;
    const float16 g = load_existing(io->grad_out + row * io->grad_out_token + x, exists);
    dot = fma(g, load_existing(io->out + row * io->out_token + x, exists), dot);
    zero = fma(q, (float16)(0.0f), fma(g, (float16)(0.0f), zero));
    *(float16 *)(query + x) = q;
    *(float16 *)(grad + x) = g;
    *(float16 *)(sum + x) = exists && io->from_partial ? vload16(0, io->from_partial + row * HEAD_DIM + x) : (float16)(0.0f);
  }
  float delta = sum_of(dot);
#if PASS == PASS_GATED
  const int size = io->gate_dtype == 1 ? 4 : 2;
  const float logit = gate_logit(io->gate, row * io->gate_token, io->gate_dtype), open = 1.0f / (1.0f + exp(-logit));
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) * (float16 *)(grad + x) *= exists ? open : 0.0f;
  if (io->grad_gate && s->t.row[r] >= 0) {
    /* 1 - sigmoid(g) would lose the digits of a large g. */
    const float shut = 1.0f / (1.0f + exp(logit));
    store_gate(exists ? delta * open * shut : 0.0f, io->grad_gate + row * io->grad_gate_token * size, io->gate_dtype);
  }
  delta = exists ? delta * open : 0.0f;
#endif
  if (exists && io->grad_lse) delta -= io->grad_lse[row];
  s->delta[r] = delta;
  s->t.start[r] = exists ? -io->lse[row] * M_LOG2E_F : 0.0f;
  s->t.sum[r] = 0.0f;
  if (io->deltas && s->t.row[r] >= 0) io->deltas[row] = delta;
  return zero;
}

static void load_rows(grad_state *s, const grad_io *io) {
  float16 zero = 0.0f;
  for (int r = 0; r < 64; ++r) zero += load_row(s, r, io);
  s->finite = sum_of(zero) == 0.0f;
}

static void store_rows(const grad_state *s, const grad_io *io) {
  for (int r = 0; r < 64; ++r) {
    const long row = s->t.row[r];
    if (row < 0) continue;
    const float *from = s->t.out + r * HEAD_DIM;
    _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 16) {
      const float16 sum = *(const float16 *)(from + x);
      if (io->to_partial) {
        vstore16(sum, 0, io->to_partial + row * HEAD_DIM + x);
      } else {
        stored_store(sum * io->grad_scale, io->grad_query + row * io->grad_query_token + x);
      }
    }
  }
}

/* One row of the next tile is asked for with every group that is computed. */
INLINE void ask_for_row(tile_state *t, const grad_io *io) {
#if SATTN_PREFETCH
  if (!io->next_row || t->ahead == 64) return;
  const long row = max(io->next_row[t->ahead++], 0);
  global const stored *query = io->query + row * io->query_token, *grad = io->grad_out + row * io->grad_out_token;
  global const stored *out = io->out + row * io->out_token;
  _Pragma("unroll") for (int x = 0; x < HEAD_DIM; x += 64 / (int)sizeof(stored)) {
    __builtin_prefetch((const void *)(size_t)(query + x), 0, 2);
    __builtin_prefetch((const void *)(size_t)(grad + x), 0, 2);
    __builtin_prefetch((const void *)(size_t)(out + x), 0, 2);
  }
#endif
}
