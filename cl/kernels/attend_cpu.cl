/* Stage `attend` for CPUs: one work-item takes a tile of 64 queries (in list order) of HEADS_PER_TILE query heads that share a key head.
 *
 *      list order (slots) ->
 *      ... | block | block | block | block | block | ...      packed keys [d][64], values [64][d]
 *                  :  left    [tile]   right :                band: slot(query) - left .. slot(query) + right
 *            edge ^                            ^ edge         slots are compared in edge blocks only
 *
 *   one block, causal: both sides sorted by position           a tile's rows are taken four at a time (attend_cpu_tile.cl);
 *
 *        keys ->                                               four rows meet the keys before their step of the staircase:
 *      q  ####........      keys beyond the step are neither
 *      u  ######......      scored (but for the rest of a         weigh       1..4 vectors of 16 keys
 *      e  #########...      vector of 16) nor multiplied          add_values  exactly up to the step
 *      r  ###########.
 *
 * MoBA is a chain of passes: the own block, then round by round the other blocks, each query's band being the block (moba_lists.cl).
 * Sink tokens are a second, short list of blocks, of which the keys inside the band are hidden because the band has shown them. UNION's and
 * GATED's second pass starts from, or mixes with, the fp32 rows of the first. Files: attend_cpu_tile.cl micro-kernels, attend_cpu_rows.cl
 * rows in and out, attend_cpu_blocks.cl blocks of a tile, this one the launch. The host sets HEAD_DIM, DTYPE, CAUSAL, SLOT_SORTED, OTHER,
 * SOFTCAP, PASS, QUERY_LISTS, HEADS_PER_TILE and COLUMNS.
 */

/* The list of queries: in MoBA each query head has its own. */
INLINE global const int *queries_of(global const int *lists, const sattn_attend_cpu_params *p, tile_place at) {
#if QUERY_LISTS
  return lists + (at.batch * (long)p->heads + at.head) * p->query_stride;
#else
  return list_of(lists, p, at);
#endif
}

/* Everything that tiles of a launch share. */
typedef struct launch_arrays {
  global const stored *query;
  global const float *packed;
  global const int *lists;
  global stored *out;
  global float *lse;
  global float *partial;
  global stored *branch;
  global const uchar *gate_own;
  global const uchar *gate_first;
  global const float *sink_logits;
} launch_arrays;

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

INLINE void set_gates(tile_io *io, const launch_arrays *arrays, const sattn_attend_cpu_params *p, tile_place at) {
#if PASS == PASS_GATED
  const int size = p->gate_dtype == 1 ? 4 : 2;
  io->gate_own = arrays->gate_own + place_in(&p->gate_own, at) * size;
  io->gate_first = arrays->gate_first + place_in(&p->gate_first, at) * size;
  io->own_token = p->gate_own.stride_token;
  io->own_head = p->gate_own.stride_head;
  io->first_token = p->gate_first.stride_token;
  io->first_head = p->gate_first.stride_head;
  io->gate_dtype = p->gate_dtype;
#endif
}

INLINE void set_rows(tile_io *io, const launch_arrays *arrays, const sattn_attend_cpu_params *p, tile_place at) {
  const long line = (at.batch * (long)p->heads + at.head) * p->queries;
  io->query = arrays->query + place_in(&p->query, at);
  io->query_token = p->query.stride_token;
  io->query_head = p->query.stride_head;
  io->out = arrays->out + place_in(&p->out, at);
  io->out_token = p->out.stride_token;
  io->out_head = p->out.stride_head;
  io->branch = arrays->branch ? arrays->branch + place_in(&p->branch, at) : 0;
  io->branch_token = p->branch.stride_token;
  io->branch_head = p->branch.stride_head;
  io->partial = arrays->partial + p->partial + line * HEAD_DIM;
  io->partial_head = p->queries * (long)HEAD_DIM;
  io->lse = arrays->lse ? arrays->lse + p->lse + line : 0;
  io->partial_lse = arrays->partial + p->partial_lse + line;
  io->lse_head = p->queries;
  io->scale = DTYPE == 1 ? p->scale : 1.0f;
  for (int h = 0; h < HEADS_PER_TILE; ++h) {
    const int given = !ADDS_TO_PARTIAL && arrays->sink_logits;
    io->sink[h] = given ? fmin(arrays->sink_logits[p->sink_logits + at.head + h] * M_LOG2E_F, FLT_MAX) : -INFINITY;
  }
}

static void do_tile(const launch_arrays *arrays, const sattn_attend_cpu_params *p, long item, long next) {
  const tile_place at = locate(item, p);
  const bands b = {.left = p->left,
                   .span = (uint)p->left + (uint)p->right,
                   .other_left = p->other_left,
                   .other_span = (uint)p->other_left + (uint)p->other_right,
                   .softcap = p->softcap,
                   .scale_after = DTYPE == 1 ? 1.0f : p->scale};
  tile_keys keys;
  tile_io io;
  set_keys(&keys, arrays, p, at);
  set_rows(&io, arrays, p, at);
  set_gates(&io, arrays, p, at);
  io.next_row = 0;
  if (next >= 0) {
    const tile_place after = locate(next, p);
    io.next_row = queries_of(arrays->lists, p, after) + p->list.query_row + after.tile * 64;
    io.next_query = arrays->query + place_in(&p->query, after);
    io.next_partial = arrays->partial + p->partial + (after.batch * (long)p->heads + after.head) * p->queries * HEAD_DIM;
  }
  tile_state t;
  load_tokens(&t, queries_of(arrays->lists, p, at), &p->list, at.tile, &b);
  for (; t.careful <= t.any_again; ++t.careful) {
    t.loaded = t.finished = 0;
    if (t.extent.high_position >= 0) {
      do_band(&t, &keys, &p->list, &b, &io);
      do_sinks(&t, &keys, &p->list, &b, &io);
    }
    /* Where no block was the last: queries that do not exist. */
    for (int g = 0; g < GROUPS && !t.finished; ++g) {
      if (t.again[g] < t.careful) continue;
      if (t.loaded <= g) load_group(&t, g, &io);
      finish_group(&t, g, &io);
    }
  }
  store_lse(&t, &io);
}

/* Grid: tile. Neighbours in the grid are neighbours in time, so an item asks for the queries of the next one. */
__attribute__((reqd_work_group_size(1, 1, 1))) kernel void attend_cpu(const sattn_attend_cpu_params p, global const stored *query,
                                                                      global const float *packed, global const int *lists,
                                                                      global stored *out, global float *lse, global float *partial,
                                                                      global stored *branch, global const uchar *gate_own,
                                                                      global const uchar *gate_first, global const float *sink_logits) {
  const launch_arrays arrays = {query, packed, lists, out, lse, partial, branch, gate_own, gate_first, sink_logits};
  const long items = p.batch * (p.heads / HEADS_PER_TILE) * p.tiles;
  for (long item = get_global_id(0); item < items; item += get_global_size(0)) {
    do_tile(&arrays, &p, item, item + 1 < items ? item + 1 : -1);
  }
}
