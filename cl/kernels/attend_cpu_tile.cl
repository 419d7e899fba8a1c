/* The micro-kernels of attend_cpu.cl: four query rows against one block of keys, everything between scores and weights in registers.
 *
 *                 64 keys of a block, 16 to a vector
 *               +-------+-------+-------+-------+
 *       row 0   | s[0]  | s[1]  | s[2]  | s[3]  |      scores: for each of d dimensions up to 4 packed key vectors,
 *       row 1   | s[4]    ...                   |              4 broadcast query elements, 16 multiply-adds
 *       row 2   |                               |      weights: exp2 in place, stored (1 KiB), summed by lane
 *       row 3   +-------+-------+-------+-------+      values:  for each key 4 value vectors, 4 broadcast weights
 *
 * A row's scores are relative to its `base`, the maximum it had met when it last looked: accumulators start at -base, so subtracting costs
 * nothing, and no maximum is taken at all unless a weight grows beyond HUGE_WEIGHT. Then, and until a row has seen something, the block is
 * done with `look_again`, which raises the base. Any base gives the same result up to rounding. Weights of hidden keys are exact zeros, and
 * so are those below 2^-126: a subnormal weight would make the multiply-adds several times slower.
 */
/* Four rows of a tile: what their queries see, and their running softmax. */
typedef struct row_group {
  const float *query; /* [4][HEAD_DIM], times the scale */
  float *start;       /* [4] -base; 0 until something was seen */
  float16 *sum;       /* [4] weights so far, by lane */
  const int *limit;   /* [tokens] last position seen; -1: none */
  const uint *low;    /* [tokens] slot - left: a key is in the band if its slot minus this is at most `span` */
  const uint *other_low;
  float most; /* weights from here on raise bases: HUGE_WEIGHT, or 0 where sums of such weights times values overflow */
#if CAP_SLOPES
  float *slope; /* [4][64] of the cap, where the scores stand */
#endif
} row_group;

/* fp32 scores come out of the accumulators as they are: queries were scaled when they were read. Products of half types are exact in fp32,
 * and unscaled sums of them nearly so, which very large raw scores need; those are scaled afterwards. */
#if SOFTCAP
INLINE float16 capped(float16 s, const bands *b) {
  return b->softcap * tanh(s * b->scale_after / b->softcap);
}

#if CAP_SLOPES
/* 1 - tanh^2 as 4 e / (1 + e)^2, e = exp(-2 |x|): digits stay where scores are far beyond the cap, or the cap is small beside LSE. Where
 * double precision has a tanh of 1, it is 0. */
INLINE float16 slope_of_cap(float16 s, const bands *b) {
  const float16 e = exp(-2.0f * fabs(s * b->scale_after / b->softcap));
  return select(4.0f * e / ((1.0f + e) * (1.0f + e)), (float16)(0.0f), e < (float16)(0x1p-55f));
}
#endif

#define SCORES_START(start)     (float16)(0.0f)
#define SCORES_END(s, start, b) (capped(s, b) + (start))
#elif DTYPE == 1
#define SCORES_START(start)     (float16)(start)
#define SCORES_END(s, start, b) (s)
#else
#define SCORES_START(start)     (float16)(0.0f)
#define SCORES_END(s, start, b) fma(s, (float16)((b)->scale_after), (float16)(start))
#endif

INLINE int16 visible(const row_group *rows, int r, const block_keys *keys, int column, int mask, const bands *b) {
  const int token = r / HEADS_PER_TILE;
  int16 seen = vload16(0, keys->position + column) <= (int16)(rows->limit[token]);
  if (mask & MASK_BAND) seen &= as_uint16(vload16(0, keys->slot + column)) - rows->low[token] <= (uint16)(b->span);
  if (mask & MASK_OUTSIDE) seen &= as_uint16(vload16(0, keys->slot + column)) - rows->low[token] > (uint16)(b->span);
#if OTHER
  if (mask & MASK_OTHER) seen &= as_uint16(vload16(0, keys->other + column)) - rows->other_low[token] > (uint16)(b->other_span);
#endif
  return seen;
}

