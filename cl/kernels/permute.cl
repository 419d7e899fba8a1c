/* Stage `permute`: from the order(s) to lists that the other stages walk.
 *
 *     order   [orders][length]   order[slot] = position           (IDENTITY: none is read)
 *
 *     slots     0   1   2   3   4   5   6   7        existing keys in slot order; without slot gaps they are counted
 *     order     3   9   5   1   8   2  11   4        anew, with SLOT_GAPS they keep the number of their place
 *     exists    x       x   x       x       x        (position < length of this batch entry)
 *     key       3   5   1   2   4                    -> key_position, key_slot
 *     query         5           4                    -> query_position, query_slot  (positions query_start .. +n_q-1)
 *
 * Blocks of 64 keys and tiles of 64 queries are then sorted by position (SORT), which turns the causal mask inside a
 * (tile, block) pair into a staircase. Everything here is O(n) integers against O(n d) of the stages that follow.
 */
#define NEVER 0x7fffffff

typedef struct list_sizes {
  int exists; /* keys that exist */
  int start;  /* position of query 0 */
} list_sizes;

/* Values on the device are not trusted: they are clamped into their ranges. */
static inline list_sizes sizes_of(global const int *lengths, global const int *query_start, const sattn_permute_params *p, int batch) {
  list_sizes sizes = {p->keys, p->keys - p->queries};
  if (p->flags & SATTN_LIST_LENGTHS) sizes.exists = clamp(lengths[p->lengths + batch], 0, p->keys);
  if (p->flags & SATTN_LIST_QUERY_START) sizes.start = clamp(query_start[p->query_start + batch], 0, p->keys - p->queries);
  return sizes;
}

/* Compaction keeps the order, so it is a scan, and one work-item has a list to itself. */
static void compact_list(global const uint *order, list_sizes sizes, const sattn_permute_params *p, global int *list) {
  global int *key_position = list + p->list.key_position, *key_slot = list + p->list.key_slot, *slot_of = list + p->list.slot_of;
  global int *query_position = list + p->list.query_position, *query_slot = list + p->list.query_slot;
  global int *query_row = list + p->list.query_row;
  int keys = 0, queries = 0;
  for (int slot = 0; slot < p->length; ++slot) {
    const int position = p->flags & SATTN_LIST_IDENTITY ? slot : (int)order[slot];
    if (position >= sizes.exists) continue;
    const int counted = p->flags & SATTN_LIST_SLOT_GAPS ? slot : keys;
    key_position[keys] = position;
    key_slot[keys] = counted;
    slot_of[position] = counted;
    ++keys;
    const int row = position - sizes.start;
    if (row >= 0 && row < p->queries) {
      query_position[queries] = position;
      query_slot[queries] = p->block ? counted / p->block * p->block : counted;
      query_row[queries] = row;
      ++queries;
    }
  }
  list[p->list.counts] = keys;
  list[p->list.counts + 1] = min(keys, p->sink_tokens);
  for (; keys < p->key_blocks * 64; ++keys) key_position[keys] = key_slot[keys] = NEVER;

  /* Queries past the end are empty rows: they stand last, see nothing, and still have to be written. */
  for (int row = max(0, sizes.exists - sizes.start); row < p->queries; ++row, ++queries) {
    query_position[queries] = -1;
    query_slot[queries] = 0;
    query_row[queries] = row;
  }
  for (; queries < p->tiles * 64; ++queries) {
    query_position[queries] = query_row[queries] = -1;
    query_slot[queries] = 0;
  }
}

/* Grid: list. */
kernel void permute_lists(const sattn_permute_params p, global const uint *order, global const int *lengths, global const int *query_start,
                          global int *lists) {
  for (long l = get_global_id(0); l < p.lists; l += get_global_size(0)) {
    compact_list(order + l % max(p.orders, 1) * p.length, sizes_of(lengths, query_start, &p, (int)(l / p.lists_per_batch)), &p,
                 lists + l * p.list.stride);
  }
}

