/* How attend_amx packs: bf16, in tiles of 1 KiB that tile instructions take as they are. A block is 64 keys in list order.
 *
 *     packed key    [batch][kv head][block][4 groups of 16 keys][DIM_TILES][16 keys][32 dimensions]        rows as they come
 *     packed value  [batch][kv head][block][2 halves of 32 keys][ROW_TILES][16 dimensions][32 keys]        transposed
 *
 * A head_dim of 80 has keys of 96, of which the last 16 are zeros. Behind the values of a head, counted from the end of its room, stands a
 * mark for each half block: whether it holds subnormal values, which tile instructions take for zeros.
 */
#define DIM_TILES   ((HEAD_DIM + 31) / 32)
#define ROW_TILES   (HEAD_DIM / 16)
#define TILE_BF16   512 /* numbers of a tile: 16 x 32 */
#define TILE_FP32   256 /* 16 x 16 */
#define PACKED      ushort
#define KEY_BLOCK   (4 * DIM_TILES * TILE_BF16)
#define VALUE_BLOCK (2 * ROW_TILES * TILE_BF16)

/* 32 dimensions of a row from `x` on, as 16 pairs; dimensions beyond the last are zeros. */
static inline uint16 load_pairs(global const ushort *row, int x) {
  const uint8 low = as_uint8(vload16(0, row + x));
  const uint8 high = x + 16 < HEAD_DIM ? as_uint8(vload16(0, row + (x + 16 < HEAD_DIM ? x + 16 : 0))) : (uint8)(0u);
  return (uint16)(low, high);
}

/* The other way. Outputs are read much later: past the caches where the place allows it (elements_wide.cl). */
static inline void store_pairs(uint16 pairs, global ushort *row, int x) {
  const int whole = x + 16 < HEAD_DIM;
  if (whole && ((size_t)(row + x) & 63) == 0) {
    stream(as_float16(pairs), (global float *)(row + x));
    return;
  }
  vstore16(as_ushort16(pairs.lo), 0, row + x);
  if (whole) vstore16(as_ushort16(pairs.hi), 0, row + (whole ? x + 16 : 0));
}

/* Where the mark of a half block stands; `head` is the room of a head. */
static inline long mark_of(long head, int block, int side) {
  return head - 1 - 2 * block - side;
}

static inline int is_subnormal(ushort value) {
  return (value & 0x7f80) == 0 && (value & 0x7f) != 0;
}
