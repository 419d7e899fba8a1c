/* Stage `attend` in bf16 on CPUs with AMX: one work-item takes a tile of 64 queries (in list order) of one query head.
 *
 *      list order (slots) ->
 *      ... | block | block | block | block | block | ...      packed K and V: tiles of 1 KiB (attend_amx_layout.cl)
 *                  :  left    [tile]   right :                band: slot(query) - left .. slot(query) + right
 *            edge ^                            ^ edge         slots are compared in edge blocks only
 *
 *   one block of 64 keys, queries in columns:
 *
 *           queries, 16 to a group ->                          the tile's queries and, causal, the keys of a block are sorted by
 *      k   +-----+-----+-----+-----+                           position, so the mask is a staircase: a group of queries takes the
 *      e   |#####|#####|#####|#####|                           keys up to its step and tests those beyond its lowest query only
 *      y   |. ## |#####|#####|#####|
 *      s   |     | .## |#####|#####|                           find_scores  keys by 16, up to the higher step of two groups
 *      |   |     |     | .## |#####|                           weigh_group  keys by 2, up to the group's own step
 *      v   +-----+-----+-----+-----+                           add_values   keys by 32, of which those beyond it weigh zero
 *           half 0      half 1
 *
 * Scores and weights of half a tile against a block (12 KiB) stay in the first-level cache; so do its queries, and K and V of the block,
 * 8 KiB each at d = 64. O^T, 16 KiB, passes through tiles once for each block. Sink tokens are a second, short list of blocks, of which the
 * keys inside the band are hidden because the band has shown them. Files: amx.cl instructions, attend_amx_tile.cl micro-kernels,
 * attend_cpu_common.cl bands and weights, this one the tile. The host sets HEAD_DIM, DTYPE (3), CAUSAL, SLOT_SORTED, SOFTCAP,
 * HEADS_PER_TILE (1), OTHER (0) and, where the processor has such instructions, SATTN_BF16_PAIRS.
 */

/* Everything that tiles of a launch share. */
typedef struct launch_arrays {
  global const ushort *query;
  global const ushort *packed;
  global const int *lists;
  global ushort *out;
  global float *lse;
  global const float *sink_logits;
} launch_arrays;

/* Where the rows of a tile are, and those of the next one, to be asked for in time. */
typedef struct tile_io {
  global const ushort *query; /* token 0 of this head */
  global const ushort *next_query;
  global const int *next_row; /* NULL: nothing follows */
  global ushort *out;
  global float *lse; /* [n_q] of this head; NULL: not wanted */
  long query_token, out_token;
  long packed_head, sink_head;
  float sink; /* sink logit in units of log2; -infinity: none */
} tile_io;

/* ---- rows in and out ---- */

