/* Receptive fields: how many tokens the output of layer l at token i depends on.
 *
 * R_0(i) = {i},   R_l(i) = union of R_{l-1}(j) over the tokens j that i sees in layer l (layers count from 1; layer l uses order l - 1).
 *
 * Three ways to the same numbers, each exact for the tokens it reports:
 *     window    a formula; patterns without an SA band, any n
 *     bitsets   every token, n up to SATTN_FIELD_EXACT_MAX; O(n (layers + log w)) memory
 *     search    some tokens, any n, backwards from each; O(n layers) memory for the orders and 42 n bytes beside them */
#ifndef SATTN_TOOLS_FIELD_REACH_H
#define SATTN_TOOLS_FIELD_REACH_H

#include "orders.h"
#include "progress.h"
#include "visible.h"

enum { SATTN_FIELD_EXACT_MAX = 65536 };

/* |R_layers(i)| of a pattern without an SA band. */
uint32_t sattn_field_reach_window(const sattn_field_pattern *pattern, uint64_t layers, uint32_t i);

/* Layers until every token sees all it may, for a pattern without an SA band; 0 when that never happens (a window of one token). */
uint64_t sattn_field_window_depth(const sattn_field_pattern *pattern);

/* out_field[l * n + i] = |R_{l+1}(i)| for l < layers. */
sattn_status sattn_field_reach_bitsets(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers,
                                       uint32_t *out_field, sattn_field_progress *progress, sattn_error *out_error);
/* Steps of progress that the call above makes. */
uint64_t sattn_field_reach_bitsets_steps(uint32_t n, uint32_t layers);

/* out_field[l * count + t] = |R_{l+1}(tokens[t])|. Makes layers * count steps of progress. */
sattn_status sattn_field_reach_search(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers,
                                      const uint32_t *tokens, uint32_t count, uint32_t *out_field, sattn_field_progress *progress,
                                      sattn_error *out_error);

#endif
