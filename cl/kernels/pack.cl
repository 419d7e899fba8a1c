/* Stage `pack`: brings K and V into list order once, as fp32, so that attention reads them in sequence.
 *
 *     packed key    [batch][kv head][block][d][64]      transposed: 64 keys of one dimension side by side
 *     packed value  [batch][kv head][block][64][d]
 *
 *          keys of a block ->
 *        +-----------------+
 *      d | k0 k1 k2 .. k63 |   one query element times a row of this adds to 64 scores
 *        +-----------------+
 *
 * In the default layout [B, n, H, d] the heads of a token lie side by side and tokens pages apart: an item takes all heads of 16 tokens
 * before it goes on, so that each page is visited once. Where heads lie apart, an item takes one head (heads_at_once). Packed tiles are
 * written past the caches. Padding keys become zeros.
 */
#define NEVER         0x7fffffff

#define PAIR_LO(a, b) (float16)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5, a.s8, b.s8, a.s9, b.s9, a.sc, b.sc, a.sd, b.sd)
#define PAIR_HI(a, b) (float16)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7, a.sa, b.sa, a.sb, b.sb, a.se, b.se, a.sf, b.sf)
#define DUAL_LO(a, b) (float16)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define DUAL_HI(a, b) (float16)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define QUAD_LO(a, b) (float16)(a.s0123, a.s89ab, b.s0123, b.s89ab)
#define QUAD_HI(a, b) (float16)(a.s4567, a.scdef, b.s4567, b.scdef)

/* Transposes 16 rows of 16 in registers: neighbours, then pairs, then quads. All indices are constants after unrolling. */
static inline void transpose16(float16 a[16]) {
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

static void pack_block(const sattn_pack_params *p, long batch, int block, int first, int last, global const stored *key,
                       global const stored *value, global const int *position, global float *packed) {
  key += p->key.offset + batch * p->key.stride_batch;
  value += p->value.offset + batch * p->value.stride_batch;
  for (int part = 0; part < 64; part += 16) {
    long key_row[16], value_row[16];
    int keep[16]; /* padding reads a row that is there, and keeps nothing of it */
    for (int j = 0; j < 16; ++j) {
      const int row = position[part + j];
      keep[j] = row == NEVER ? 0 : -1;
      key_row[j] = (row & keep[j]) * p->key.stride_token;
      value_row[j] = (row & keep[j]) * p->value.stride_token;
    }
    for (int head = first; head < last; ++head) {
      const long target = (batch * p->kv_heads + head) * p->packed_head + block * (long)(64 * HEAD_DIM);
      pack_key(key + head * p->key.stride_head, key_row, keep, packed + p->packed_key + target + part);
      pack_value(value + head * p->value.stride_head, value_row, keep, packed + p->packed_value + target + part * HEAD_DIM);
    }
  }
}

/* With few queries most blocks are in nobody's band. */
static int is_reached(const sattn_pack_params *p, global const int *list, int block) {
  if (!p->tiles) return 1;
  const int first = list[p->list.block_first + block], last = list[p->list.block_last + block];
  for (int i = 0; i < p->tiles * 64; ++i) {
    const int slot = list[p->list.query_slot + i];
    if (list[p->list.query_position + i] >= 0 && last >= sub_sat(slot, p->left) && first <= add_sat(slot, p->right)) return 1;
  }
  return 0;
}

/* Grid: block, heads / heads_at_once, batch. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void pack_tiles(const sattn_pack_params p, global const stored *key,
                                                                      global const stored *value, global const int *lists,
                                                                      global float *packed) {
  for (long batch = get_global_id(2); batch < p.batch; batch += get_global_size(2)) {
    for (int first = get_global_id(1) * p.heads_at_once; first < p.kv_heads; first += get_global_size(1) * p.heads_at_once) {
      const int last = min(first + p.heads_at_once, p.kv_heads);
      global const int *list = lists + (batch * p.lists_per_batch + (p.list_heads > 1 ? first : 0)) * p.list.stride;
      global const int *position = list + (p.sinks ? p.list.sink_position : p.list.key_position);
      for (int block = get_global_id(0); block < p.blocks; block += get_global_size(0)) {
        if (!p.sinks && !is_reached(&p, list, block)) continue;
        pack_block(&p, batch, block, first, last, key, value, position + block * 64, packed);
      }
    }
  }
}