static __attribute__((noinline)) void load_tokens(tile_state *t, global const int *list, const sattn_list_layout *at, int tile,
                                                  const bands *b) {
  t->extent.low_position = t->extent.low_slot = NEVER;
  t->extent.high_position = t->extent.high_slot = -1;
  t->ahead = t->subnormals = t->adding = 0;
  for (int i = 0; i < 64; ++i) {
    t->position[i] = list[at->query_position + tile * 64 + i];
    t->slot[i] = list[at->query_slot + tile * 64 + i];
    t->row[i] = list[at->query_row + tile * 64 + i];
  }
  for (int g = 0; g < 4; ++g) {
    int first_position = NEVER, last_position = -1, first_slot = NEVER, last_slot = -1;
    for (int i = g * 16; i < g * 16 + 16; ++i) {
      first_position = min(first_position, t->position[i]);
      if (t->position[i] < 0) continue;
      last_position = max(last_position, t->position[i]);
      first_slot = min(first_slot, t->slot[i]);
      last_slot = max(last_slot, t->slot[i]);
    }
    const int16 position = *(const int16 *)(t->position + g * 16);
    t->limit[g] = CAUSAL ? position : select((int16)(NEVER - 1), position, position < 0);
    t->low[g] = *(const uint16 *)(t->slot + g * 16) - (uint)b->left;
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

/* Queries as columns: 16 rows of 16 pairs of dimensions, transposed. Queries that do not exist are zeros. */
static __attribute__((noinline)) void load_queries(tile_state *t, const tile_io *io) {
  for (int g = 0; g < 4; ++g) {
    for (int x = 0; x < DIM_TILES; ++x) {
      float16 pair[16];
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int row = t->row[g * 16 + i];
        const uint16 pairs = load_pairs(io->query + max(row, 0) * io->query_token, x * 32);
        pair[i] = as_float16(pairs & (t->position[g * 16 + i] < 0 ? 0u : 0xffffffffu));
      }
      transpose16(pair);
#pragma unroll
      for (int i = 0; i < 16; ++i) *(float16 *)(t->query + (x * 4 + g) * TILE_FP32 + i * 16) = pair[i];
    }
  }
}

static void start_tile(tile_state *t) {
  for (int g = 0; g < 4; ++g) {
    t->start[g] = t->sum[g] = 0.0f;
    t->seen[g] = 0;
    t->known[g] = all(t->limit[g] < 0);
    t->met[g] = 0;
  }
  for (int i = 0; i < ROW_TILES * 4 * 16; ++i) *(float16 *)(t->out + i * 16) = 0.0f;
}

/* Some rows of the next tile are asked for with every half block that is computed. */
INLINE void prefetch_queries(tile_state *t, const tile_io *io) {
#if SATTN_PREFETCH
  if (!io->next_row) return;
  for (int end = min(t->ahead + 6, 64); t->ahead < end; ++t->ahead) {
    global const ushort *from = io->next_query + max(io->next_row[t->ahead], 0) * io->query_token;
    EACH(x, (HEAD_DIM + 31) / 32) __builtin_prefetch((const void *)(size_t)(from + x * 32), 0, 2);
  }
#endif
}

static int is_finite(const tile_state *t) {
  float16 zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = 0; i < ROW_TILES * 4 * 16; i += 4) {
    EACH(k, 4) zero[k] = fma(*(const float16 *)(t->out + (i + k) * 16), (float16)(0.0f), zero[k]);
  }
  return sum_of((zero[0] + zero[1]) + (zero[2] + zero[3])) == 0.0f;
}

/* Takes the queries that came out finite out of a tile, so that they are not written again. */
static void leave_finite(tile_state *t) {
  for (int g = 0; g < 4; ++g) {
    float16 zero = 0.0f;
    for (int i = 0; i < ROW_TILES * 16; ++i) {
      zero = fma(*(const float16 *)(t->out + (i / 16 * 4 + g) * TILE_FP32 + i % 16 * 16), (float16)(0.0f), zero);
    }
    *(int16 *)(t->row + g * 16) |= zero == (float16)(0.0f);
  }
}

/* Outputs as rows again. The sink logit takes part in the denominator only, and an empty row stays empty with it. */
static __attribute__((noinline)) void finish_group(const tile_state *t, int g, const tile_io *io) {
  const float16 sum = t->sum[g], base = -t->start[g], sink = io->sink;
  const int16 empty = sum == (float16)(0.0f), has_sink = ~empty & (sink != (float16)(-INFINITY));
  const float16 top = select(base, fmax(base, sink), has_sink);
  const float16 shrink = select(exp2(base - top), (float16)(1.0f), base == top);
  const float16 share = select((float16)(0.0f), select(exp2(sink - top), (float16)(1.0f), sink == top), has_sink);
  const float16 total = fma(sum, shrink, share), scale = select(shrink / total, (float16)(0.0f), empty);
  float lse[16];
  vstore16(select((log2(total) + top) * M_LN2_F, (float16)(-INFINITY), empty), 0, lse);
  for (int x = 0; x < HEAD_DIM; x += 32) {
    float16 part[16];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      /* Beyond the last dimension anything will do. */
      const float16 *pair = (const float16 *)t->out + (min(x + 2 * k, HEAD_DIM - 2) / 16 * 4 + g) * 16 + 2 * k % 16;
      part[k] = as_float16(t->subnormals ? exact_pair_of(pair[0] * scale, pair[1] * scale) : pair_of(pair[0] * scale, pair[1] * scale));
    }
    transpose16(part);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = t->row[g * 16 + i];
      if (row >= 0) store_pairs(as_uint16(part[i]), io->out + row * io->out_token, x);
    }
  }
  for (int i = 0; io->lse && i < 16; ++i) {
    const int row = t->row[g * 16 + i];
    if (row >= 0) io->lse[row] = lse[i];
  }
}

/* ---- blocks ---- */