/* Weights of one row from its scores relative to `raise`, in place; their sum by lane. */
INLINE float16 weigh_row(float16 *s, int vectors, float raise) {
  float16 total = 0.0f;
  for (int c = 0; c < vectors; ++c) {
    s[c] = exp2_weight(s[c] - raise);
    total = c ? total + s[c] : s[c];
  }
  return total;
}

/* Scores of four rows, in `weight`, to weights, raising the bases of rows that have seen nothing yet or whose weights are huge. Other rows
 * come out as if this had not happened, to the bit, so no row depends on another. Bases never fall once a row has seen something, and stay
 * where it sees nothing here. Earlier sums (and, by the caller, outputs) are multiplied by `shrink`. */
static __attribute__((noinline)) void look_again(int vectors, const row_group *rows, float *weight, float *shrink) {
  for (int r = 0; r < 4; ++r) {
    float16 scores[4];
    for (int c = 0; c < vectors; ++c) scores[c] = vload16(c, weight + r * 64);
    const int seen = sum_of(rows->sum[r]) != 0.0f;
    shrink[r] = 1.0f;
    if (seen) {
      const float16 total = weigh_row((float16 *)(weight + r * 64), vectors, 0.0f);
      if (all(total < (float16)(rows->most))) {
        rows->sum[r] += total;
        continue;
      }
    }
    float16 high = scores[0];
    for (int c = 1; c < vectors; ++c) high = fmax(high, scores[c]);
    float raise = max_of(high);
    if (raise == -INFINITY) raise = 0.0f;
    if (seen) raise = fmax(raise, 0.0f);
    for (int c = 0; c < vectors; ++c) vstore16(scores[c], c, weight + r * 64);
    rows->start[r] -= raise;
    shrink[r] = exp2_weight((float16)(fmin(-raise, 0.0f))).s0;
    rows->sum[r] = rows->sum[r] * shrink[r] + weigh_row((float16 *)(weight + r * 64), vectors, raise);
  }
}

#if CAP_SLOPES
#define KEEP_SLOPES(N) EACH(r, 4) EACH(c, N) * (float16 *)(rows->slope + r * 64 + c * 16) = slope_of_cap(s[r][c], b);
#else
#define KEEP_SLOPES(N)
#endif

/* Four rows against N vectors of 16 keys from `column` on. Leaves weights in `weight` [4][64] and adds them to the sums. Returns 1 if bases
 * were raised, -1 (and has changed nothing) if they should have been. A macro, because arrays live in registers only
 * where every loop over them has a constant bound before inlining. */
#define DEFINE_WEIGH(N)                                                                                                              \
  INLINE int weigh_##N(const row_group *rows, const block_keys *keys, int column, int mask, const bands *b, int look, float *weight, \
                       float *shrink) {                                                                                              \
    float16 s[4][N];                                                                                                                 \
    EACH(r, 4) EACH(c, N) s[r][c] = SCORES_START(rows->start[r]);                                                                    \
    global const float *key = keys->key + column;                                                                                    \
    const float *query = rows->query;                                                                                                \
    _Pragma("unroll 4") for (int x = 0; x < HEAD_DIM; ++x, key += 64, ++query) {                                                     \
      float16 k[N];                                                                                                                  \
      EACH(c, N) k[c] = vload16(c, key);                                                                                             \
      EACH(r, 4) {                                                                                                                   \
        const float16 q = (float16)(query[r * HEAD_DIM]);                                                                            \
        EACH(c, N) s[r][c] = fma(q, k[c], s[r][c]);                                                                                  \
      }                                                                                                                              \
    }                                                                                                                                \
    KEEP_SLOPES(N)                                                                                                                   \
    EACH(r, 4) EACH(c, N) s[r][c] = SCORES_END(s[r][c], rows->start[r], b);                                                          \
    if (mask) {                                                                                                                      \
      EACH(r, 4) EACH(c, N) s[r][c] = select((float16)(-INFINITY), s[r][c], visible(rows, r, keys, column + c * 16, mask, b));       \
    }                                                                                                                                \
    if (look) {                                                                                                                      \
      EACH(r, 4) EACH(c, N) * (float16 *)(weight + r * 64 + c * 16) = s[r][c];                                                       \
      look_again(N, rows, weight, shrink);                                                                                           \
      return 1;                                                                                                                      \
    }                                                                                                                                \
    float16 total[4];                                                                                                                \
    EACH(r, 4) {                                                                                                                     \
      total[r] = 0.0f;                                                                                                               \
      EACH(c, N) {                                                                                                                   \
        const float16 w = exp2_weight(s[r][c]);                                                                                      \
        *(float16 *)(weight + r * 64 + c * 16) = w;                                                                                  \
        total[r] = c ? total[r] + w : w;                                                                                             \
      }                                                                                                                              \
    }                                                                                                                                \
    if (is_huge(max(max(as_uint16(total[0]), as_uint16(total[1])), max(as_uint16(total[2]), as_uint16(total[3]))))) return -1;       \
    EACH(r, 4) rows->sum[r] += total[r];                                                                                             \
    return 0;                                                                                                                        \
  }

