/* A key can lie in several bands and must count once. It belongs to the first band that holds it, in this order:
 *
 *     sink tokens  ->  window of positions (SWA, FULL)  ->  window of slots (SA), or selected blocks (MOBA)
 *
 * Each band lists its keys and leaves out those that an earlier band holds. Nothing looks at more keys than it lists, but for causality. */
#include "reference_visible.h"

typedef struct key_list {
  const sattn_reference_bands *bands;
  int64_t position; /* of the query */
  uint32_t *keys;
  int64_t count;
} key_list;

sattn_reference_bands sattn_reference_bands_of(const sattn_problem *problem, sattn_reference_branch branch, int64_t tokens,
                                               const sattn_reference_slots *slots) {
  sattn_reference_bands bands = {.tokens = tokens, .causal = problem->causal, .sink_tokens = problem->sink_tokens};
  if (problem->mode == SATTN_FULL) {
    bands.has_window = true;
    bands.left_swa = bands.right_swa = INT32_MAX;
  }
  if (problem->uses_swa && branch != SATTN_REFERENCE_SA) {
    bands.has_window = true;
    bands.left_swa = problem->left_swa;
    bands.right_swa = problem->right_swa;
  }
  if (problem->uses_sa && branch != SATTN_REFERENCE_SWA) {
    bands.slots = slots;
    bands.left_sa = problem->left_sa;
    bands.right_sa = problem->right_sa;
    bands.wrap = problem->wrap;
  }
  if (problem->mode == SATTN_MOBA) bands.block = problem->block;
  return bands;
}

/* ---- may this key be seen at all, and has an earlier band listed it? ---- */

static bool allowed(const key_list *list, int64_t key) {
  return !list->bands->causal || key <= list->position;
}

static bool in_sink(const key_list *list, int64_t key) {
  return key < list->bands->sink_tokens;
}

static bool in_window(const key_list *list, int64_t key) {
  const sattn_reference_bands *bands = list->bands;
  return bands->has_window && list->position - bands->left_swa <= key && key <= list->position + bands->right_swa;
}

static void add(key_list *list, int64_t key) {
  list->keys[list->count++] = (uint32_t)key;
}

/* ---- the bands ---- */

static void add_sink_tokens(key_list *list) {
  for (int64_t key = 0; key < list->bands->tokens && in_sink(list, key); ++key) {
    if (allowed(list, key)) add(list, key);
  }
}

static void add_window(key_list *list) {
  const sattn_reference_bands *bands = list->bands;
  int64_t first = list->position - bands->left_swa, last = list->position + bands->right_swa;
  if (first < 0) first = 0;
  if (last > bands->tokens - 1) last = bands->tokens - 1;
  for (int64_t key = first; key <= last && allowed(list, key); ++key) {
    if (!in_sink(list, key)) add(list, key);
  }
}

static void add_slot_key(key_list *list, int64_t key) {
  if (allowed(list, key) && !in_sink(list, key) && !in_window(list, key)) add(list, key);
}

/* Neighbours in slot order, from the query's own outwards until the band or the order ends. Ranks step over slots whose token does not
 * exist; the distance is between slots. */
static void add_slots(key_list *list) {
  const sattn_reference_bands *bands = list->bands;
  const sattn_reference_slots *slots = bands->slots;
  int64_t rank = slots->rank[list->position], slot = slots->slot[list->position];
  for (int64_t r = rank; r >= 0 && slot - slots->slot[slots->token[r]] <= bands->left_sa; --r) add_slot_key(list, slots->token[r]);
  for (int64_t r = rank + 1; r < slots->tokens && slots->slot[slots->token[r]] - slot <= bands->right_sa; ++r) {
    add_slot_key(list, slots->token[r]);
  }
}

static int64_t modulo(int64_t value, int64_t modulus) {
  return value < 0 ? value + modulus : value;
}

/* The same on a circle of `total` slots. A band that goes round the whole circle would reach keys twice: it holds every key once. */
static void add_slots_circular(key_list *list) {
  const sattn_reference_bands *bands = list->bands;
  const sattn_reference_slots *slots = bands->slots;
  int64_t tokens = slots->tokens, total = slots->total;
  if (bands->left_sa + bands->right_sa + 1 >= total) {
    for (int64_t key = 0; key < tokens; ++key) add_slot_key(list, key);
    return;
  }
  int64_t rank = slots->rank[list->position], slot = slots->slot[list->position];
  for (int64_t step = 0; step < tokens; ++step) {
    int64_t key = slots->token[modulo(rank - step, tokens)];
    if (modulo(slot - slots->slot[key], total) > bands->left_sa) break;
    add_slot_key(list, key);
  }
  for (int64_t step = 1; step < tokens; ++step) {
    int64_t key = slots->token[(rank + step) % tokens];
    if (modulo(slots->slot[key] - slot, total) > bands->right_sa) break;
    add_slot_key(list, key);
  }
}

static void add_blocks(key_list *list, const uint32_t *selected, int64_t selected_count) {
  const sattn_reference_bands *bands = list->bands;
  for (int64_t s = 0; s < selected_count; ++s) {
    int64_t first = selected[s] * bands->block, end = first + bands->block;
    if (end > bands->tokens) end = bands->tokens;
    for (int64_t key = first; key < end && allowed(list, key); ++key) {
      if (!in_sink(list, key)) add(list, key);
    }
  }
}

int64_t sattn_reference_visible(const sattn_reference_bands *bands, int64_t position, const uint32_t *selected, int64_t selected_count,
                                uint32_t *keys) {
  key_list list = {bands, position, keys, 0};
  add_sink_tokens(&list);
  if (bands->has_window) add_window(&list);
  if (bands->slots && bands->wrap) add_slots_circular(&list);
  if (bands->slots && !bands->wrap) add_slots(&list);
  if (bands->block) add_blocks(&list, selected, selected_count);
  return list.count;
}
