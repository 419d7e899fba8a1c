/* Elements of the call's dtype as fp32, one or eight at a time. DTYPE: 1 fp32, 2 fp16, 3 bf16 (sattn_dtype).
 *
 * Needs neither cl_khr_fp16 nor fp64: fp16 goes through vload_half and vstore_half, which OpenCL 1.0 already has for storage, and bf16 is
 * the upper half of an fp32. Stores round to nearest even. Indices are 64-bit. Loads never go beyond the elements asked for.
 */
#ifndef DTYPE
#define DTYPE 1
#endif

static inline ushort bf16_from_float(float value) {
  uint bits = as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u); /* rounding must not turn a NaN into infinity */
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#if DTYPE == 1
typedef float element;

static inline float load_element(__global const element *array, long index) {
  return array[index];
}
static inline float8 load_eight(__global const element *array, long index) {
  return vload8(0, array + index);
}
static inline void store_element(float value, __global element *array, long index) {
  array[index] = value;
}
#elif DTYPE == 2
typedef half element;

static inline float load_element(__global const element *array, long index) {
  return vload_half(0, array + index);
}
/* The bits come by vload8: vload_half8 may lie at any half, too, but PoCL hands it to the compiler as a whole aligned vector, and where
 * that becomes a load of its own, an odd offset ends the process. */
static inline float8 load_eight(__global const element *array, long index) {
  const ushort8 bits = vload8(0, (__global const ushort *)array + index);
  return vload_half8(0, (const __private half *)&bits);
}
static inline void store_element(float value, __global element *array, long index) {
  vstore_half_rte(value, 0, array + index);
}
#else
typedef ushort element;

static inline float load_element(__global const element *array, long index) {
  return as_float((uint)array[index] << 16);
}
static inline float8 load_eight(__global const element *array, long index) {
  return as_float8(convert_uint8(vload8(0, array + index)) << 16);
}
static inline void store_element(float value, __global element *array, long index) {
  array[index] = bf16_from_float(value);
}
#endif

static inline float sum_of_eight(float8 v) {
  return ((v.s0 + v.s4) + (v.s1 + v.s5)) + ((v.s2 + v.s6) + (v.s3 + v.s7));
}

/* d tanh(x) / dx: 1 - tanh^2 as 4 e / (1 + e)^2, which keeps its digits far beyond the cap. Where double precision has a tanh of 1, it is
 * 0. */
static inline float slope_of_tanh(float x) {
  const float e = exp(-2.0f * fabs(x));
  return e < 0x1p-55f ? 0.0f : 4.0f * e / ((1.0f + e) * (1.0f + e));
}
