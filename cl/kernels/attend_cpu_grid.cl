/* Where a tile of a launch of forward stands: which batch entry, query head and queries, and which list. HEADS_PER_TILE query heads of a
 * group share a tile.
 */
typedef struct tile_place {
  int batch, head, tile;
} tile_place;

/* Heavy tiles of causal attention stand last in position order and are dealt out first, so that cores finish together. Within a strip of
 * tiles one head follows the other: K and V of the strip stay in the second-level cache, pages of Q and O in the address cache. */
INLINE tile_place locate(long item, const sattn_attend_cpu_params *p) {
  const long columns = p->heads / HEADS_PER_TILE, each = columns * p->tiles, rest = each - 1 - item % each;
  const int strip = rest / (columns * p->strip), width = min(p->strip, p->tiles - strip * p->strip);
  const long inside = rest - strip * columns * p->strip; /* heads times tiles of a strip */
  tile_place place;
  place.batch = item / each;
  place.head = inside / width * HEADS_PER_TILE;
  place.tile = strip * p->strip + inside % width;
  return place;
}

INLINE global const int *list_of(global const int *lists, const sattn_attend_cpu_params *p, tile_place at) {
  return lists + (at.batch * (long)p->lists_per_batch + (p->list_heads > 1 ? at.head / p->group : 0)) * p->list.stride;
}

INLINE long place_in(const sattn_kernel_tensor *tensor, tile_place at) {
  return tensor->offset + at.batch * tensor->stride_batch + at.head * tensor->stride_head;
}
