/* Gradients for CPUs in one pass: five products per visible pair, each weight computed once.
 *
 *     P_ij    = exp(s_ij - LSE_i)                     delta_i = <dY_i, O_i> - dLSE_i
 *     dS_ij   = P_ij (<dY_i, V_j> - delta_i) slope    slope of the softcap
 *     dQ_i    = scale * sum_j dS_ij K_j               dK_j = scale * sum_i dS_ij Q_i        dV_j = sum_i P_ij dY_i
 *
 * A tile of 64 queries holds its dQ; the sums of dK and dV are added to in the packed blocks of the workspace, which two tiles may not do
 * at once. So one work-item takes a strip of tiles, one after the other, long enough that the bands of every other strip stay apart:
 *
 *     tiles      |---- strip 0 ----|---- strip 1 ----|---- strip 2 ----|---- strip 3 ----|
 *     its band  <----- launch 1 ----->             <----- launch 1 ----->
 *                             <----- launch 2 ----->             <----- launch 2 ----->
 *
 * Where a band is so wide, or heads so few, that this leaves processors without work, there are R strips and R launches: in round r strip s
 * meets only part (s + r) modulo R of the blocks, and dQ waits in fp32 rows between the rounds.
 *
 * Between the tiles of strips 0 and 2 there is a strip of existing queries, and each query is a key too, so `strip` tiles of at least left
 * + right + 64 queries keep even whole blocks apart, wherever queries and slots lie. Sums come in one order: launches, then heads of a
 * group, then tiles. Sink tokens are in everybody's band: tiles take their part of dQ, and dK and dV of a sink block get a work-item of
 * their own that goes through all tiles.
 *
 * UNION is two passes that know the merged LSE; GATED is two passes, each its own attention with dY = sigmoid(gate) dO. MOBA is a pass over
 * own blocks, then one for each list of moba_lists.cl, always in rounds: any strip of such a list may meet any block. Files:
 * attend_cpu_{tile,rows,blocks}.cl of forward, attend_cpu_grad_tile.cl micro-kernels, attend_cpu_grad_rows.cl rows in and out,
 * attend_cpu_grad_pack.cl blocks in and out. The host sets HEAD_DIM, DTYPE, CAUSAL, SLOT_SORTED, OTHER, SOFTCAP, PASS, QUERY_LISTS,
 * HEADS_PER_TILE = 1, COLUMNS and, with a softcap, CAP_SLOPES.
 */

/* Which sides of a pair a launch adds to. */
#define SIDE_QUERY 1
#define SIDE_KEY   2

/* A block of keys, and where its gradients are summed. */
typedef struct pair_block {
  block_keys keys;
  global const float *key_row;
  global float *grad_key;
  global float *grad_value;
  global int *state;
} pair_block;

static void add_to_queries(grad_state *s, const pair_block *block, int g, int first, int last) {
  const int skip = first / KEYS_AT_ONCE * KEYS_AT_ONCE;
  const float *slope = s->slope + g * 4 * 64 + skip;
  global const float *rows = block->key_row + skip * HEAD_DIM;
  float *sum = s->t.out + g * 4 * HEAD_DIM;
  if (*block->state & SATTN_BLOCK_FINITE) {
    add_values(slope, rows, last - skip, sum);
  } else {
    add_values_carefully(slope, rows, last - skip, sum);
  }
}

/* The keys first .. last-1 of a block that each group of queries meets. */
typedef struct steps {
  int first[GROUPS] __attribute__((aligned(64)));
  int last[GROUPS] __attribute__((aligned(64)));
  int open[GROUPS] __attribute__((aligned(64)));
  int low, high; /* groups outside of low .. high-1 meet none */
} steps;

INLINE int is_met(const steps *at, int g) {
  return at->first[g] / 4 * 4 < at->last[g];
}

/* With the final LSE no base has to be raised: `weigh` leaves the weights behind whatever it returns. */
static void find_weights(grad_state *s, const pair_block *block, const steps *at, int mask, const bands *b, const grad_io *io) {
  tile_state *t = &s->t;
  for (int g = at->low; g < at->high; ++g) {
    ask_for_row(&s->t, io);
    if (!is_met(at, g)) continue;
    const int column = at->first[g] / 16 * 16;
    const row_group rows = {
      .query = t->query + g * 4 * HEAD_DIM,
      .start = t->start + g * 4,
      .sum = t->sum + g * 4,
      .limit = t->limit + g * 4,
      .low = t->low + g * 4,
      .other_low = t->other_low + g * 4,
#if CAP_SLOPES
      .slope = s->slope + g * 4 * 64 + column,
#endif
    };
    float shrink[4];
    weigh(&rows, &block->keys, column, at->last[g], mask_inside(mask, at->open[g], at->last[g]), b, 0, s->weight + g * 4 * 64 + column,
          shrink);
  }
}

