/* MoBA's choice of blocks on CPUs: sixteen queries in lanes, so that neither scoring nor choosing crosses lanes or branches.
 *
 *                 16 queries, transposed             means of 8 blocks            the best so far, by lane
 *               +--------------------+            +---+---+-- --+---+
 *      x = 0    | q0 q1 q2 ... q15   |   x = 0    | b | b | ... | b |      t = 0   | score, block |  highest
 *      x = 1    |                    |       1    | broadcast, one  |      t = 1   | score, block |
 *      ...      |                    |      ...   | multiply-add a  |      ...                          topk - 1 of them
 *               +--------------------+            | vector          |
 *
 * The same result as `select_blocks` of select.cl, which comes before this file, up to the rounding of scores; the same arrays.
 */
#define EACH(i, n)   _Pragma("unroll") for (int i = 0; i < (n); ++i)
#define AT_ONCE      8 /* blocks */
#define MOST_OTHERS  15
#define SOME_QUERIES 16

/* The best so far, by lane; block -1: none yet. The first stays in registers while blocks are scored. */
typedef struct best_blocks {
  float16 score[MOST_OTHERS];
  int16 block[MOST_OTHERS];
  int room;
} best_blocks;

static inline int some(int16 v) {
  const int8 a = v.lo | v.hi;
  const int4 b = a.lo | a.hi;
  const int2 c = b.lo | b.hi;
  return c.x | c.y; /* any() would be a branch for every pair of lanes */
}

/* Takes the lanes of `in` and those of `may` that score more into one place; what was there is carried on. */
static inline int16 exchange(float16 *score, int16 *block, float16 *carried, int16 *carried_block, int16 may, int16 in) {
  const float16 here = *score;
  const int16 here_block = *block;
  in |= may & (isgreater(*carried, here) | (here_block == (int16)(-1)));
  *score = select(here, *carried, in);
  *block = select(here_block, *carried_block, in);
  *carried = select(*carried, here, in);
  *carried_block = select(*carried_block, here_block, in);
  return in;
}

/* Offers a block to the lanes in `may`. It stands behind all that score at least as much; blocks come in ascending order, so of equal ones
 * the lowest stays. What it pushes out is at least as good as all that follows and pushes on. */
static inline void offer(best_blocks *best, float16 *top, int16 *top_block, int16 block, float16 score, int16 may) {
  float16 carried = select(score, (float16)(-INFINITY), isnan(score));
  const int last = best->room - 1;
  int16 in = exchange(top, top_block, &carried, &block, may, (int16)(0));
  if (last == 0) return;
  if (!some(in | (may & (isgreater(carried, best->score[last]) | (best->block[last] == (int16)(-1)))))) return;
  for (int t = 1; t <= last; ++t) in = exchange(&best->score[t], &best->block[t], &carried, &block, may, in);
}

/* `candidates` by lane: blocks below it compete, own excepted. */
static inline void choose(best_blocks *best, const float16 *query, __global const float *means, int16 own, int16 candidates, int most) {
  for (int t = 0; t < best->room; ++t) {
    best->score[t] = (float16)(-INFINITY);
    best->block[t] = (int16)(-1);
  }
  float16 top = (float16)(-INFINITY);
  int16 top_block = (int16)(-1);
  for (int first = 0; first < most; first += AT_ONCE) {
    __global const float *mean = means + mean_at(first, 0);
    float16 sum[AT_ONCE];
    EACH(u, AT_ONCE) sum[u] = (float16)(0.0f);
    for (int c = 0; c < HEAD_DIM; ++c) {
      EACH(u, AT_ONCE) sum[u] = fma(query[c], (float16)(mean[c * LANES + u]), sum[u]);
    }
    EACH(u, AT_ONCE) {
      const int16 block = first + u;
      offer(best, &top, &top_block, block, sum[u], (block < candidates) & (block != own));
    }
  }
  best->score[0] = top;
  best->block[0] = top_block;
}

static inline void load_queries(__global const stored *query, const long *row, float16 *columns) {
  for (int x = 0; x < HEAD_DIM; x += 16) {
    float16 part[16];
    EACH(j, 16) part[j] = stored_load(query + row[j] + x);
    transpose16(part);
    EACH(j, 16) columns[x + j] = part[j];
  }
}

/* Writes what one lane chose, its own block among it, ascending. */
static inline void write_choice(const best_blocks *best, int lane, int own, __global uint *blocks, int places) {
  int count = 0;
  for (int t = 0; t < best->room; ++t) {
    const int block = ((const int *)&best->block[t])[lane];
    if (block >= 0) blocks[count++] = (uint)block;
  }
  blocks[count++] = (uint)own;
  sort_blocks(blocks, count);
  for (; count < places; ++count) blocks[count] = NO_BLOCK;
}

typedef struct row_range {
  int length, start;
} row_range;

static inline void select_group(const sattn_general_params *params, long b, long h, int first, row_range range,
                                __global const stored *query, __global const float *means, __global uint *selected) {
  const long head = params->query.offset + b * params->query.stride_batch + h * params->query.stride_head;
  const int rows = min(SOME_QUERIES, params->queries - first);
  long row[SOME_QUERIES];
  int own[SOME_QUERIES], candidates[SOME_QUERIES], most = 0;
  for (int j = 0; j < SOME_QUERIES; ++j) {
    const int i = first + min(j, rows - 1), position = range.start + i, exists = j < rows && position < range.length;
    row[j] = head + i * params->query.stride_token;
    ask_for(query, head + min(i + SOME_QUERIES, params->queries - 1) * params->query.stride_token);
    own[j] = exists ? position / params->block : -1;
    candidates[j] = !exists ? 0 : params->causal ? own[j] : (range.length - 1) / params->block + 1;
    most = max(most, candidates[j]);
  }
  best_blocks best;
  best.room = params->topk - 1;
  if (best.room > 0 && most > 0) {
    float16 columns[HEAD_DIM];
    load_queries(query, row, columns);
    choose(&best, columns, means, vload16(0, own), vload16(0, candidates), most);
  } else {
    best.room = 0;
  }
  for (int j = 0; j < rows; ++j) {
    __global uint *blocks = selected + ((b * params->heads + h) * params->queries + first + j) * (long)params->selected_stride;
    if (own[j] >= 0) {
      write_choice(&best, j, own[j], blocks, params->selected_stride);
    } else {
      for (int place = 0; place < params->selected_stride; ++place) blocks[place] = NO_BLOCK;
    }
  }
}

/* Grid: sixteen queries, head, batch entry. `scores` is not used; the arguments are those of select_blocks. */
__kernel void select_wide(const sattn_general_params params, __global const stored *query, __global const float *means,
                          __global const int *lengths, __global const int *query_start, __global uint *selected, __global float *scores) {
  (void)scores;
  for (long b = get_global_id(2); b < params.batch; b += get_global_size(2)) {
    const int behind = params.keys - params.queries;
    const row_range range = {lengths ? clamp(lengths[params.lengths + b], 0, params.keys) : params.keys,
                             query_start ? clamp(query_start[params.query_start + b], 0, behind) : behind};
    for (long h = get_global_id(1); h < params.heads; h += get_global_size(1)) {
      __global const float *head_means = means + params.means + (b * params.kv_heads + h / params.group) * means_of_head(&params);
      for (long first = get_global_id(0) * SOME_QUERIES; first < params.queries; first += get_global_size(0) * SOME_QUERIES) {
        select_group(&params, b, h, (int)first, range, query, head_means, selected + params.selected);
      }
    }
  }
}
