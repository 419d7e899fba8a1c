/* How many (query, key) pairs a mode looks at: counted exactly, not estimated. */
#ifndef SATTN_TOOL_VISIBLE_H
#define SATTN_TOOL_VISIBLE_H

#include "report.h"

typedef struct sattn_visibility {
  sattn_mode mode;
  bool causal;
  int64_t keys;
  int64_t queries;                                /* the last `queries` positions */
  int64_t left_sa, right_sa, left_swa, right_swa; /* SATTN_UNBOUNDED is allowed */
  int64_t sink_tokens;
  int64_t block, topk;
  const uint32_t *order; /* SA, UNION, GATED: [keys] */
  const uint32_t
      *selected;  /* MOBA: [query heads of all batches][queries][topk] as forward saves it; NULL while causal without sink tokens */
  int64_t planes; /* batch * query heads */
} sattn_visibility;

/* Sum over all planes. UNION counts a key once, GATED both branches. O(n log n), MOBA O(n topk) per plane. */
bool sattn_visible_pairs(const sattn_visibility *visibility, uint64_t *out_pairs, sattn_report *report);

/* Whether `selected` is needed. */
bool sattn_visible_needs_selected(const sattn_visibility *visibility);

#endif
