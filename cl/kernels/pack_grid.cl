/* The launch of stage `pack`: which blocks are worth packing, dealt out to pack_block of the file before (pack.cl, attend_amx_pack.cl),
 * which writes blocks of PACKED.
 */

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
                                                                      global PACKED *packed) {
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
