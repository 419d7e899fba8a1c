/* A question with a known answer: whether the tile instructions do here what they should. cl_amx.c holds the answer.
 *
 *     answer[m][n] = m - n + sum over k < 32 of a(m, k) b(k, n)       a(m, k) = (7 m + 5 k) mod 13 - 6,   b(k, n) = (3 k + 11 n) mod 9 - 4
 *
 * All numbers are small integers, so bf16 and fp32 hold them exactly.
 */
static inline ushort bf16_of_integer(int value) {
  return (ushort)(as_uint((float)value) >> 16);
}

/* Grid: one item. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void amx_answer(global float *answer) {
  ushort a[16 * 32] __attribute__((aligned(64))), b[16 * 16 * 2] __attribute__((aligned(64)));
  float c[16 * 16] __attribute__((aligned(64)));
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < 32; ++k) {
      a[m * 32 + k] = bf16_of_integer((7 * m + 5 * k) % 13 - 6);
      b[(k / 2 * 16 + m) * 2 + k % 2] = bf16_of_integer((3 * k + 11 * m) % 9 - 4);
    }
    for (int n = 0; n < 16; ++n) c[m * 16 + n] = (float)(m - n);
  }
  tile_configure();
  TILE_LOAD(0, c);
  TILE_LOAD(4, a);
  TILE_LOAD(6, b);
  TILE_MULTIPLY(0, 4, 6);
  TILE_STORE(0, c);
  TILE_RELEASE();
  for (int i = 0; i < 256; ++i) answer[i] = c[i];
}
