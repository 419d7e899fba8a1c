/* Receptive fields over layers and seeds, summed up. */
#ifndef SATTN_TOOLS_FIELD_GROWTH_H
#define SATTN_TOOLS_FIELD_GROWTH_H

#include "moments.h"
#include "settings.h"
#include "visible.h"

typedef struct {
  sattn_field_moments mean;     /* over seeds: the mean field over tokens */
  sattn_field_moments coverage; /* over seeds: tokens seen / tokens allowed, summed over tokens */
  sattn_field_moments complete; /* over seeds: share of the tokens that see all they may */
  uint32_t min, max;            /* over tokens and seeds */
  double worst;                 /* smallest seen / allowed of a token, over seeds */
  double expected;              /* mean field that independent layers predict; NaN where no formula is known */
  double bound;                 /* no field of this layer is larger */
} sattn_field_growth_layer;

typedef enum { SATTN_FIELD_BY_FORMULA, SATTN_FIELD_BY_BITSETS, SATTN_FIELD_BY_SEARCH } sattn_field_method;

typedef struct {
  sattn_field_pattern pattern;
  sattn_field_method method;
  uint32_t tokens; /* observed */
  uint32_t layers, seeds;
  uint32_t degree;                 /* the largest visible set of one layer */
  uint32_t least_depth;            /* log_degree n, rounded up; 0: never */
  uint64_t window_depth;           /* depth of the sliding window of the same width; 0: never */
  sattn_field_moments depth;       /* over the seeds that got there: layers until every observed token sees all it may */
  sattn_field_moments depth_99;    /* over the seeds that got there: layers until 99 % of all allowed pairs are seen */
  sattn_field_growth_layer *layer; /* [layers] */
} sattn_field_growth_result;

/* Ends with sattn_field_growth_free. */
sattn_status sattn_field_growth_compute(const sattn_field_settings *settings, sattn_field_growth_result *out_result,
                                        sattn_error *out_error);
void sattn_field_growth_free(sattn_field_growth_result *result);

sattn_status sattn_field_growth_plot(const sattn_field_settings *settings, const sattn_field_growth_result *result, sattn_error *out_error);

#endif