/* How many of 64 entries are at most `most`. */
INLINE int count_up_to(global const int *entries, int most) {
  int16 found = 0;
  EACH(v, 4) found -= vload16(v, entries) <= (int16)(most);
  const int8 a = found.lo + found.hi;
  const int4 c = a.lo + a.hi;
  return c.x + c.y + c.z + c.w;
}

/* The keys that a group takes from a block; `mask` says which tests the block needs. */
INLINE key_span find_span(const tile_state *t, int g, const block_keys *keys, int mask, const bands *b) {
  int first = 0, last = t->last_position[g] < 0 ? 0 : 64, open = 64;
#if CAUSAL
  if (mask & MASK_POSITION) {
    last = min(last, count_up_to(keys->position, t->last_position[g]));
    open = count_up_to(keys->position, t->first_position[g]);
  }
#else
  if (mask & MASK_POSITION) open = 0;
#endif
#if SLOT_SORTED
  if (mask & MASK_BAND) {
    const int right = (int)(b->span - (uint)b->left);
    first = count_up_to(keys->slot, sub_sat(sub_sat(t->first_slot[g], b->left), 1));
    last = min(last, count_up_to(keys->slot, min(add_sat(t->last_slot[g], right), NEVER - 1)));
  }
#endif
  if (mask & (MASK_BAND | MASK_OUTSIDE)) open = 0;
  key_span at = {first & ~1, (last + 1) & ~1, open & ~1};
  at.open = clamp(at.open, at.first, max(at.first, at.last));
  return at;
}

/* One block of keys against the whole tile. */
static __attribute__((noinline)) void do_block(tile_state *t, const block_keys *keys, int mask, const bands *b, const tile_io *io) {
  for (int side = 0; side < 2; ++side) {
    prefetch_queries(t, io);
    const int g = side * 2;
    const key_span left = find_span(t, g, keys, mask, b), right = find_span(t, g + 1, keys, mask, b);
    const int no_left = left.first >= left.last, no_right = right.first >= right.last;
    if (no_left && no_right) continue;
    const int first = no_left ? right.first : no_right ? left.first : min(left.first, right.first);
    const int last = no_left ? right.last : no_right ? left.last : max(left.last, right.last);
    find_scores(t, side, keys->key, first / 16, (last + 15) / 16);
    const int from = first / 32, to = (last + 31) / 32;
    const float16 sums[2] = {t->sum[g], t->sum[g + 1]};
    weigh_group(t, g, keys, left, mask, b, from * 32, to * 32);
    weigh_group(t, g + 1, keys, right, mask, b, from * 32, to * 32);
    if (t->adding) {
      add_subnormals(t, side, keys->value, from, to);
      t->sum[g] = sums[0];
      t->sum[g + 1] = sums[1];
    } else if (t->careful)
      add_values_carefully(t, side, keys->value, from, to);
    else
      add_values(t, side, keys->value, from, to);
  }
}

/* The round that adds subnormal values takes blocks that hold some; the others take all, and look for such blocks. */
INLINE int passes_over(tile_state *t, global const ushort *value, long head, int block) {
  const int marked = value[mark_of(head, block, 0)] | value[mark_of(head, block, 1)];
  t->subnormals |= marked;
  return t->adding && !marked;
}

/* Blocks of the band: the tile's own first, where nearly every query sees something, then the others from left to right. */
static void do_band(tile_state *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  block_range band;
  find_band(&t->extent, from, at, b, &band);
  const int own = find_block(from->list + at->block_last, (from->exists + 63) / 64, t->extent.low_slot);
  const int has_own = own >= band.begin && own < band.end;
  for (int step = has_own ? band.begin - 1 : band.begin; step < band.end; ++step) {
    const int block = step < band.begin ? own : step;
    if (has_own && step == own) continue;
    if (passes_over(t, from->value, io->packed_head, block)) continue;
    block_keys keys;
    const int mask = open_block(&keys, block, &t->extent, from, at, b);
    do_block(t, &keys, mask, b, io);
  }
}

static void do_sinks(tile_state *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  for (int block = 0; block * 64 < from->sinks; ++block) {
    if (passes_over(t, from->sink_value, io->sink_head, block)) continue;
    block_keys keys;
    const int mask = open_sinks(&keys, block, from, at);
    do_block(t, &keys, mask, b, io);
  }
}

static void do_round(tile_state *t, int careful, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  t->careful = careful;
  start_tile(t);
  do_band(t, from, at, b, io);
  do_sinks(t, from, at, b, io);
}

