/* The micro-kernels of attend_amx.cl: half a tile, 32 queries, against a block of 64 keys. Queries are columns, so each vector lane has
 * one.
 *
 *      find_scores     S^T = K Q^T         weigh_group     P^T = 2^(S^T - base)      add_values      O^T += V^T P^T
 *
 *         16 queries  16 queries              16 queries                                16 queries  16 queries
 *        +-----------+-----------+           +-----------+ two keys of a query         +-----------+-----------+
 *     16 | tmm0      | tmm1      |           | k0 k1 | ..| side by side, as a      16  | tmm0      | tmm1      |
 *   keys +-----------+-----------+           | k2 k3 | ..| tile's B wants them:  dims  +-----------+-----------+
 *     16 | tmm2      | tmm3      |           |  ..   |   | a shift and an OR        16  | tmm2      | tmm3      |
 *        +-----------+-----------+           +-----------+                             +-----------+-----------+
 *
 * Scores are relative to a query's base, the maximum that it had met when it last looked (attend_cpu_tile.cl): no maximum is taken and no
 * sum rescaled unless a weight grows beyond HUGE_WEIGHT. A row's sum is that of its fp32 weights, before they are rounded to bf16: LSE is
 * then as good as in fp32, and in O the errors of rounding, which are to nearest even and have either sign, average out.
 */

/* The state of a tile of 64 queries: four groups of 16, in two halves. */
typedef struct tile_state {
  uint query[DIM_TILES * 4 * TILE_FP32] __attribute__((aligned(64))); /* [DIM_TILES][4 groups][16 pairs of dimensions][16 queries] */
  float out[ROW_TILES * 4 * TILE_FP32] __attribute__((aligned(64)));  /* [ROW_TILES][4 groups][16 dimensions][16 queries] */
  float score[2 * 4 * TILE_FP32] __attribute__((aligned(64)));        /* of a half: [2 groups][64 keys][16 queries] */
  uint weight[2 * 2 * TILE_FP32] __attribute__((aligned(64)));        /* of a half: [2 groups][32 pairs of keys][16 queries] */
  ushort value[TILE_BF16] __attribute__((aligned(64)));               /* a tile without what is not finite */
  float16 start[4];                                                   /* -base; 0 until something was seen */
  float16 sum[4];
  int16 seen[4]; /* the query has seen something */
  int16 limit[4];
  uint16 low[4];
  int known[4]; /* every query of the group that exists has seen something */
  int met[4];   /* at least one has */
  int position[64] __attribute__((aligned(64)));
  int slot[64] __attribute__((aligned(64)));
  int row[64] __attribute__((aligned(64)));
  int last_position[4], first_position[4], last_slot[4], first_slot[4];
  tile_extent extent;
  int ahead;      /* queries of the next tile that are on their way */
  int careful;    /* round: 0 plain, 1 and 2 for tiles that did not come out finite (do_keys) */
  int subnormals; /* blocks with subnormal values were met */
  int adding;     /* the round that adds those */
} tile_state;

/* What one group of 16 queries takes from a block. Bounds are even. */
typedef struct key_span {
  int first, last; /* keys that any of them may see */
  int open;        /* the keys before it need no test */
} key_span;

/* ---- scores ---- */

/* Groups from .. to-1 of 16 keys. */
static __attribute__((noinline)) void find_scores(tile_state *t, int side, global const ushort *key, int from, int to) {
  const uint *query = t->query + side * 2 * TILE_FP32;
  for (int k = from; k < to; k += 2) {
    float *score = t->score + k * TILE_FP32;
    global const ushort *rows = key + k * DIM_TILES * TILE_BF16;
    const int both = k + 1 < to;
    TILE_ZERO(0);
    TILE_ZERO(1);
    if (both) {
      TILE_ZERO(2);
      TILE_ZERO(3);
    }
    EACH(x, DIM_TILES) {
      TILE_LOAD(4, rows + x * TILE_BF16);
      TILE_LOAD(6, query + x * 4 * TILE_FP32);
      TILE_LOAD(7, query + x * 4 * TILE_FP32 + TILE_FP32);
      TILE_MULTIPLY(0, 4, 6);
      TILE_MULTIPLY(1, 4, 7);
      if (both) {
        TILE_LOAD(5, rows + (DIM_TILES + x) * TILE_BF16);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
      }
    }
    TILE_STORE(0, score);
    TILE_STORE(1, score + 4 * TILE_FP32);
    if (both) {
      TILE_STORE(2, score + TILE_FP32);
      TILE_STORE(3, score + 5 * TILE_FP32);
    }
  }
}

/* ---- weights ---- */

INLINE float16 relative(float16 score, float16 start, const bands *b) {
#if SOFTCAP
  return b->softcap * tanh(score * b->scale_after / b->softcap) + start;
#else
  return fma(score, (float16)(b->scale_after), start);
#endif
}