static void find_all_slopes(grad_state *s, const pair_block *block, const steps *at) {
  for (int g = at->low; g < at->high; ++g) {
    if (!is_met(at, g)) continue;
    const int column = at->first[g] / 16 * 16, place = g * 4 * 64 + column;
    find_slopes((at->last[g] - column + 15) / 16, s->grad + g * 4 * HEAD_DIM, s->delta + g * 4, block->keys.value + column,
                s->weight + place, s->slope + place);
  }
}

/* Steps rise from group to group, so the groups that meet four keys are neighbours, and both ends of them only rise with the keys. Groups
 * that do not exist or see nothing stand before `low` or from `high` on. */
static void add_to_keys(const steps *at, const float *weight, const float *rows, int finite, global float *sums) {
  for (int k = 0, begin = at->low, end = at->low; k < 16; ++k) {
    while (begin < at->high && at->last[begin] <= k * 4) ++begin;
    while (end < at->high && at->first[end] < k * 4 + 4) ++end;
    if (begin >= end) continue;
    const float *from = weight + begin * 4 * 64 + k * 4, *row = rows + begin * 4 * HEAD_DIM;
    if (finite) {
      add_queries(from, row, (end - begin) * 4, sums + k * 4 * HEAD_DIM);
    } else {
      add_queries_carefully(from, row, (end - begin) * 4, sums + k * 4 * HEAD_DIM);
    }
  }
}

static void clear_first(const pair_block *block) {
  if (*block->state & SATTN_BLOCK_SUMS) return;
  for (int x = 0; x < 64 * HEAD_DIM; x += 16) {
    vstore16((float16)(0.0f), 0, block->grad_key + x);
    vstore16((float16)(0.0f), 0, block->grad_value + x);
  }
  *block->state |= SATTN_BLOCK_SUMS;
}

/* Product by product, so that the one block or tile that every group or key meets stays in the first-level cache. */
static void do_pair(grad_state *s, const pair_block *block, int mask, const bands *b, const grad_io *io, int sides) {
  steps at;
  find_steps(&s->t, &block->keys, mask, b, at.first, at.last, at.open);
  at.low = GROUPS;
  at.high = 0;
  for (int g = 0; g < GROUPS; ++g) {
    if (!is_met(&at, g)) continue;
    at.low = min(at.low, g);
    at.high = g + 1;
  }
  if (at.low >= at.high) return;
  if (sides & SIDE_KEY) clear_first(block);
  find_weights(s, block, &at, mask, b, io);
  if (sides & SIDE_KEY) add_to_keys(&at, s->weight, s->grad, s->finite, block->grad_value);
  find_all_slopes(s, block, &at);
  if (sides & SIDE_KEY) add_to_keys(&at, s->slope, s->t.query, s->finite, block->grad_key);
  for (int g = at.low; g < at.high && sides & SIDE_QUERY; ++g) {
    if (is_met(&at, g)) add_to_queries(s, block, g, at.first[g], at.last[g]);
  }
}

/* ---- a tile ---- */

typedef struct launch_arrays {
  global const stored *query;
  global const stored *out;
  global const stored *grad_out;
  global const float *lse;
  global const float *grad_lse;
  global const uchar *gate;
  global const int *lists;
  global float *packed;
  global stored *grad_query;
  global uchar *grad_gate;
} launch_arrays;

INLINE long place_in(const sattn_kernel_tensor *tensor, int batch, int head) {
  return tensor->offset + batch * tensor->stride_batch + head * tensor->stride_head;
}

