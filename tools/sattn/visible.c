/* Exact counts of visible pairs.
 *
 * Every set here is "keys whose position lies in an interval" and, for SA, "whose slot lies in the query's band as well". As the query's
 * position grows, both ends of its interval grow or stay, so a Fenwick tree over slots holds exactly the tokens of the interval: tokens
 * enter and leave once.
 *
 *     P    = sink tokens and, in UNION, the SWA window        (positions)
 *     SA + P: |SA| + |P| - |SA and P|, each term a sum over queries
 */
#include "visible.h"

#include <stdlib.h>
#include <string.h>

typedef sattn_visibility visibility;

typedef struct interval {
  int64_t first, last; /* empty when last < first */
} interval;

typedef interval (*interval_of)(const visibility *v, int64_t position);

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t last_key(const visibility *v, int64_t position) {
  return v->causal ? position : v->keys - 1;
}

static interval everything(const visibility *v, int64_t position) {
  return (interval){0, last_key(v, position)};
}

static interval sinks(const visibility *v, int64_t position) {
  return (interval){0, smaller(v->sink_tokens - 1, last_key(v, position))};
}

/* The SWA window without the sink tokens in it. Sides are cut to n first: UNBOUNDED plus a position does not fit. */
static interval window(const visibility *v, int64_t position) {
  int64_t left = smaller(v->left_swa, v->keys), right = smaller(v->right_swa, v->keys);
  return (interval){larger(larger(position - left, 0), smaller(v->sink_tokens, v->keys)), smaller(position + right, last_key(v, position))};
}

static uint64_t sum_positions(const visibility *v, interval_of of) {
  uint64_t sum = 0;
  for (int64_t p = v->keys - v->queries; p < v->keys; p++) {
    interval i = of(v, p);
    if (i.last >= i.first) sum += (uint64_t)(i.last - i.first + 1);
  }
  return sum;
}

/* ---- Fenwick tree over slots ---- */

static void tree_add(int32_t *tree, int64_t n, int64_t slot, int32_t value) {
  for (int64_t i = slot + 1; i <= n; i += i & -i) tree[i] += value;
}

/* Tokens in slots 0..slot; slot may be -1. */
static int64_t tree_count(const int32_t *tree, int64_t slot) {
  int64_t count = 0;
  for (int64_t i = slot + 1; i > 0; i -= i & -i) count += tree[i];
  return count;
}

static bool sum_band(const visibility *v, interval_of of, uint64_t *out_sum, sattn_report *report) {
  int64_t n = v->keys, entered = 0, left = 0;
  int32_t *tree = sattn_tool_allocate(report, "counting", (uint64_t)n + 1, sizeof *tree);
  uint32_t *slot = tree ? sattn_tool_allocate(report, "counting", (uint64_t)n, sizeof *slot) : NULL;
  *out_sum = 0;
  for (int64_t s = 0; slot && s < n; s++) slot[v->order[s]] = (uint32_t)s;
  for (int64_t p = n - v->queries; slot && p < n; p++) {
    interval i = of(v, p);
    for (; entered <= i.last; entered++) tree_add(tree, n, slot[entered], 1);
    for (; left < i.first && left < entered; left++) tree_add(tree, n, slot[left], -1);
    int64_t low = larger((int64_t)slot[p] - smaller(v->left_sa, n), 0), high = smaller((int64_t)slot[p] + smaller(v->right_sa, n), n - 1);
    *out_sum += (uint64_t)(tree_count(tree, high) - tree_count(tree, low - 1));
  }
  bool fine = slot != NULL;
  free(slot);
  free(tree);
  return fine;
}

/* ---- the modes, for one plane ---- */

static uint64_t count_window(const visibility *v) {
  return sum_positions(v, sinks) + sum_positions(v, window);
}

static bool count_stochastic(const visibility *v, uint64_t *out_pairs, sattn_report *report) {
  uint64_t band = 0, both = 0;
  if (!sum_band(v, everything, &band, report) || !sum_band(v, sinks, &both, report)) return false;
  *out_pairs = band + sum_positions(v, sinks) - both;
  return true;
}

static bool count_union(const visibility *v, uint64_t *out_pairs, sattn_report *report) {
  uint64_t stochastic = 0, both = 0;
  if (!count_stochastic(v, &stochastic, report) || !sum_band(v, window, &both, report)) return false;
  *out_pairs = stochastic + sum_positions(v, window) - both;
  return true;
}

bool sattn_visible_needs_selected(const visibility *v) {
  return v->mode == SATTN_MOBA && (!v->causal || v->sink_tokens > 0);
}

/* Causal without sink tokens: blocks before the own one are full, so their number alone counts. */
static uint64_t count_blocks(const visibility *v) {
  uint64_t pairs = 0;
  for (int64_t p = v->keys - v->queries; p < v->keys; p++) {
    int64_t own = p / v->block, others = smaller(v->topk - 1, own);
    pairs += (uint64_t)(others * v->block + p - own * v->block + 1);
  }
  return pairs * (uint64_t)v->planes;
}

static uint64_t count_selected(const visibility *v) {
  uint64_t pairs = 0;
  for (int64_t row = 0; row < v->planes * v->queries; row++) {
    int64_t end = last_key(v, v->keys - v->queries + row % v->queries) + 1, sunk = smaller(v->sink_tokens, end);
    pairs += (uint64_t)sunk;
    for (int64_t i = 0; i < v->topk; i++) {
      uint32_t block = v->selected[row * v->topk + i];
      if (block == UINT32_MAX) continue;
      int64_t first = larger((int64_t)block * v->block, sunk), last = smaller(((int64_t)block + 1) * v->block, end);
      if (last > first) pairs += (uint64_t)(last - first);
    }
  }
  return pairs;
}

bool sattn_visible_pairs(const visibility *v, uint64_t *out_pairs, sattn_report *report) {
  uint64_t pairs = 0;
  bool fine = true;
  switch (v->mode) {
    case SATTN_FULL:
      pairs = sum_positions(v, everything);
      break;
    case SATTN_SLIDING_WINDOW:
      pairs = count_window(v);
      break;
    case SATTN_STOCHASTIC:
      fine = count_stochastic(v, &pairs, report);
      break;
    case SATTN_UNION:
      fine = count_union(v, &pairs, report);
      break;
    case SATTN_GATED:
      fine = count_stochastic(v, &pairs, report);
      pairs += count_window(v);
      break;
    case SATTN_MOBA:
      *out_pairs = sattn_visible_needs_selected(v) ? count_selected(v) : count_blocks(v);
      return true;
  }
  *out_pairs = pairs * (uint64_t)v->planes;
  return fine;
}
