/* Receptive fields of some tokens by search.
 *
 * From one token back through the layers: S_l = {i}, S_{k-1} = all tokens that some token of S_k sees in layer k. While the set is small
 * its members' bands are walked one by one. When it is large the whole order is swept once instead: token j is seen by a member of S iff
 *     causal    the latest member whose band holds j is at j or after it
 *     two-way   there is any such member
 * and "the latest member within a band" is a sliding maximum, O(n) for any width. */
#include <stdlib.h>
#include <string.h>

#include "reach.h"
#include "refuse.h"

typedef struct {
  uint32_t count;
  uint32_t *token;  /* [n], the members in the order they came */
  uint8_t *present; /* [n] */
} token_set;

typedef struct {
  uint64_t at;    /* sweep index */
  uint32_t token; /* a member of the set */
} sweep_member;

typedef struct {
  token_set from, to;
  sweep_member *deque; /* [2 n]: the sliding maximum; sweep indices ascend, tokens descend from head to tail */
  size_t head, tail;
} search_state;

static void set_add(token_set *set, uint32_t token) {
  if (!set->present[token]) {
    set->present[token] = 1;
    set->token[set->count++] = token;
  }
}

static void set_clear(token_set *set) {
  for (uint32_t m = 0; m < set->count; m++) {
    set->present[set->token[m]] = 0;
  }
  set->count = 0;
}

/* One band of one order; both arrays are NULL for positions. */
typedef struct {
  uint32_t n;
  uint32_t left, right;
  bool causal, wrap;
  const uint32_t *order, *slot;
} ordered_band;

static void walk_members(const ordered_band *band, search_state *state) {
  for (uint32_t m = 0; m < state->from.count; m++) {
    const uint32_t viewer = state->from.token[m];
    sattn_field_range ranges[2];
    const int parts =
        sattn_field_band_ranges(band->n, band->wrap, band->slot != NULL ? band->slot[viewer] : viewer, band->left, band->right, ranges);
    for (int part = 0; part < parts; part++) {
      for (uint32_t index = ranges[part].first; index <= ranges[part].last; index++) {
        const uint32_t token = band->order != NULL ? band->order[index] : index;
        if (!band->causal || token <= viewer) {
          set_add(&state->to, token);
        }
      }
    }
  }
}

/* Takes sweep index `at` into the sliding maximum. Sweep index e is index e - right of the order: the circle cut open, or, without wrap, an
 * order with nothing before and after it. */
static void sweep_enter(const ordered_band *band, search_state *state, uint64_t at) {
  int64_t index = (int64_t)at - band->right;
  if (index < 0 || index >= band->n) {
    if (!band->wrap) return;
    index += index < 0 ? (int64_t)band->n : -(int64_t)band->n;
  }
  const uint32_t token = band->order != NULL ? band->order[index] : (uint32_t)index;
  if (!state->from.present[token]) return;
  while (state->tail > state->head && state->deque[state->tail - 1].token <= token) {
    state->tail--;
  }
  state->deque[state->tail++] = (sweep_member){at, token};
}

/* The viewers of the token at index x stand at x - right .. x + left: the band seen from the other end. */
static void sweep_order(const ordered_band *band, search_state *state) {
  const uint64_t width = (uint64_t)band->left + band->right + 1;
  uint64_t entered = 0;
  state->head = state->tail = 0;
  for (uint32_t x = 0; x < band->n; x++) {
    while (entered < x + width) {
      sweep_enter(band, state, entered++);
    }
    while (state->head < state->tail && state->deque[state->head].at < x) {
      state->head++;
    }
    const uint32_t token = band->order != NULL ? band->order[x] : x;
    if (state->head < state->tail && (!band->causal || state->deque[state->head].token >= token)) {
      set_add(&state->to, token);
    }
  }
}

static void step_back(const ordered_band *band, search_state *state) {
  const uint64_t width = (uint64_t)band->left + band->right + 1;
  /* A band that wraps all the way round is no sliding window. It needs none: one layer of it shows everything. */
  const bool all_round = band->wrap && width >= band->n;
  if (all_round || state->from.count * width <= 2 * (uint64_t)band->n) {
    walk_members(band, state);
  } else {
    sweep_order(band, state);
  }
}

/* |R_layers(token)|; leaves both sets empty. */
static uint32_t field_of(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers, uint32_t token,
                         search_state *state) {
  set_add(&state->from, token);
  for (uint32_t layer = layers; layer-- > 0;) {
    if (pattern->swa.used) {
      const ordered_band band = {pattern->n, pattern->swa.left, pattern->swa.right, pattern->causal, false, NULL, NULL};
      step_back(&band, state);
    }
    if (pattern->sa.used) {
      const ordered_band band = {.n = pattern->n,
                                 .left = pattern->sa.left,
                                 .right = pattern->sa.right,
                                 .causal = pattern->causal,
                                 .wrap = pattern->wrap,
                                 .order = sattn_field_order(orders, layer),
                                 .slot = sattn_field_slot(orders, layer)};
      step_back(&band, state);
    }
    const token_set swap = state->from;
    state->from = state->to;
    state->to = swap;
    set_clear(&state->to);
  }
  const uint32_t field = state->from.count;
  set_clear(&state->from);
  return field;
}

sattn_status sattn_field_reach_search(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers,
                                      const uint32_t *tokens, uint32_t count, uint32_t *out_field, sattn_field_progress *progress,
                                      sattn_error *out_error) {
  const uint32_t n = pattern->n;
  search_state state = {.from = {.token = malloc(n * sizeof(uint32_t)), .present = calloc(n, 1)},
                        .to = {.token = malloc(n * sizeof(uint32_t)), .present = calloc(n, 1)},
                        .deque = malloc(2 * (size_t)n * sizeof(sweep_member))};
  sattn_status status = SATTN_OK;
  if (state.from.token == NULL || state.from.present == NULL || state.to.token == NULL || state.to.present == NULL || state.deque == NULL) {
    status = sattn_field_no_memory(out_error);
  }
  for (uint32_t t = 0; t < count && status == SATTN_OK; t++) {
    uint32_t field = 1;
    for (uint32_t layer = 0; layer < layers; layer++) {
      /* fields only grow, so a complete one stays complete */
      if (field != sattn_field_allowed(pattern, tokens[t])) {
        field = field_of(pattern, orders, layer + 1, tokens[t], &state);
      }
      out_field[(size_t)layer * count + t] = field;
      sattn_field_progress_step(progress, 1);
    }
  }
  free(state.from.token);
  free(state.from.present);
  free(state.to.token);
  free(state.to.present);
  free(state.deque);
  return status;
}
