/* The micro-kernels of attend_cpu_grad.cl beside those of forward: what a (tile, block) pair adds to the gradients.
 *
 *               keys of a block ->                       P   [64][64]  weights, exp2(score - LSE)            (weigh, forward's)
 *            +-------------------+                       dS  [64][64]  P * (<dY, V> - delta) * slope         (find_slopes)
 *    queries |  P, dS: 64 x 64   |   four rows: dQ += dS K                                                   (add_values, forward's)
 *       |    |                   |   four columns: dV += P^T dY, dK += dS^T Q                                (add_queries)
 *       v    +-------------------+
 *
 * Hidden pairs have P = dS = 0 exactly. That hides everything finite; a row with a NaN or an infinity would come through 0 * NaN, so such
 * blocks and tiles are marked when they are read and go the careful way, which touches nothing that has no weight.
 */

/* dS of four rows and N vectors of keys, from the weights of the same place and, with a softcap, its slopes in `slope`. `grad`
 * [4][HEAD_DIM], `value` [HEAD_DIM][64]. */
#define DEFINE_FIND_SLOPES(N)                                                                                                        \
  INLINE void find_slopes_##N(const float *grad, const float *delta, global const float *value, const float *weight, float *slope) { \
    float16 s[4][N];                                                                                                                 \
    EACH(r, 4) EACH(c, N) s[r][c] = (float16)(-delta[r]);                                                                            \
    _Pragma("unroll 4") for (int x = 0; x < HEAD_DIM; ++x, value += 64, ++grad) {                                                    \
      float16 v[N];                                                                                                                  \
      EACH(c, N) v[c] = vload16(c, value);                                                                                           \
      EACH(r, 4) {                                                                                                                   \
        const float16 g = (float16)(grad[r * HEAD_DIM]);                                                                             \
        EACH(c, N) s[r][c] = fma(g, v[c], s[r][c]);                                                                                  \
      }                                                                                                                              \
    }                                                                                                                                \
    EACH(r, 4) EACH(c, N) {                                                                                                          \
      const float16 w = *(const float16 *)(weight + r * 64 + c * 16);                                                                \
      *(float16 *)(slope + r * 64 + c * 16) = select((float16)(0.0f), w * s[r][c] * CAPPED_SLOPE(r, c), w != (float16)(0.0f));       \
    }                                                                                                                                \
  }

#if SOFTCAP
#define CAPPED_SLOPE(r, c) (*(const float16 *)(slope + (r)*64 + (c)*16))
#else
#define CAPPED_SLOPE(r, c) 1.0f
#endif

DEFINE_FIND_SLOPES(1)
DEFINE_FIND_SLOPES(2)
DEFINE_FIND_SLOPES(3)
DEFINE_FIND_SLOPES(4)

INLINE void find_slopes(int vectors, const float *grad, const float *delta, global const float *value, const float *weight, float *slope) {
  if (vectors == 4) find_slopes_4(grad, delta, value, weight, slope);
  if (vectors == 3) find_slopes_3(grad, delta, value, weight, slope);
  if (vectors == 2) find_slopes_2(grad, delta, value, weight, slope);
  if (vectors == 1) find_slopes_1(grad, delta, value, weight, slope);
}

/* Adds weight * row of `count` queries, a multiple of four, to the sums of four keys. `weight` [count][64], of which four columns count. */
INLINE void add_queries(const float *weight, const float *row, int count, global float *out) {
  for (int part = 0; part < HEAD_DIM; part += 16 * COLUMNS) {
    global float *o = out + part;
    float16 sum[4 * COLUMNS];
    EACH(r, 4) {
      EACH(c, COLUMNS) sum[r * COLUMNS + c] = vload16(c, o + r * HEAD_DIM);
    }
    const float *from = row + part, *w = weight;
    for (int i = 0; i < count; i += 4, from += 4 * HEAD_DIM, w += 4 * 64) {
      EACH(u, 4) {
        float16 each[COLUMNS];
        EACH(c, COLUMNS) each[c] = *(const float16 *)(from + u * HEAD_DIM + c * 16);
        EACH(r, 4) {
          const float16 share = (float16)(w[u * 64 + r]);
          EACH(c, COLUMNS) sum[r * COLUMNS + c] = fma(share, each[c], sum[r * COLUMNS + c]);
        }
      }
    }
    EACH(r, 4) {
      EACH(c, COLUMNS) vstore16(sum[r * COLUMNS + c], c, o + r * HEAD_DIM);
    }
  }
}

/* The twin of add_values_carefully. */
static __attribute__((noinline)) void add_queries_carefully(const float *weight, const float *row, int count, global float *out) {
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < count; ++i) {
      const float share = weight[i * 64 + r];
      for (int x = 0; x < HEAD_DIM && share != 0.0f; ++x) {
        out[r * HEAD_DIM + x] = fma(share, row[i * HEAD_DIM + x], out[r * HEAD_DIM + x]);
      }
    }
  }
}
