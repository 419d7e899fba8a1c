/* What the CPU kernels that walk lists share: weights and bands of blocks.
 *
 * PACKED, KEY_BLOCK, VALUE_BLOCK: elements of packed blocks of 64 keys and how many a block has; set by kernels that pack otherwise than
 * pack.cl does.
 */
#ifdef PACKED
typedef PACKED packed_element;
#else
typedef float packed_element;
#define KEY_BLOCK   (64 * HEAD_DIM) /* [HEAD_DIM][64] */
#define VALUE_BLOCK (64 * HEAD_DIM) /* [64][HEAD_DIM] */
#endif

#define NEVER       0x7fffffff
#define HUGE_WEIGHT 1048576.0f

/* Tests that a block needs. OUTSIDE: the keys inside the band are hidden, not the others (sink tokens). */
#define MASK_POSITION 1
#define MASK_BAND     2
#define MASK_OUTSIDE  4
#define MASK_OTHER    8

#define INLINE        __attribute__((always_inline)) static inline
#define EACH(i, n)    _Pragma("unroll") for (int i = 0; i < (n); ++i)

#if defined(__AVX512F__) && !defined(SATTN_NO_AVX512) /* for tests: the other half of exp2_weight */
#if __has_builtin(__builtin_ia32_scalefps512_mask) && __has_builtin(__builtin_ia32_reduceps512_mask)
#define FRACTION(x) __builtin_ia32_reduceps512_mask(x, 9, (float16)(0.0f), (short)-1, 4)
#define SCALE(p, x) __builtin_ia32_scalefps512_mask(p, x, (float16)(0.0f), (short)-1, 4)
#endif
#endif

/* 2^x to 2e-7, exactly 1 at 0, exactly 0 below -126, 2^127 or more from 127 on; NaN stays NaN. Where the processor splits and scales by
 * itself, that saves five of twelve instructions. */
INLINE float16 exp2_weight(float16 x) {
#ifdef SCALE
  const float16 f = FRACTION(x);
  float16 p = fma(f, (float16)(1.867130213e-3f), (float16)(9.017030019e-3f));
  p = fma(p, f, (float16)(5.579991332e-2f));
  p = fma(p, f, (float16)(2.401644501e-1f));
  p = fma(p, f, (float16)(6.931513118e-1f));
  p = fma(p, f, (float16)(1.0f));
  return select(SCALE(p, x), (float16)(0.0f), x < (float16)(-126.0f));
#else
  const float16 magic = 12583039.0f; /* 1.5 * 2^23 + 127: the last bits of a sum with it are the exponent of 2^x */
  float16 y = select(x, (float16)(-127.0f), x < (float16)(-126.0f));
  y = select(y, (float16)(127.0f), y > (float16)(127.0f));
  const float16 t = y + magic, f = y - (t - magic);
  float16 p = fma(f, (float16)(1.326472725e-3f), (float16)(9.671512688e-3f));
  p = fma(p, f, (float16)(5.550733744e-2f));
  p = fma(p, f, (float16)(2.402224208e-1f));
  p = fma(p, f, (float16)(6.931469776e-1f));
  p = fma(p, f, (float16)(1.0f));
  return p * as_float16(as_int16(t) << 23);
#endif
}

INLINE float max_of(float16 v) {
  const float8 a = fmax(v.lo, v.hi);
  const float4 b = fmax(a.lo, a.hi);
  const float2 c = fmax(b.lo, b.hi);
  return fmax(c.x, c.y);
}

INLINE float sum_of(float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  const float2 c = b.lo + b.hi;
  return c.x + c.y;
}

/* Whether a lane is HUGE_WEIGHT or more, or not a number: bits of floats that are not negative are ordered as integers. (any() of a vector
 * would be a branch for every pair of lanes.) */
INLINE int is_huge(uint16 bits) {
  const uint8 a = max(bits.lo, bits.hi);
  const uint4 b = max(a.lo, a.hi);
  const uint2 c = max(b.lo, b.hi);
  return max(c.x, c.y) >= as_uint(HUGE_WEIGHT);
}

typedef struct bands {
  int left;
  uint span;
  int other_left;
  uint other_span;
  float softcap;
  float scale_after; /* of scores; 1 where queries are scaled */
} bands;

typedef struct block_keys {
  global const packed_element *key;
  global const packed_element *value;
  global const int *position;
  global const int *slot;
  global const int *other;
} block_keys;

typedef struct tile_keys {
  global const int *list;
  global const packed_element *key;
  global const packed_element *value;
  global const packed_element *sink_key;
  global const packed_element *sink_value;
  int exists;
  int sinks;
} tile_keys;

/* Extremes of the queries of a tile; high_position < 0: none of them exists. */
typedef struct tile_extent {
  int low_position, high_position, low_slot, high_slot;
} tile_extent;

/* The first block whose last slot is at least `slot`. */
INLINE int find_block(global const int *block_last, int blocks, int slot) {
  int low = 0, high = blocks;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (block_last[middle] < slot)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The blocks begin .. end-1 that the band of a tile touches. */
typedef struct block_range {
  int begin, end;
} block_range;

INLINE void find_band(const tile_extent *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, block_range *band) {
  global const int *block_first = from->list + at->block_first, *block_last = from->list + at->block_last;
  const int blocks = (from->exists + 63) / 64, right = (int)(b->span - (uint)b->left);
  const int low = sub_sat(t->low_slot, b->left), high = add_sat(t->high_slot, right);
  band->begin = find_block(block_last, blocks, low);
  band->end = min(find_block(block_last, blocks, high) + 1, blocks);
  /* Where slots are positions, blocks beyond the last query hold nothing but future. */
  const int last = CAUSAL && SLOT_SORTED ? min(high, t->high_position) : high;
  while (band->end > band->begin && block_first[band->end - 1] > last) --band->end;
}

/* Block `block` of the keys; returns the tests that it needs against this tile. */
INLINE int open_block(block_keys *keys, int block, const tile_extent *t, const tile_keys *from, const sattn_list_layout *at,
                      const bands *b) {
  global const int *block_first = from->list + at->block_first, *block_last = from->list + at->block_last;
  const int right = (int)(b->span - (uint)b->left), whole = block * 64 + 64 <= from->exists;
  keys->key = from->key + block * (long)KEY_BLOCK;
  keys->value = from->value + block * (long)VALUE_BLOCK;
  keys->position = from->list + at->key_position + block * 64;
  keys->slot = from->list + at->key_slot + block * 64;
  keys->other = from->list + at->key_other + block * 64;
  int mask = (OTHER ? MASK_OTHER : 0) | (t->low_position < 0 ? MASK_POSITION : 0);
  if (keys->position[63] > (CAUSAL ? t->low_position : NEVER - 1)) mask |= MASK_POSITION;
  if (!whole || block_first[block] < sub_sat(t->high_slot, b->left) || block_last[block] > add_sat(t->low_slot, right)) mask |= MASK_BAND;
  return mask;
}

/* The same for a block of sink keys. */
INLINE int open_sinks(block_keys *keys, int block, const tile_keys *from, const sattn_list_layout *at) {
  keys->key = from->sink_key + block * (long)KEY_BLOCK;
  keys->value = from->sink_value + block * (long)VALUE_BLOCK;
  keys->position = from->list + at->sink_position + block * 64;
  keys->slot = from->list + at->sink_slot + block * 64;
  keys->other = from->list + at->sink_other + block * 64;
  return MASK_POSITION | MASK_OUTSIDE | (OTHER ? MASK_OTHER : 0);
}