/* The place of each of 64 positions once they are sorted. Padding stays in front (-1) or behind (NEVER), told apart by index. */
static inline void ranks_of(global const int *position, int *rank) {
  int key[64];
  for (int j = 0; j < 64; ++j) key[j] = position[j] < 0 ? j - 64 : position[j] == NEVER ? NEVER - 64 + j : position[j];
  for (int v = 0; v < 4; ++v) {
    const int16 mine = vload16(v, key);
    int16 before = 0;
    for (int j = 0; j < 64; ++j) before = select(before, before + 1, (int16)(key[j]) < mine);
    vstore16(before, v, rank);
  }
}

static inline void place(const int *rank, global int *values) {
  int old[64];
  for (int v = 0; v < 4; ++v) vstore16(vload16(v, values), v, old);
  for (int j = 0; j < 64; ++j) values[rank[j]] = old[j];
}

static void sort_keys(global int *list, int block, const sattn_permute_params *p) {
  global int *position = list + p->list.key_position + block * 64, *slot = list + p->list.key_slot + block * 64;
  const int last = clamp(list[p->list.counts] - block * 64, 1, 64) - 1;
  list[p->list.block_first + block] = slot[0];
  list[p->list.block_last + block] = slot[last];
  if (!(p->flags & SATTN_LIST_SORT)) return;
  int rank[64];
  ranks_of(position, rank);
  place(rank, position);
  place(rank, slot);
}

static void sort_queries(global int *list, int tile, const sattn_permute_params *p) {
  if (!(p->flags & SATTN_LIST_SORT)) return;
  global int *position = list + p->list.query_position + tile * 64;
  int rank[64];
  ranks_of(position, rank);
  place(rank, position);
  place(rank, list + p->list.query_slot + tile * 64);
  place(rank, list + p->list.query_row + tile * 64);
}

/* Grid: blocks of keys, then tiles of queries; list. */
kernel void permute_sort(const sattn_permute_params p, global int *lists) {
  for (long l = get_global_id(1); l < p.lists; l += get_global_size(1)) {
    for (int item = get_global_id(0); item < p.key_blocks + p.tiles; item += get_global_size(0)) {
      if (item < p.key_blocks)
        sort_keys(lists + l * p.list.stride, item, &p);
      else
        sort_queries(lists + l * p.list.stride, item - p.key_blocks, &p);
    }
  }
}

static void fill_other(global const int *position, global int *other, global const int *other_slot_of) {
  for (int j = 0; j < 64; ++j) other[j] = position[j] >= 0 && position[j] < NEVER ? other_slot_of[position[j]] : NEVER;
}

static void fill_sinks(global int *list, int block, const sattn_permute_params *p) {
  global const int *slot_of = list + p->list.slot_of;
  for (int j = block * 64; j < block * 64 + 64; ++j) {
    const int exists = j < list[p->list.counts + 1];
    list[p->list.sink_position + j] = exists ? j : NEVER;
    list[p->list.sink_slot + j] = exists ? slot_of[j] : NEVER;
  }
}

/* Sink keys, and slots in the other order. Grid: blocks of keys, tiles of queries, blocks of sinks; list. */
kernel void permute_cross(const sattn_permute_params p, global int *lists) {
  for (long l = get_global_id(1); l < p.lists; l += get_global_size(1)) {
    global int *list = lists + l * p.list.stride;
    global const int *other_slot_of = lists + l * p.other.stride + p.other.slot_of;
    const int crossed = p.flags & SATTN_LIST_OTHER, count = p.key_blocks + p.tiles + p.sink_blocks;
    for (int item = get_global_id(0); item < count; item += get_global_size(0)) {
      const int tile = item - p.key_blocks, sink = tile - p.tiles;
      long position = p.list.key_position + item * 64, other = p.list.key_other + item * 64;
      if (sink >= 0) {
        fill_sinks(list, sink, &p);
        position = p.list.sink_position + sink * 64;
        other = p.list.sink_other + sink * 64;
      } else if (tile >= 0) {
        position = p.list.query_position + tile * 64;
        other = p.list.query_other + tile * 64;
      }
      if (crossed) fill_other(list + position, list + other, other_slot_of);
    }
  }
}