INLINE void set_io(grad_io *io, const launch_arrays *arrays, const sattn_attend_cpu_grad_params *p, int batch, int head, int sides) {
  const long line = (batch * (long)p->heads + head) * p->queries;
  io->query = arrays->query + place_in(&p->query, batch, head);
  io->query_token = p->query.stride_token;
  io->out = arrays->out + place_in(&p->out, batch, head);
  io->out_token = p->out.stride_token;
  io->grad_out = arrays->grad_out + place_in(&p->grad_out, batch, head);
  io->grad_out_token = p->grad_out.stride_token;
  io->lse = arrays->lse + p->lse + line;
  io->grad_lse = arrays->grad_lse ? arrays->grad_lse + p->grad_lse + line : 0;
  io->grad_query = arrays->grad_query + place_in(&p->grad_query, batch, head);
  io->grad_query_token = p->grad_query.stride_token;
  global float *partial = arrays->packed + p->partial + line * HEAD_DIM;
  io->from_partial = sides & SIDE_QUERY && p->flags & SATTN_GRAD_FROM_PARTIAL ? partial : 0;
  io->to_partial = p->flags & SATTN_GRAD_TO_PARTIAL ? partial : 0;
  io->deltas = sides & SIDE_QUERY && p->deltas >= 0 ? arrays->packed + p->deltas + line : 0;
  io->scale = DTYPE == 1 ? p->scale : 1.0f;
  io->grad_scale = p->grad_scale;
#if PASS == PASS_GATED
  const int size = p->gate_dtype == 1 ? 4 : 2;
  io->gate = arrays->gate + place_in(&p->gate, batch, head) * size;
  io->gate_token = p->gate.stride_token;
  io->grad_gate = sides & SIDE_QUERY ? arrays->grad_gate + place_in(&p->grad_gate, batch, head) * size : 0;
  io->grad_gate_token = p->grad_gate.stride_token;
  io->gate_dtype = p->gate_dtype;
#endif
}

INLINE void set_keys(tile_keys *keys, const launch_arrays *arrays, const sattn_attend_cpu_grad_params *p, int batch, int kv_head) {
  const long pack = batch * (long)(p->heads / p->group) + kv_head;
  keys->list = arrays->lists + (batch * (long)p->lists_per_batch + (p->list_heads > 1 ? kv_head : 0)) * p->list.stride;
  keys->key = arrays->packed + p->blocks.key + pack * p->blocks.head;
  keys->value = arrays->packed + p->blocks.value + pack * p->blocks.head;
  keys->sink_key = arrays->packed + p->sinks.key + pack * p->sinks.head;
  keys->sink_value = arrays->packed + p->sinks.value + pack * p->sinks.head;
  keys->exists = keys->list[p->list.counts];
  keys->sinks = p->sink_blocks ? keys->list[p->list.counts + 1] : 0;
}

/* The rest of a block whose keys are open. */
INLINE void set_sums(pair_block *block, const launch_arrays *arrays, const sattn_grad_blocks *at, long pack, int number) {
  const long place = pack * at->head + number * (long)(64 * HEAD_DIM);
  block->key_row = arrays->packed + at->key_row + place;
  block->grad_key = arrays->packed + at->grad_key + place;
  block->grad_value = arrays->packed + at->grad_value + place;
  block->state = (global int *)arrays->packed + at->state + pack * at->state_head + number;
}

/* What one round leaves of a band. */
INLINE void clip_to_round(block_range *band, const sattn_attend_cpu_grad_params *p, int exists, int strip) {
  if (p->rounds <= 1) return;
  const int width = ((exists + 63) / 64 + p->rounds - 1) / p->rounds, part = (strip + p->round) % p->rounds;
  band->begin = max(band->begin, part * width);
  band->end = min(band->end, (part + 1) * width);
}

static void do_tile(grad_state *s, const tile_keys *keys, const launch_arrays *arrays, const sattn_attend_cpu_grad_params *p,
                    const bands *b, const grad_io *io, long pack, int tile) {
  load_tokens(&s->t, io->queries, &p->list, tile, b);
  block_range band;
  find_band(&s->t.extent, keys, &p->list, b, &band);
  clip_to_round(&band, p, keys->exists, tile / p->strip);
  /* Nothing to add to rows that wait already. */
  if (band.begin >= band.end && (p->round > 0 || QUERY_LISTS) && io->to_partial) return;
  load_rows(s, io);
  if (s->t.extent.high_position >= 0) {
    pair_block block;
    for (int i = band.begin; i < band.end; ++i) {
      const int mask = open_block(&block.keys, i, &s->t.extent, keys, &p->list, b);
      set_sums(&block, arrays, &p->blocks, pack, i);
      do_pair(s, &block, mask, b, io, SIDE_QUERY | SIDE_KEY);
    }
    for (int i = 0; i * 64 < keys->sinks && p->round == 0; ++i) {
      const int mask = open_sinks(&block.keys, i, keys, &p->list);
      set_sums(&block, arrays, &p->sinks, pack, i);
      do_pair(s, &block, mask, b, io, SIDE_QUERY);
    }
  }
  store_rows(s, io);
}

