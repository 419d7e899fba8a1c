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
#define PACKED float

static void pack_block(const sattn_pack_params *p, long batch, int block, int first, int last, global const stored *key,
                       global const stored *value, global const int *position, global float *packed) {
  key += p->key.offset + batch * p->key.stride_batch;
  value += p->value.offset + batch * p->value.stride_batch;
  for (int part = 0; part < 64; part += 16) {
    long key_row[16], value_row[16];
    int keep[16];
    find_rows(position + part, p->key.stride_token, key_row, keep);
    find_rows(position + part, p->value.stride_token, value_row, keep);
    for (int head = first; head < last; ++head) {
      const long target = (batch * p->kv_heads + head) * p->packed_head + block * (long)(64 * HEAD_DIM);
      pack_key(key + head * p->key.stride_head, key_row, keep, packed + p->packed_key + target + part);
      pack_value(value + head * p->value.stride_head, value_row, keep, packed + p->packed_value + target + part * HEAD_DIM);
    }
  }
}
