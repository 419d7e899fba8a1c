/* The visible sets of one layer, as bands over one or two orders.
 *
 * Every mode here is a list of at most two bands: one over positions (sliding window) and one over slots (stochastic). FULL is a sliding
 * window that nothing limits; GATED reaches what UNION reaches. MOBA's sets depend on the data and have no place here. */
#ifndef SATTN_TOOLS_FIELD_VISIBLE_H
#define SATTN_TOOLS_FIELD_VISIBLE_H

#include <stdbool.h>
#include <stdint.h>

#include <sattn/attention.h>

typedef struct {
  bool used;
  uint32_t left, right; /* at most n - 1 each */
} sattn_field_band;

typedef struct {
  uint32_t n;
  bool causal;
  bool wrap; /* of the slot distance; positions never wrap */
  sattn_field_band swa, sa;
} sattn_field_pattern;

/* The pattern of a mode with the widths of its windows; the width of a window that the mode does not have is not looked at. */
sattn_status sattn_field_pattern_make(sattn_mode mode, uint32_t n, int64_t width_swa, int64_t width_sa, bool causal, bool wrap,
                                      sattn_field_pattern *out_pattern, sattn_error *out_error);

/* Does the SWA band (the SA band, either) show token j to token i? The definition, one pair at a time: the yardstick of the fast paths.
 * `slot` may be NULL where the pattern has no SA band. */
bool sattn_field_sees_swa(const sattn_field_pattern *pattern, uint32_t i, uint32_t j);
bool sattn_field_sees_sa(const sattn_field_pattern *pattern, const uint32_t *slot, uint32_t i, uint32_t j);
bool sattn_field_sees(const sattn_field_pattern *pattern, const uint32_t *slot, uint32_t i, uint32_t j);

typedef struct {
  uint32_t first, last; /* both included */
} sattn_field_range;

/* The band around index `at` as one range of indices or, where it crosses the end of a circle, two. Returns how many. */
int sattn_field_band_ranges(uint32_t n, bool wrap, uint32_t at, uint32_t left, uint32_t right, sattn_field_range out_ranges[2]);

/* How many tokens token i may see, in any number of layers. */
uint32_t sattn_field_allowed(const sattn_field_pattern *pattern, uint32_t i);

/* The largest number of keys that one token can see in one layer. */
uint32_t sattn_field_max_degree(const sattn_field_pattern *pattern);

#endif