#define BANDS(p)                                                                                                                         \
  {                                                                                                                                      \
    .left = (p)->left, .span = (uint)(p)->left + (uint)(p)->right, .other_left = (p)->other_left,                                        \
    .other_span = (uint)(p)->other_left + (uint)(p)->other_right, .softcap = (p)->softcap, .scale_after = DTYPE == 1 ? 1.0f : (p)->scale \
  }

static void do_strip(const launch_arrays *arrays, const sattn_attend_cpu_grad_params *p, int batch, int kv_head, int strip) {
  const bands b = BANDS(p);
  const long pack = batch * (long)(p->heads / p->group) + kv_head;
  const int last = min((strip + 1) * p->strip, p->tiles);
  grad_state s;
  tile_keys keys;
  grad_io io;
  set_keys(&keys, arrays, p, batch, kv_head);
  for (int head = kv_head * p->group; head < (kv_head + 1) * p->group; ++head) {
    set_io(&io, arrays, p, batch, head, SIDE_QUERY | SIDE_KEY);
    io.queries = QUERY_LISTS ? arrays->lists + (batch * (long)p->heads + head) * p->query_stride : keys.list;
    for (int tile = strip * p->strip; tile < last; ++tile) {
      io.next_row = tile + 1 < last ? io.queries + p->list.query_row + (tile + 1) * 64 : 0;
      do_tile(&s, &keys, arrays, p, &b, &io, pack, tile);
    }
  }
}

/* Grid: strip of this launch and key/value head, the head innermost: neighbours read the same pages. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void attend_cpu_grad(const sattn_attend_cpu_grad_params p, global const stored *query,
                                                                           global const stored *out, global const stored *grad_out,
                                                                           global const float *lse, global const float *grad_lse,
                                                                           global const uchar *gate, global const int *lists,
                                                                           global float *packed, global stored *grad_query,
                                                                           global uchar *grad_gate) {
  const launch_arrays arrays = {query, out, grad_out, lse, grad_lse, gate, lists, packed, grad_query, grad_gate};
  const int kv_heads = p.batch ? p.heads / p.group : 0;
  const int strips = p.batch ? ((p.tiles + p.strip - 1) / p.strip - p.first_strip + p.strip_step - 1) / p.strip_step : 0;
  for (long item = get_global_id(0); item < p.batch * strips * kv_heads; item += get_global_size(0)) {
    const long batch = item / ((long)strips * kv_heads), rest = item % ((long)strips * kv_heads);
    do_strip(&arrays, &p, batch, rest % kv_heads, p.first_strip + rest / kv_heads * p.strip_step);
  }
}

/* ---- sink tokens ---- */

static void do_sink_block(const launch_arrays *arrays, const sattn_attend_cpu_grad_params *p, int batch, int kv_head, int number) {
  const bands b = BANDS(p);
  const long pack = batch * (long)(p->heads / p->group) + kv_head;
  grad_state s;
  tile_keys keys;
  grad_io io;
  set_keys(&keys, arrays, p, batch, kv_head);
  if (number * 64 >= keys.sinks) return;
  pair_block block;
  const int mask = open_sinks(&block.keys, number, &keys, &p->list);
  set_sums(&block, arrays, &p->sinks, pack, number);
  for (int head = kv_head * p->group; head < (kv_head + 1) * p->group; ++head) {
    set_io(&io, arrays, p, batch, head, SIDE_KEY);
    for (int tile = 0; tile < p->tiles; ++tile) {
      load_tokens(&s.t, keys.list, &p->list, tile, &b);
      if (s.t.extent.high_position < 0) continue;
      io.next_row = tile + 1 < p->tiles ? keys.list + p->list.query_row + (tile + 1) * 64 : 0;
      load_rows(&s, &io);
      do_pair(&s, &block, mask, &b, &io, SIDE_KEY);
    }
  }
}

/* Grid: block of sink keys, key/value head, batch entry. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void attend_cpu_grad_sinks(const sattn_attend_cpu_grad_params p,
                                                                                 global const stored *query, global const stored *out,
                                                                                 global const stored *grad_out, global const float *lse,
                                                                                 global const float *grad_lse, global const uchar *gate,
                                                                                 global const int *lists, global float *packed,
                                                                                 global stored *grad_query, global uchar *grad_gate) {
  const launch_arrays arrays = {query, out, grad_out, lse, grad_lse, gate, lists, packed, grad_query, grad_gate};
  const long each = p.batch ? (long)p.sink_blocks * (p.heads / p.group) : 0;
  for (long item = get_global_id(0); item < p.batch * each; item += get_global_size(0)) {
    const long rest = item % each;
    do_sink_block(&arrays, &p, item / each, rest / p.sink_blocks, rest % p.sink_blocks);
  }
}