DEFINE_WEIGH(1)
DEFINE_WEIGH(2)
DEFINE_WEIGH(3)
DEFINE_WEIGH(4)

INLINE int weigh(const row_group *rows, const block_keys *keys, int column, int last, int mask, const bands *b, int look, float *weight,
                 float *shrink) {
  const int vectors = (last - column + 15) / 16;
  if (vectors == 4) return weigh_4(rows, keys, column, mask, b, look, weight, shrink);
  if (vectors == 3) return weigh_3(rows, keys, column, mask, b, look, weight, shrink);
  if (vectors == 2) return weigh_2(rows, keys, column, mask, b, look, weight, shrink);
  return weigh_1(rows, keys, column, mask, b, look, weight, shrink);
}

/* Adds weight * value of `count` keys to four output rows, COLUMNS vectors at a time; rounded up to KEYS_AT_ONCE, where weights are zero.
 */
#define KEYS_AT_ONCE 4

INLINE void add_values(const float *weight, global const float *value, int count, float *out) {
  for (int part = 0; part < HEAD_DIM; part += 16 * COLUMNS) {
    float *o = out + part;
    float16 sum[4 * COLUMNS];
    EACH(r, 4) {
      EACH(c, COLUMNS) sum[r * COLUMNS + c] = *(float16 *)(o + r * HEAD_DIM + c * 16);
    }
    global const float *v = value + part;
    const float *w = weight;
    for (int j = 0; j < count; j += KEYS_AT_ONCE, v += KEYS_AT_ONCE * HEAD_DIM, w += KEYS_AT_ONCE) {
      EACH(u, KEYS_AT_ONCE) {
        float16 each[COLUMNS];
        EACH(c, COLUMNS) each[c] = vload16(c, v + u * HEAD_DIM);
        EACH(r, 4) {
          const float16 share = (float16)(w[r * 64 + u]);
          EACH(c, COLUMNS) sum[r * COLUMNS + c] = fma(share, each[c], sum[r * COLUMNS + c]);
        }
      }
    }
    EACH(r, 4) {
      EACH(c, COLUMNS) * (float16 *)(o + r * HEAD_DIM + c * 16) = sum[r * COLUMNS + c];
    }
  }
}

/* The same for outputs that did not come out finite: a hidden value row with a NaN times its zero weight is a NaN that does not belong
 * there. Zero weights are left out, the others added in the same order, so that the outputs have the bits that they have without the NaN.
 */
static __attribute__((noinline)) void add_values_carefully(const float *weight, global const float *value, int count, float *out) {
  for (int r = 0; r < 4; ++r) {
    for (int j = 0; j < count; ++j) {
      const float share = weight[r * 64 + j];
      if (share == 0.0f) continue;
      for (int x = 0; x < HEAD_DIM; ++x) out[r * HEAD_DIM + x] = fma(share, value[j * HEAD_DIM + x], out[r * HEAD_DIM + x]);
    }
  }
}
