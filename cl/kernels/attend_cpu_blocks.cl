/* A tile against blocks of keys: which part of a block each group of rows needs. */

/* How many of 64 entries are at most each group's threshold. */
INLINE void count_up_to(global const int *entries, const int *threshold, int *count) {
  for (int v = 0; v < GROUPS; v += 16) {
    const int16 most = vload16(0, threshold + v);
    int16 found = 0;
    _Pragma("unroll 4") for (int j = 0; j < 64; ++j) found = select(found, found + 1, (int16)(entries[j]) <= most);
    vstore16(found, 0, count + v);
  }
}

static void load_tokens(tile_state *t, global const int *list, const sattn_list_layout *at, int tile, const bands *b) {
  t->extent.low_position = t->extent.low_slot = NEVER;
  t->extent.high_position = t->extent.high_slot = -1;
  t->loaded = t->finished = t->ahead = t->careful = t->any_again = 0;
  for (int g = 0; g < GROUPS; ++g) t->again[g] = 0;
  for (int i = 0; i < 64; ++i) {
    t->position[i] = list[at->query_position + tile * 64 + i];
    t->slot[i] = list[at->query_slot + tile * 64 + i];
    t->row[i] = list[at->query_row + tile * 64 + i];
    t->limit[i] = CAUSAL || t->position[i] < 0 ? t->position[i] : NEVER - 1;
    t->low[i] = (uint)t->slot[i] - (uint)b->left;
    t->other_low[i] = OTHER ? (uint)list[at->query_other + tile * 64 + i] - (uint)b->other_left : 0;
  }
  for (int g = 0; g < GROUPS; ++g) {
    int first_position = NEVER, last_position = -1, first_slot = NEVER, last_slot = -1;
    for (int i = g * TOKENS_PER_GROUP; i < (g + 1) * TOKENS_PER_GROUP; ++i) {
      first_position = min(first_position, t->position[i]);
      if (t->position[i] < 0) continue;
      last_position = max(last_position, t->position[i]);
      first_slot = min(first_slot, t->slot[i]);
      last_slot = max(last_slot, t->slot[i]);
    }
    t->first_position[g] = first_position;
    t->last_position[g] = last_position;
    t->first_slot[g] = first_slot;
    t->last_slot[g] = last_slot;
    t->extent.low_position = min(t->extent.low_position, first_position);
    t->extent.high_position = max(t->extent.high_position, last_position);
    t->extent.low_slot = min(t->extent.low_slot, first_slot);
    t->extent.high_slot = max(t->extent.high_slot, last_slot);
  }
}

INLINE void do_group(tile_state *t, int g, const block_keys *keys, int first, int last, int mask, const bands *b) {
  float weight[4 * 64] __attribute__((aligned(64)));
  float shrink[4];
  row_group rows;
  rows.query = t->query + g * 4 * HEAD_DIM;
  rows.start = t->start + g * 4;
  rows.sum = t->sum + g * 4;
  rows.limit = t->limit + g * TOKENS_PER_GROUP;
  rows.low = t->low + g * TOKENS_PER_GROUP;
  rows.other_low = t->other_low + g * TOKENS_PER_GROUP;
  rows.most = t->careful == 2 ? 0.0f : HUGE_WEIGHT;
  float *out = t->out + g * 4 * HEAD_DIM;
  const int column = first / 16 * 16;
  int raised = -1;
  for (int look = !t->known[g] || t->careful == 2; raised < 0; look = 1)
    raised = weigh(&rows, keys, column, last, mask, b, look, weight, shrink);
  if (raised) {
    int known = 1;
    for (int r = 0; r < 4; ++r) {
      known &= sum_of(rows.sum[r]) != 0.0f;
      for (int x = 0; x < HEAD_DIM; x += 16) *(float16 *)(out + r * HEAD_DIM + x) *= shrink[r];
    }
    t->known[g] = known;
  }
  const int skip = (first - column) / KEYS_AT_ONCE * KEYS_AT_ONCE;
  global const float *value = keys->value + (column + skip) * HEAD_DIM;
  if (t->careful)
    add_values_carefully(weight + skip, value, last - column - skip, out);
  else
    add_values(weight + skip, value, last - column - skip, out);
}

/* Rounds: plain; careful, for groups that did not come out finite; and careful with the highest score as base, for rows that did not even
 * then, because weights far above 1 times large values overflow where their average does not. Other rows keep what they have. */
