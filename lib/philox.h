/* The generator behind permutation format version 1. Compiles as C, OpenCL C and CUDA; all three must agree to the bit for ever.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a keyed bijection of four 32-bit counter words.
 * Stateless, so a token's sort key can be computed anywhere in any order. Source of the use: contract section 3.
 */
#ifndef SATTN_LIB_PHILOX_H
#define SATTN_LIB_PHILOX_H

#if defined(__OPENCL_VERSION__)
typedef uint sattn_u32;
typedef ulong sattn_u64;
#define SATTN_EVERYWHERE static inline
#else
#include <stdint.h>
typedef uint32_t sattn_u32;
typedef uint64_t sattn_u64;
#if defined(__CUDACC__)
#define SATTN_EVERYWHERE static __host__ __device__ __forceinline__
#else
#define SATTN_EVERYWHERE static inline
#endif
#endif

#define SATTN_PHILOX_MULTIPLIER_0 0xD2511F53u
#define SATTN_PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define SATTN_PHILOX_WEYL_0       0x9E3779B9u
#define SATTN_PHILOX_WEYL_1       0xBB67AE85u

typedef struct sattn_philox_words {
  sattn_u32 word[4];
} sattn_philox_words;

SATTN_EVERYWHERE sattn_philox_words sattn_philox4x32_10(sattn_philox_words counter, sattn_u32 key_0, sattn_u32 key_1) {
  for (int round = 0; round < 10; ++round) {
    sattn_u64 product_0 = (sattn_u64)SATTN_PHILOX_MULTIPLIER_0 * counter.word[0];
    sattn_u64 product_1 = (sattn_u64)SATTN_PHILOX_MULTIPLIER_1 * counter.word[2];
    sattn_philox_words next;
    next.word[0] = (sattn_u32)(product_1 >> 32) ^ counter.word[1] ^ key_0;
    next.word[1] = (sattn_u32)product_1;
    next.word[2] = (sattn_u32)(product_0 >> 32) ^ counter.word[3] ^ key_1;
    next.word[3] = (sattn_u32)product_0;
    counter = next;
    key_0 += SATTN_PHILOX_WEYL_0;
    key_1 += SATTN_PHILOX_WEYL_1;
  }
  return counter;
}

/* The number that tokens are sorted by; equal numbers are ordered by token. */
SATTN_EVERYWHERE sattn_u64 sattn_sort_key(sattn_u32 token, sattn_u64 seed, sattn_u32 layer, sattn_u32 substream, sattn_u32 step) {
  sattn_philox_words counter;
  counter.word[0] = token;
  counter.word[1] = step;
  counter.word[2] = layer;
  counter.word[3] = substream;
  sattn_philox_words drawn = sattn_philox4x32_10(counter, (sattn_u32)seed, (sattn_u32)(seed >> 32));
  return ((sattn_u64)drawn.word[1] << 32) | drawn.word[0];
}

#endif
