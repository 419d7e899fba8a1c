/* Receptive fields of all tokens by bitsets.
 *
 * A full n x n bit matrix would take 512 MiB at n = 65536, twice. But the columns (the tokens seen) do not mix: they are done in strips of
 * one cache line, 512 tokens wide, through all layers, and only counts are kept. In a strip, one layer is: for every token the OR of the
 * rows of a band of its order, causally only of the rows of earlier tokens. A segment tree over the order answers that in O(log w) row
 * operations: tokens enter in order of position, so whatever is in the tree when token i asks is visible to it. */
#include "reach.h"

#include <stdlib.h>
#include <string.h>

#include "refuse.h"

enum { STRIP_WORDS = 8, STRIP = 64 * STRIP_WORDS };

typedef struct {
  uint64_t word[STRIP_WORDS];
} row;

typedef struct {
  uint32_t n, leaves; /* leaves: a power of two, >= n */
  row *tree;          /* [2 * leaves], node 1 the root, index x at leaves + x */
  row *now, *next;    /* [n], by token */
  uint16_t *count;    /* [n], bits set in next */
} strip_state;

static void row_or(row *to, const row *from) {
  for (int w = 0; w < STRIP_WORDS; w++) {
    to->word[w] |= from->word[w];
  }
}

static uint16_t row_count(const row *bits) {
  int count = 0;
  for (int w = 0; w < STRIP_WORDS; w++) {
    uint64_t x = bits->word[w];
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    count += (int)((x * 0x0101010101010101u) >> 56);
  }
  return (uint16_t)count;
}

/* Nodes larger than the band never answer a query, so they are never filled: `levels` bounds the walk up. */
static void tree_insert(strip_state *state, uint32_t index, const row *bits, int levels) {
  size_t node = (size_t)state->leaves + index;
  for (int level = 0; level <= levels && node > 0; level++, node >>= 1) {
    row_or(&state->tree[node], bits);
  }
}

static void tree_query(const strip_state *state, sattn_field_range range, row *result) {
  size_t low = (size_t)state->leaves + range.first;
  size_t high = (size_t)state->leaves + range.last + 1;
  for (; low < high; low >>= 1, high >>= 1) {
    if (low & 1) {
      row_or(result, &state->tree[low++]);
    }
    if (high & 1) {
      row_or(result, &state->tree[--high]);
    }
  }
}

static int levels_of(uint64_t band) {
  int levels = 0;
  while (((uint64_t)2 << levels) <= band) {
    levels++;
  }
  return levels;
}

/* next |= OR over one band. `slot` is NULL for positions. Tokens before `start` have empty rows; tokens whose row is full already are left.
 */
static void spread(strip_state *state, const sattn_field_pattern *pattern, sattn_field_band band, const uint32_t *slot, uint32_t start,
                   const uint16_t *full) {
  const bool wrap = pattern->wrap && slot != NULL;
  const uint64_t width = (uint64_t)band.left + band.right + 1;
  const int levels = levels_of(width < state->n ? width : state->n);
  memset(state->tree, 0, 2 * (size_t)state->leaves * sizeof(row));
  if (!pattern->causal) {
    for (uint32_t j = start; j < state->n; j++) {
      tree_insert(state, slot != NULL ? slot[j] : j, &state->now[j], levels);
    }
  }
  for (uint32_t i = start; i < state->n; i++) {
    const uint32_t index = slot != NULL ? slot[i] : i;
    if (pattern->causal) {
      tree_insert(state, index, &state->now[i], levels);
    }
    if (state->count[i] == full[i - start]) {
      continue;
    }
    sattn_field_range ranges[2];
    const int parts = sattn_field_band_ranges(state->n, wrap, index, band.left, band.right, ranges);
    for (int part = 0; part < parts; part++) {
      tree_query(state, ranges[part], &state->next[i]);
    }
  }
}

/* How many tokens of the strip [first, last] token i may see. */
static uint16_t strip_allowed(const sattn_field_pattern *pattern, uint32_t first, uint32_t last, uint32_t i) {
  return (uint16_t)((pattern->causal && i < last ? i : last) - first + 1);
}

static void strip_through_layers(strip_state *state, const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers,
                                 uint32_t first, uint16_t *full, uint32_t *out_field, sattn_field_progress *progress) {
  const uint32_t n = state->n;
  const uint32_t last = n - first > STRIP ? first + STRIP - 1 : n - 1;
  const uint32_t start = pattern->causal ? first : 0; /* earlier tokens see nothing of this strip */
  memset(state->now, 0, n * sizeof(row));
  memset(state->count, 0, n * sizeof(uint16_t));
  for (uint32_t j = first; j <= last; j++) {
    state->now[j].word[(j - first) / 64] = (uint64_t)1 << ((j - first) % 64);
    state->count[j] = 1;
  }
  for (uint32_t i = start; i < n; i++) {
    full[i - start] = strip_allowed(pattern, first, last, i);
  }
  bool complete = false;
  for (uint32_t layer = 0; layer < layers; layer++) {
    if (!complete) {
      memcpy(state->next, state->now, n * sizeof(row)); /* a token always sees itself */
      if (pattern->swa.used) {
        spread(state, pattern, pattern->swa, NULL, start, full);
      }
      if (pattern->sa.used) {
        spread(state, pattern, pattern->sa, sattn_field_slot(orders, layer), start, full);
      }
      complete = true;
    }
    for (uint32_t i = start; i < n; i++) {
      if (state->count[i] != full[i - start]) {
        state->count[i] = row_count(&state->next[i]);
        complete = complete && state->count[i] == full[i - start];
      }
      out_field[(size_t)layer * n + i] += state->count[i];
    }
    row *const swap = state->now;
    state->now = state->next;
    state->next = swap;
    sattn_field_progress_step(progress, 1);
  }
}

uint64_t sattn_field_reach_bitsets_steps(uint32_t n, uint32_t layers) {
  return ((uint64_t)n + STRIP - 1) / STRIP * layers;
}

sattn_status sattn_field_reach_bitsets(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers,
                                       uint32_t *out_field, sattn_field_progress *progress, sattn_error *out_error) {
  const uint32_t n = pattern->n;
  if (n > SATTN_FIELD_EXACT_MAX) {
    return sattn_field_refuse(out_error, SATTN_INVALID_ARGUMENT, "n", "n is %u, but bitsets go up to %d tokens", n, SATTN_FIELD_EXACT_MAX);
  }
  strip_state state = {.n = n, .leaves = 1};
  while (state.leaves < n) {
    state.leaves *= 2;
  }
  state.tree = aligned_alloc(sizeof(row), 2 * (size_t)state.leaves * sizeof(row));
  state.now = aligned_alloc(sizeof(row), n * sizeof(row));
  state.next = aligned_alloc(sizeof(row), n * sizeof(row));
  state.count = malloc(n * sizeof(uint16_t));
  uint16_t *const full = malloc(n * sizeof(uint16_t));
  sattn_status status = SATTN_OK;
  if (state.tree == NULL || state.now == NULL || state.next == NULL || state.count == NULL || full == NULL) {
    status = sattn_field_no_memory(out_error);
  } else {
    memset(out_field, 0, (size_t)layers * n * sizeof(uint32_t));
    for (uint32_t first = 0; first < n; first += STRIP) {
      strip_through_layers(&state, pattern, orders, layers, first, full, out_field, progress);
    }
  }
  free(full);
  free(state.count);
  free(state.next);
  free(state.now);
  free(state.tree);
  return status;
}
