/* Stage `pack` of attend_amx: brings K and V into list order once, in the tiles of attend_amx_layout.cl.
 *
 *      V rows of 32 keys                              a tile of packed value
 *      +---------------------+                        +--------------------+
 *   k0 | v00 v01 v02 ..      |   pairs of keys        | v00 v10 v20 ..     |  dimension 0 of 32 keys
 *   k1 | v10 v11 v12 ..      |   side by side, then   | v01 v11 v21 ..     |  dimension 1
 *   .. |                     |   16 x 16 pairs        | ..                 |
 *      +---------------------+   transposed           +--------------------+
 *
 * As in pack.cl an item takes all heads of some tokens before it goes on, so that each page is visited once. Padding keys become zeros.
 */
static __attribute__((noinline)) void pack_key_tiles(global const ushort *key, const long *row, const int *keep, global ushort *packed) {
  for (int x = 0; x < DIM_TILES; ++x) {
    for (int j = 0; j < 16; ++j) {
      const uint16 pairs = load_pairs(key + row[j], x * 32) & (uint)keep[j];
      stream(as_float16(pairs), (global float *)(packed + x * TILE_BF16 + j * 32));
    }
  }
}

/* Returns whether there are subnormal values. */
static __attribute__((noinline)) int pack_value_tiles(global const ushort *value, const long *row, const int *keep, global ushort *packed) {
  uint16 least = 0xffffu;
  for (int r = 0; r < ROW_TILES; ++r) {
    float16 pair[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const uint16 even = convert_uint16(vload16(0, value + row[2 * j] + r * 16)) & (uint)keep[2 * j];
      const uint16 odd = convert_uint16(vload16(0, value + row[2 * j + 1] + r * 16)) & (uint)keep[2 * j + 1];
      pair[j] = as_float16(even | odd << 16);
      least = min(least, min((even & 0x7fffu) - 1u, (odd & 0x7fffu) - 1u)); /* zeros become the largest number */
    }
    transpose16(pair);
#pragma unroll
    for (int j = 0; j < 16; ++j) stream(pair[j], (global float *)(packed + r * TILE_BF16 + j * 32));
  }
  const uint8 a = min(least.lo, least.hi);
  const uint4 b = min(a.lo, a.hi);
  return min(min(b.x, b.y), min(b.z, b.w)) < 0x7fu;
}

static void pack_block(const sattn_pack_params *p, long batch, int block, int first, int last, global const ushort *key,
                       global const ushort *value, global const int *position, global ushort *packed) {
  key += p->key.offset + batch * p->key.stride_batch;
  value += p->value.offset + batch * p->value.stride_batch;
  for (int side = 0; side < 2; ++side) {
    long key_row[32], value_row[32];
    int keep[32];
    for (int part = 0; part < 32; part += 16) {
      find_rows(position + side * 32 + part, p->key.stride_token, key_row + part, keep + part);
      find_rows(position + side * 32 + part, p->value.stride_token, value_row + part, keep + part);
    }
    for (int head = first; head < last; ++head) {
      const long target = (batch * p->kv_heads + head) * p->packed_head;
      global ushort *key_tiles = packed + p->packed_key + target + block * (long)KEY_BLOCK + side * (KEY_BLOCK / 2);
      global ushort *value_tiles = packed + p->packed_value + target + block * (long)VALUE_BLOCK + side * (VALUE_BLOCK / 2);
      pack_key_tiles(key + head * p->key.stride_head, key_row, keep, key_tiles);
      pack_key_tiles(key + head * p->key.stride_head, key_row + 16, keep + 16, key_tiles + KEY_BLOCK / 4);
      const int has_subnormals = pack_value_tiles(value + head * p->value.stride_head, value_row, keep, value_tiles);
      packed[p->packed_value + target + mark_of(p->packed_head, block, side)] = (ushort)has_subnormals;
    }
  }
}
