/* MoBA: which blocks of keys a query attends to.
 *
 *     K rows    | b b b b | b b b b | b b b b | b b
 *     means     |    0    |    1    |    2    |  3       fp32 sum in position order, divided by the rows that exist
 *     query p         own block = p / block: always chosen; the other topk - 1 by the highest <q, mean>
 *
 * means     [B, H_kv, blocks / 16, HEAD_DIM, 16] fp32: a query meets sixteen blocks at once, in lanes, and nothing is summed across lanes
 * scores    [B, H, n_q, scores_stride] fp32: the best so far, highest first; scratch
 * selected  [B, H, n_q, selected_stride] uint32, ascending, unused places 0xffffffff
 * A score that is NaN counts as -infinity; of equal scores the lowest block wins.
 */
#define WIDE        (HEAD_DIM / 8)
#define NARROW_FROM (HEAD_DIM / 8 * 8)
#define NO_BLOCK    0xffffffffu
#define LANES       16
#define AHEAD       8 /* rows */

/* Rows of a head lie far apart, and half of the time would go into waiting for them. */
static inline void ask_for(__global const element *array, long row) {
#if SATTN_PREFETCH
  for (int c = 0; c < HEAD_DIM; c += 64 / (int)sizeof(element)) __builtin_prefetch((const void *)(size_t)(array + row + c), 0, 3);
#endif
}

static inline long means_of_head(const sattn_general_params *params) {
  return (params->blocks + LANES - 1) / LANES * (long)(LANES * HEAD_DIM);
}

static inline long mean_at(long block, int c) {
  return (block / LANES * HEAD_DIM + c) * LANES + block % LANES;
}

/* Grid: block, key/value head, batch entry. */
__kernel void block_means(const sattn_general_params params, __global const element *key, __global const int *lengths,
                          __global float *means) {
  for (long b = get_global_id(2); b < params.batch; b += get_global_size(2)) {
    long length = lengths ? clamp(lengths[params.lengths + b], 0, params.keys) : params.keys;
    for (long g = get_global_id(1); g < params.kv_heads; g += get_global_size(1)) {
      for (long block = get_global_id(0); block < params.blocks; block += get_global_size(0)) {
        long first = block * params.block, end = min(first + params.block, length);
        __global float *mean = means + params.means + (b * params.kv_heads + g) * means_of_head(&params) + mean_at(block, 0);
        long head = params.key.offset + b * params.key.stride_batch + g * params.key.stride_head;
        float count = (float)(end - first);
        float8 sum[WIDE + 1];
        float tail[8] = {0.0f};
        for (int c = 0; c < WIDE; ++c) sum[c] = (float8)(0.0f);
        for (long j = first; j < end; ++j) {
          const long at = head + j * params.key.stride_token;
          ask_for(key, head + min(j + AHEAD, end - 1) * params.key.stride_token);
          for (int c = 0; c < WIDE; ++c) sum[c] += load_eight(key, at + 8 * c);
          for (int c = NARROW_FROM; c < HEAD_DIM; ++c) tail[c - NARROW_FROM] += load_element(key, at + c);
        }
        if (first >= end) continue;
        for (int c = 0; c < WIDE; ++c) {
          float each[8];
          vstore8(sum[c] / count, 0, each);
          for (int x = 0; x < 8; ++x) mean[(8 * c + x) * LANES] = each[x];
        }
        for (int c = NARROW_FROM; c < HEAD_DIM; ++c) mean[c * LANES] = tail[c - NARROW_FROM] / count;
      }
    }
  }
}