INLINE int16 shown(const tile_state *t, int g, const block_keys *keys, int j, int mask, const bands *b) {
  int16 seen = (int16)(keys->position[j]) <= t->limit[g];
  if (mask & MASK_BAND) seen &= (uint16)((uint)keys->slot[j]) - t->low[g] <= (uint16)(b->span);
  if (mask & MASK_OUTSIDE) seen &= (uint16)((uint)keys->slot[j]) - t->low[g] > (uint16)(b->span);
  return seen;
}

/* Two vectors as bf16, element by element side by side, rounded to nearest even; NaN stays NaN. */
INLINE uint16 exact_pair_of(float16 even, float16 odd) {
  return convert_uint16(bf16_round(even)) | convert_uint16(bf16_round(odd)) << 16;
}

/* The same, but subnormal numbers may become zeros. */
INLINE uint16 pair_of(float16 even, float16 odd) {
#if SATTN_BF16_PAIRS && defined(__AVX512BW__)
  const uint16 order = {0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007,
                        0x180008, 0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f};
  uint16 apart, pair;
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(apart) : "v"(even), "v"(odd));
  __asm__("vpermw %1, %2, %0" : "=v"(pair) : "v"(apart), "v"(order));
  return pair;
#else
  return exact_pair_of(even, odd);
#endif
}

/* Weights of the keys from .. to-1 into the tile; their sums. `mask` 0: all of them are seen. */
INLINE float16 weigh_keys(tile_state *t, int g, const block_keys *keys, int from, int to, int mask, const bands *b) {
  const float16 *score = (const float16 *)(t->score + g % 2 * 4 * TILE_FP32);
  uint16 *weight = (uint16 *)(t->weight + g % 2 * 2 * TILE_FP32);
  const float16 start = t->start[g];
  float16 even_total = 0.0f, odd_total = 0.0f;
  for (int j = from; j < to; j += 2) {
    float16 even = relative(score[j], start, b), odd = relative(score[j + 1], start, b);
    if (mask) {
      even = select((float16)(-INFINITY), even, shown(t, g, keys, j, mask, b));
      odd = select((float16)(-INFINITY), odd, shown(t, g, keys, j + 1, mask, b));
    }
    even = exp2_weight(even);
    odd = exp2_weight(odd);
    even_total += even;
    odd_total += odd;
    weight[j / 2] = pair_of(even, odd);
  }
  return even_total + odd_total;
}

INLINE float16 weigh_span(tile_state *t, int g, const block_keys *keys, key_span at, int mask, const bands *b) {
  const float16 total = weigh_keys(t, g, keys, at.first, at.open, 0, b);
  return total + weigh_keys(t, g, keys, at.open, at.last, mask, b);
}

/* The highest score of each query, relative to its base. */
INLINE float16 highest(const tile_state *t, int g, const block_keys *keys, key_span at, int mask, const bands *b) {
  const float16 *score = (const float16 *)(t->score + g % 2 * 4 * TILE_FP32);
  float16 high = -INFINITY;
  for (int j = at.first; j < at.last; ++j) {
    float16 s = relative(score[j], t->start[g], b);
    if (j >= at.open) s = select((float16)(-INFINITY), s, shown(t, g, keys, j, mask, b));
    high = fmax(high, s);
  }
  return high;
}

/* Raises the bases of queries that have seen nothing yet or whose weights are huge, and weighs anew. Other queries come out as if this had
 * not happened, to the bit. */
static __attribute__((noinline)) void look_again(tile_state *t, int g, const block_keys *keys, key_span at, int mask, const bands *b,
                                                 float16 total) {
  const int16 seen = t->seen[g];
  const float most = t->careful == 2 ? 0.0f : HUGE_WEIGHT;
  float16 raise = highest(t, g, keys, at, mask, b);
  raise = select(raise, (float16)(0.0f), raise == (float16)(-INFINITY));
  raise = select(raise, fmax(raise, (float16)(0.0f)), seen);
  raise = select((float16)(0.0f), raise, ~seen | ~(total < (float16)(most)));
  const float16 shrink = select((float16)(1.0f), exp2_weight(fmin(-raise, (float16)(0.0f))), seen);
  t->start[g] -= raise;
  t->sum[g] = t->sum[g] * shrink + weigh_span(t, g, keys, at, mask, b);
  if (any(shrink != (float16)(1.0f))) {
    for (int r = 0; r < ROW_TILES; ++r) {
      float16 *out = (float16 *)(t->out + (r * 4 + g) * TILE_FP32);
      for (int x = 0; x < 16; ++x) out[x] *= shrink;
    }
  }
  t->seen[g] = t->sum[g] != (float16)(0.0f);
  t->met[g] = any(t->seen[g]);
  t->known[g] = all(t->seen[g] | (t->limit[g] < 0));
}

