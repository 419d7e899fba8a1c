/* Sixteen rows of a packed block: as they are, or transposed in registers. Shared by the packing of forward and of backward.
 */
#define NEVER         0x7fffffff

#define PAIR_LO(a, b) (float16)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5, a.s8, b.s8, a.s9, b.s9, a.sc, b.sc, a.sd, b.sd)
#define PAIR_HI(a, b) (float16)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7, a.sa, b.sa, a.sb, b.sb, a.se, b.se, a.sf, b.sf)
#define DUAL_LO(a, b) (float16)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define DUAL_HI(a, b) (float16)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define QUAD_LO(a, b) (float16)(a.s0123, a.s89ab, b.s0123, b.s89ab)
#define QUAD_HI(a, b) (float16)(a.s4567, a.scdef, b.s4567, b.scdef)

/* Transposes 16 rows of 16 in registers: neighbours, then pairs, then quads. All indices are constants after unrolling. */
__attribute__((always_inline)) static inline void transpose16(float16 a[16]) {
  float16 b[16];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    b[2 * i] = PAIR_LO(a[2 * i], a[2 * i + 1]);
    b[2 * i + 1] = PAIR_HI(a[2 * i], a[2 * i + 1]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[4 * i] = DUAL_LO(b[4 * i], b[4 * i + 2]);
    a[4 * i + 1] = DUAL_HI(b[4 * i], b[4 * i + 2]);
    a[4 * i + 2] = DUAL_LO(b[4 * i + 1], b[4 * i + 3]);
    a[4 * i + 3] = DUAL_HI(b[4 * i + 1], b[4 * i + 3]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    b[i] = QUAD_LO(a[i], a[4 + i]);
    b[4 + i] = QUAD_HI(a[i], a[4 + i]);
    b[8 + i] = QUAD_LO(a[8 + i], a[12 + i]);
    b[12 + i] = QUAD_HI(a[8 + i], a[12 + i]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i] = QUAD_LO(b[i], b[8 + i]);
    a[8 + i] = QUAD_HI(b[i], b[8 + i]);
    a[4 + i] = QUAD_LO(b[4 + i], b[12 + i]);
    a[12 + i] = QUAD_HI(b[4 + i], b[12 + i]);
  }
}

static inline void pack_key(global const stored *key, const long *row, const int *keep, global float *packed) {
  for (int x = 0; x < HEAD_DIM; x += 16) {
    float16 part[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      part[j] = as_float16(as_int16(stored_load(key + row[j] + x)) & keep[j]);
    }
    transpose16(part);
#pragma unroll
    for (int j = 0; j < 16; ++j) stream(part[j], packed + (x + j) * 64);
  }
}

static inline void pack_value(global const stored *value, const long *row, const int *keep, global float *packed) {
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int x = 0; x < HEAD_DIM; x += 16) {
      stream(as_float16(as_int16(stored_load(value + row[j] + x)) & keep[j]), packed + j * HEAD_DIM + x);
    }
  }
}

/* Where sixteen keys stand in an array. Padding reads a row that is there, and keeps nothing of it. */
static inline void find_rows(global const int *position, long stride, long *row, int *keep) {
  for (int j = 0; j < 16; ++j) {
    keep[j] = position[j] == NEVER ? 0 : -1;
    row[j] = (position[j] & keep[j]) * stride;
  }
}
