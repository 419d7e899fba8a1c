/* MoBA on CPUs: which queries meet which block, as lists of queries that attend_cpu walks.
 *
 *     selected   query 0: 0 2     1: 1 3     2: 0 3     3: 2 3     (own block 3 or none listed here)
 *     round 0    block 0: queries 0, 2   block 1: query 1   block 2: query 3      one list per (round, head, batch entry)
 *
 * Round r has each query at its r-th selected block, the own block not counted. A list is sorted by block, in query order within one, so
 * the 64 queries of a tile share a block or nearly. query_slot is the block's first position: the band of a query is the block that begins
 * there.
 *
 * selected [B, H, n_q, places] uint32, ascending, unused places 0xffffffff; the own block is among them (select.cl).
 * Queries without an r-th block are in the list of the last round only, which writes every row: their band lies behind all keys.
 */
#define NO_BLOCK 0xffffffffu
#define NOWHERE  0x40000000 /* behind every slot, and sums with the width of a block stay in range */

typedef struct query_range {
  int length, start;
} query_range;

/* The r-th block of a query besides its own, or `blocks` where it has none. */
static inline int block_in_round(global const uint *selected, const sattn_moba_params *p, int own, int round) {
  int place = round;
  for (int i = 0; i <= round && i < p->places; ++i) {
    if (selected[i] == (uint)own) place = round + 1;
  }
  return place < p->places && selected[place] != NO_BLOCK ? (int)selected[place] : p->blocks;
}

static void fill_list(const sattn_moba_params *p, global const uint *selected, global int *list, global int *begin, query_range range,
                      int round) {
  global int *position = list + p->query_position, *row = list + p->query_row, *slot = list + p->query_slot;
  const int last_round = round == p->rounds - 1, exist = clamp(range.length - range.start, 0, p->queries);
  for (int block = 0; block <= p->blocks; ++block) begin[block] = 0;
  for (int i = 0; i < exist; ++i) {
    ++begin[block_in_round(selected + i * p->selected_stride, p, (range.start + i) / p->block, round)];
  }
  int used = 0;
  for (int block = 0; block <= p->blocks; ++block) {
    const int count = begin[block];
    begin[block] = used;
    used += block < p->blocks || last_round ? count : 0;
  }
  for (int i = 0; i < exist; ++i) {
    const int block = block_in_round(selected + i * p->selected_stride, p, (range.start + i) / p->block, round);
    if (block == p->blocks && !last_round) continue;
    const int at = begin[block]++;
    position[at] = range.start + i;
    row[at] = i;
    slot[at] = block == p->blocks ? NOWHERE : block * p->block;
  }
  for (int i = exist; i < p->queries && last_round; ++i, ++used) {
    position[used] = -1;
    row[used] = i;
    slot[used] = 0;
  }
  for (; used < p->tiles * 64; ++used) {
    position[used] = row[used] = -1;
    slot[used] = 0;
  }
}

/* Grid: round, head, batch entry. */
kernel void moba_lists(const sattn_moba_params p, global const uint *selected, global const int *lengths, global const int *query_start,
                       global int *lists) {
  for (long b = get_global_id(2); b < p.batch; b += get_global_size(2)) {
    const int most = p.keys - p.queries;
    const query_range range = {lengths ? clamp(lengths[p.lengths + b], 0, p.keys) : p.keys,
                               query_start ? clamp(query_start[p.query_start + b], 0, most) : most};
    for (long h = get_global_id(1); h < p.heads; h += get_global_size(1)) {
      const long line = b * p.heads + h;
      for (int round = (int)get_global_id(0); round < p.rounds; round += (int)get_global_size(0)) {
        fill_list(&p, selected + p.selected + line * p.queries * p.selected_stride, lists + line * p.stride + round * p.round_stride,
                  lists + p.begin + (line * p.rounds + round) * (p.blocks + 1), range, round);
      }
    }
  }
}