/* Weights of a group and zeros around them, over the keys begin .. end-1 that add_values will take. */
static __attribute__((noinline)) void weigh_group(tile_state *t, int g, const block_keys *keys, key_span at, int mask, const bands *b,
                                                  int begin, int end) {
  uint16 *weight = (uint16 *)(t->weight + g % 2 * 2 * TILE_FP32);
  for (int j = begin; j < min(at.first, end); j += 2) weight[j / 2] = 0u;
  for (int j = max(at.last, begin); j < end; j += 2) weight[j / 2] = 0u;
  if (at.first >= at.last) return;
  const float16 total = t->met[g] ? weigh_span(t, g, keys, at, mask, b) : (float16)(0.0f);
  if (!t->known[g] || t->careful == 2 || is_huge(as_uint16(total)))
    look_again(t, g, keys, at, mask, b, total);
  else
    t->sum[g] += total;
}

/* ---- values ---- */

/* Adds the values of keys 32 from .. 32 to - 1 to rows r and, if `both`, r + 1 of sums. */
INLINE void add_rows(tile_state *t, int side, global const ushort *value, int from, int to, int r, int both) {
  float *out = t->out + (r * 4 + side * 2) * TILE_FP32;
  TILE_LOAD(0, out);
  TILE_LOAD(1, out + TILE_FP32);
  if (both) {
    TILE_LOAD(2, out + 4 * TILE_FP32);
    TILE_LOAD(3, out + 5 * TILE_FP32);
  }
  for (int c = from; c < to; ++c) {
    global const ushort *columns = value + (c * ROW_TILES + r) * TILE_BF16;
    TILE_LOAD(4, columns);
    TILE_LOAD(6, t->weight + c * TILE_FP32);
    TILE_LOAD(7, t->weight + (2 + c) * TILE_FP32);
    TILE_MULTIPLY(0, 4, 6);
    TILE_MULTIPLY(1, 4, 7);
    if (both) {
      TILE_LOAD(5, columns + TILE_BF16);
      TILE_MULTIPLY(2, 5, 6);
      TILE_MULTIPLY(3, 5, 7);
    }
  }
  TILE_STORE(0, out);
  TILE_STORE(1, out + TILE_FP32);
  if (both) {
    TILE_STORE(2, out + 4 * TILE_FP32);
    TILE_STORE(3, out + 5 * TILE_FP32);
  }
}

static __attribute__((noinline)) void add_values(tile_state *t, int side, global const ushort *value, int from, int to) {
  EACH(r, ROW_TILES / 2) add_rows(t, side, value, from, to, 2 * r, 1);
  if (ROW_TILES % 2) add_rows(t, side, value, from, to, ROW_TILES - 1, 0);
}

/* What value v of key j adds to dimension r * 16 + x: to queries with a weight, and to no others. */
static void add_alone(tile_state *t, int side, int j, float v, int r, int x) {
  for (int g = 0; g < 2; ++g) {
    const uint16 pair = *(const uint16 *)(t->weight + (g * 32 + j / 2) * 16);
    const float16 weight = as_float16(j % 2 ? pair & 0xffff0000u : pair << 16);
    float16 *out = (float16 *)(t->out + (r * 4 + side * 2 + g) * TILE_FP32) + x;
    *out = select(*out + weight * v, *out, weight == (float16)(0.0f));
  }
}

/* The same for a tile that did not come out finite: a hidden value that is not finite times its zero weight is a NaN that does not belong
 * there. Such values are taken out of the products, which then have the bits that they have without them, and added where weights are. */
static __attribute__((noinline)) void add_values_carefully(tile_state *t, int side, global const ushort *value, int from, int to) {
  for (int r = 0; r < ROW_TILES; ++r) {
    float *out = t->out + (r * 4 + side * 2) * TILE_FP32;
    for (int c = from; c < to; ++c) {
      global const ushort *columns = value + (c * ROW_TILES + r) * TILE_BF16;
      for (int i = 0; i < TILE_BF16; ++i) t->value[i] = (columns[i] & 0x7f80) == 0x7f80 ? 0 : columns[i];
      TILE_LOAD(0, out);
      TILE_LOAD(1, out + TILE_FP32);
      TILE_LOAD(4, t->value);
      TILE_LOAD(6, t->weight + c * TILE_FP32);
      TILE_LOAD(7, t->weight + (2 + c) * TILE_FP32);
      TILE_MULTIPLY(0, 4, 6);
      TILE_MULTIPLY(1, 4, 7);
      TILE_STORE(0, out);
      TILE_STORE(1, out + TILE_FP32);
      for (int i = 0; i < TILE_BF16; ++i) {
        if (t->value[i] != columns[i]) add_alone(t, side, c * 32 + i % 32, as_float((uint)columns[i] << 16), r, i / 32);
      }
    }
  }
}

/* Subnormal values, which products take for zeros. Added when all products are done, because those take subnormal sums for zeros as well.
 */
static __attribute__((noinline)) void add_subnormals(tile_state *t, int side, global const ushort *value, int from, int to) {
  for (int i = from * ROW_TILES * TILE_BF16; i < to * ROW_TILES * TILE_BF16; ++i) {
    const int row = i / 32, r = row / 16 % ROW_TILES, c = row / 16 / ROW_TILES;
    if (is_subnormal(value[i])) add_alone(t, side, c * 32 + i % 32, as_float((uint)value[i] << 16), r, row % 16);
  }
}