/* Scores of sixteen blocks. Four sums, so that additions overlap. */
static inline float16 gate_scores(const float *query, __global const float *means) {
  float16 sum0 = (float16)(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int c = 0;
  for (; c + 3 < HEAD_DIM; c += 4) {
    sum0 += query[c] * vload16(c, means);
    sum1 += query[c + 1] * vload16(c + 1, means);
    sum2 += query[c + 2] * vload16(c + 2, means);
    sum3 += query[c + 3] * vload16(c + 3, means);
  }
  for (; c < HEAD_DIM; ++c) sum0 += query[c] * vload16(c, means);
  const float16 sum = (sum0 + sum1) + (sum2 + sum3);
  return select(sum, (float16)(-INFINITY), isnan(sum));
}

/* Puts a block behind all that score at least as much; the last falls out when the list is full. Blocks come in ascending order, so of
 * equal ones the lowest stays. Returns the new count. */
static inline int insert_block(__global uint *blocks, __global float *scores, int count, int room, uint block, float score) {
  if (count == room && !(score > scores[room - 1])) return count;
  int at = count < room ? count++ : room - 1;
  while (at > 0 && score > scores[at - 1]) {
    scores[at] = scores[at - 1];
    blocks[at] = blocks[at - 1];
    --at;
  }
  scores[at] = score;
  blocks[at] = block;
  return count;
}

static inline void sort_blocks(__global uint *blocks, int count) {
  for (int i = 1; i < count; ++i) {
    uint block = blocks[i];
    int at = i;
    while (at > 0 && blocks[at - 1] > block) {
      blocks[at] = blocks[at - 1];
      --at;
    }
    blocks[at] = block;
  }
}

/* Chooses for one query. `candidates` blocks [0, candidates) compete, own excepted. Returns how many are chosen. */
static inline int choose_blocks(const sattn_general_params *params, const float *query, __global const float *means, int own,
                                int candidates, __global uint *blocks, __global float *scores) {
  int others = candidates - (own < candidates);
  int count = 0;
  if (others <= params->topk - 1) {
    for (int block = 0; block < candidates; ++block) {
      if (block != own) blocks[count++] = (uint)block;
    }
  } else if (params->topk > 1) {
    for (int first = 0; first < candidates; first += LANES) {
      const float16 all = gate_scores(query, means + mean_at(first, 0));
      const int end = min(first + LANES, candidates);
      if (count == params->topk - 1 && !any(isgreater(all, (float16)(scores[count - 1])))) continue;
      float score[LANES];
      vstore16(all, 0, score);
      for (int block = first; block < end; ++block) {
        if (block != own) count = insert_block(blocks, scores, count, params->topk - 1, (uint)block, score[block - first]);
      }
    }
  }
  blocks[count++] = (uint)own;
  sort_blocks(blocks, count);
  return count;
}

/* Grid: query, head, batch entry. */
__kernel void select_blocks(const sattn_general_params params, __global const element *query, __global const float *means,
                            __global const int *lengths, __global const int *query_start, __global uint *selected, __global float *scores) {
  for (long b = get_global_id(2); b < params.batch; b += get_global_size(2)) {
    int length = lengths ? clamp(lengths[params.lengths + b], 0, params.keys) : params.keys;
    int start = params.keys - params.queries;
    if (query_start) start = clamp(query_start[params.query_start + b], 0, start);
    for (long h = get_global_id(1); h < params.heads; h += get_global_size(1)) {
      __global const float *head_means = means + params.means + (b * params.kv_heads + h / params.group) * means_of_head(&params);
      for (long i = get_global_id(0); i < params.queries; i += get_global_size(0)) {
        long row = (b * params.heads + h) * params.queries + i;
        __global uint *blocks = selected + params.selected + row * params.selected_stride;
        int position = start + (int)i, count = 0;
        if (position < length) {
          float row_query[HEAD_DIM];
          long at = params.query.offset + b * params.query.stride_batch + i * params.query.stride_token + h * params.query.stride_head;
          for (int c = 0; c < HEAD_DIM; ++c) row_query[c] = load_element(query, at + c);
          ask_for(query, at + min((long)AHEAD, params.queries - 1 - i) * params.query.stride_token);
          int own = position / params.block;
          int candidates = params.causal ? own : (length - 1) / params.block + 1;
          count =
              choose_blocks(&params, row_query, head_means, own, candidates, blocks, scores + params.scores + row * params.scores_stride);
        }
        for (long place = count; place < params.selected_stride; ++place) blocks[place] = NO_BLOCK;
      }
    }
  }
}
