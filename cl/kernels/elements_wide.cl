/* Elements of the call's dtype as fp32, 16 at a time: what one vector register of a CPU holds. The twin of elements.cl for kernels that
 * work in whole vectors. DTYPE: 1 fp32, 2 fp16 (vload_half needs no cl_khr_fp16), 3 bf16 (the upper half of an fp32).
 */
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
#define PAST_CACHES(value, address) __builtin_nontemporal_store(value, address)
#endif
#endif

#if DTYPE == 1
typedef float stored;
#elif DTYPE == 2
typedef half stored;
#else
typedef ushort stored;
#endif

/* Halves by way of their bits: see load_eight in elements.cl. */
static inline float16 stored_load(global const stored *row) {
#if DTYPE == 1
  return vload16(0, row);
#elif DTYPE == 2
  const ushort16 bits = vload16(0, (global const ushort *)row);
  return vload_half16(0, (const private half *)&bits);
#else
  return as_float16(convert_uint16(vload16(0, row)) << 16);
#endif
}

#if DTYPE == 3
/* Round to nearest even by adding; a NaN must not carry into infinity, so it keeps its upper bits and becomes quiet. */
static inline ushort16 bf16_round(float16 value) {
  uint16 bits = as_uint16(value);
  uint16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint16 quiet = (bits >> 16) | 0x40u;
  return convert_ushort16(select(rounded, quiet, isnan(value)));
}
#endif

/* For rows that are written once and read much later: past the caches where the compiler can say so and the address allows it. Without, a
 * core first reads every line that it is about to overwrite. */
static inline void stream(float16 value, global float *row) {
#ifdef PAST_CACHES
  if (((size_t)row & 63) == 0) {
    PAST_CACHES(value, (global float16 *)row);
    return;
  }
#endif
  vstore16(value, 0, row);
}

static inline void stored_store(float16 value, global stored *row) {
#if DTYPE == 1
  stream(value, row);
#elif DTYPE == 2
  ushort16 bits;
  vstore_half16_rte(value, 0, (private half *)&bits);
  vstore16(bits, 0, (global ushort *)row);
#else
  vstore16(bf16_round(value), 0, row);
#endif
}
