/* The visible set N(i): which keys one query sees. Contract section 2. */
#ifndef SATTN_REFERENCE_VISIBLE_H
#define SATTN_REFERENCE_VISIBLE_H

#include "problem.h"
#include "reference_permute.h"

/* The softmaxes of a call: one, but two in GATED. */
typedef enum sattn_reference_branch { SATTN_REFERENCE_WHOLE, SATTN_REFERENCE_SA, SATTN_REFERENCE_SWA } sattn_reference_branch;

/* What decides visibility under one softmax: a list of bands. Sides are counts; INT32_MAX and more is unbounded. */
typedef struct sattn_reference_bands {
  int64_t tokens; /* keys at positions 0 .. tokens-1 exist */
  bool causal;
  int64_t sink_tokens;
  bool has_window; /* a band of positions; FULL is one without bounds */
  int64_t left_swa, right_swa;
  const sattn_reference_slots *slots; /* NULL: no band of slots */
  int64_t left_sa, right_sa;
  bool wrap;
  int64_t block; /* 0: no selected blocks */
} sattn_reference_bands;

/* slots may be NULL where the problem has no SA band. */
sattn_reference_bands sattn_reference_bands_of(const sattn_problem *problem, sattn_reference_branch branch, int64_t tokens,
                                               const sattn_reference_slots *slots);

/* Writes the positions of all keys that the query at `position` (< tokens) sees into keys (room for `tokens`), each once, and returns
 * how many. selected: MOBA's blocks, distinct and existing. */
int64_t sattn_reference_visible(const sattn_reference_bands *bands, int64_t position, const uint32_t *selected, int64_t selected_count,
                                uint32_t *keys);

#endif