/* What products take for zeros, and rows out. */
static void finish_tile(tile_state *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  t->adding = t->subnormals;
  if (t->adding) {
    do_band(t, from, at, b, io);
    do_sinks(t, from, at, b, io);
  }
  t->adding = 0;
  for (int g = 0; g < 4; ++g) finish_group(t, g, io);
}

/* All keys. Where the plain round does not come out finite, a careful one. Queries that do not even then get a third with the highest score
 * as base: weights far above 1 times large values overflow where their average does not. */
static void do_keys(tile_state *t, const tile_keys *from, const sattn_list_layout *at, const bands *b, const tile_io *io) {
  int finite = 0;
  for (int careful = 0; careful < 2 && !finite; ++careful) {
    do_round(t, careful, from, at, b, io);
    finite = is_finite(t);
  }
  finish_tile(t, from, at, b, io);
  if (finite) return;
  leave_finite(t);
  do_round(t, 2, from, at, b, io);
  finish_tile(t, from, at, b, io);
}

/* ---- launch ---- */

INLINE void set_keys(tile_keys *keys, const launch_arrays *arrays, const sattn_attend_cpu_params *p, tile_place at) {
  const long pack = at.batch * (long)(p->heads / p->group) + at.head / p->group;
  keys->list = list_of(arrays->lists, p, at);
  keys->key = arrays->packed + p->packed_key + pack * p->packed_head;
  keys->value = arrays->packed + p->packed_value + pack * p->packed_head;
  keys->sink_key = arrays->packed + p->sink_key + pack * p->sink_head;
  keys->sink_value = arrays->packed + p->sink_value + pack * p->sink_head;
  keys->exists = keys->list[p->list.counts];
  keys->sinks = keys->list[p->list.counts + 1];
}

INLINE void set_rows(tile_io *io, const launch_arrays *arrays, const sattn_attend_cpu_params *p, tile_place at) {
  io->query = arrays->query + place_in(&p->query, at);
  io->query_token = p->query.stride_token;
  io->out = arrays->out + place_in(&p->out, at);
  io->out_token = p->out.stride_token;
  io->packed_head = p->packed_head;
  io->sink_head = p->sink_head;
  io->lse = arrays->lse ? arrays->lse + p->lse + (at.batch * (long)p->heads + at.head) * p->queries : 0;
  io->sink = arrays->sink_logits ? fmin(arrays->sink_logits[p->sink_logits + at.head] * M_LOG2E_F, FLT_MAX) : -INFINITY;
}

static void do_tile(tile_state *t, const launch_arrays *arrays, const sattn_attend_cpu_params *p, long item, long next) {
  const tile_place at = locate(item, p);
  const bands b = {
      .left = p->left, .span = (uint)p->left + (uint)p->right, .softcap = p->softcap, .scale_after = p->scale, .other_left = 0};
  tile_keys keys;
  tile_io io;
  set_keys(&keys, arrays, p, at);
  set_rows(&io, arrays, p, at);
  io.next_row = 0;
  if (next >= 0) {
    const tile_place after = locate(next, p);
    io.next_row = list_of(arrays->lists, p, after) + p->list.query_row + after.tile * 64;
    io.next_query = arrays->query + place_in(&p->query, after);
  }
  load_tokens(t, keys.list, &p->list, at.tile, &b);
  load_queries(t, &io);
  if (t->extent.high_position >= 0) {
    do_keys(t, &keys, &p->list, &b, &io);
  } else {
    start_tile(t);
    for (int g = 0; g < 4; ++g) finish_group(t, g, &io);
  }
}

/* Grid: tile. Neighbours in the grid are neighbours in time, so an item asks for the queries of the next one. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void attend_amx(const sattn_attend_cpu_params p, global const ushort *query,
                                                                      global const ushort *packed, global const int *lists,
                                                                      global ushort *out, global float *lse,
                                                                      global const float *sink_logits) {
  const launch_arrays arrays = {query, packed, lists, out, lse, sink_logits};
  const long items = p.batch * p.heads * p.tiles;
  tile_state t;
  tile_configure();
  for (long item = get_global_id(0); item < items; item += get_global_size(0)) {
    do_tile(&t, &arrays, &p, item, item + 1 < items ? item + 1 : -1);
  }
  TILE_RELEASE();
}