static void finish_group(tile_state *t, int g, const tile_io *io) {
  const int is_last = t->careful == 2 || group_is_finite(t->out + g * 4 * HEAD_DIM);
  if (!is_last) t->again[g] = t->any_again = t->careful + 1;
  if (!is_last && t->careful == 0) return;
  for (int r = g * 4; r < g * 4 + 4; ++r) {
    if (t->careful == 2 && t->kept[r]) {
      t->start[r] = t->kept_start[r];
      continue;
    }
    finish_row(t, r, io);
    if (is_last) continue;
    t->kept[r] = row_is_finite(t->out + r * HEAD_DIM);
    t->kept_start[r] = t->start[r];
  }
}

/* The keys first .. last-1 of a block that each group of rows can see; all of them see the keys before `open` as far as positions decide.
 * `mask` says which tests the block needs beyond the staircase. */
INLINE void find_steps(const tile_state *t, const block_keys *keys, int mask, const bands *b, int *first, int *last, int *open) {
  for (int g = 0; g < GROUPS; ++g) {
    first[g] = 0;
    last[g] = 64;
    open[g] = mask & MASK_POSITION ? 0 : 64;
  }
#if CAUSAL
  if (mask & MASK_POSITION) {
    count_up_to(keys->position, t->last_position, last);
    count_up_to(keys->position, t->first_position, open);
  }
#endif
#if SLOT_SORTED
  if (mask & MASK_BAND) {
    int before[GROUPS] __attribute__((aligned(64))), to[GROUPS] __attribute__((aligned(64))), end[GROUPS] __attribute__((aligned(64)));
    for (int g = 0; g < GROUPS; ++g) {
      before[g] = sub_sat(sub_sat(t->first_slot[g], b->left), 1);
      to[g] = min(add_sat(t->last_slot[g], (int)(b->span - (uint)b->left)), NEVER - 1);
    }
    count_up_to(keys->slot, before, first);
    count_up_to(keys->slot, to, end);
    for (int g = 0; g < GROUPS; ++g) last[g] = min(last[g], end[g]);
  }
#endif
}

/* A step of the staircase that ends inside the group's last vector needs the position test there. */
INLINE int mask_inside(int mask, int open, int last) {
  return open < ((last + 15) & ~15) ? mask : mask & ~MASK_POSITION;
}

/* One block of keys against the whole tile. */
static void do_block(tile_state *t, const block_keys *keys, int mask, int is_last, const bands *b, const tile_io *io) {
  int first[GROUPS] __attribute__((aligned(64))), last[GROUPS] __attribute__((aligned(64))), open[GROUPS] __attribute__((aligned(64)));
  find_steps(t, keys, mask, b, first, last, open);
  for (int g = 0; g < GROUPS; ++g) {
    if (t->again[g] < t->careful) continue;
    if (t->loaded <= g) {
      load_group(t, g, io);
      t->loaded = g + 1;
    }
    prefetch_query(t, io);
    if (first[g] < last[g]) {
      do_group(t, g, keys, first[g], last[g], mask_inside(mask, open[g], last[g]), b);
    }
    if (is_last) finish_group(t, g, io);
  }
  t->finished = is_last;
}

/* Blocks of the band: the tile's own first, where nearly every row sees something, then the others from left to right. */
static void do_band(tile_state *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  block_range band;
  find_band(&t->extent, from, at, b, &band);
  const int begin = band.begin, end = band.end;
  const int own = find_block(from->list + at->block_last, (from->exists + 63) / 64, t->extent.low_slot),
            has_own = own >= begin && own < end;
  const int final = from->sinks ? -1 : has_own && own == end - 1 && end - begin > 1 ? end - 2 : end - 1;
  for (int step = has_own ? begin - 1 : begin; step < end; ++step) {
    const int block = step < begin ? own : step;
    if (has_own && step == own) continue;
    block_keys keys;
    const int mask = open_block(&keys, block, &t->extent, from, at, b);
    do_block(t, &keys, mask, block == final, b, io);
  }
}

static void do_sinks(tile_state *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  for (int block = 0; block * 64 < from->sinks; ++block) {
    block_keys keys;
    const int mask = open_sinks(&keys, block, from, at);
    do_block(t, &keys, mask, (block + 1) * 64 >= from->sinks, b, io);
  }
}
