/* How often a pair of tokens is visible over random orders, against its law. */
#ifndef SATTN_TOOLS_FIELD_PAIRS_H
#define SATTN_TOOLS_FIELD_PAIRS_H

#include "settings.h"
#include "visible.h"

/* One band's account. The frequency of every pair is compared with the probability by z = (frequency - p) / sqrt(p (1 - p) / seeds). */
typedef struct {
  sattn_field_pattern pattern;
  double probability;            /* the law */
  double frequency;              /* over pairs and seeds */
  double sampling_error;         /* standard error of that frequency */
  double chi_square;             /* sum of z^2; about as many as pairs, +- sqrt(2 pairs) */
  double largest_z;              /* in absolute value */
  double *z;                     /* [pairs] */
  uint32_t orders_counted;       /* orders whose visible pairs were counted one by one */
  uint64_t total_min, total_max; /* visible (query, key) pairs of a whole layer, over those orders */
} sattn_field_pair_account;

typedef struct {
  uint32_t pairs;
  sattn_field_pair_account two_way, causal; /* causal: the later token of the pair looks */
  uint64_t causal_swa_total;
} sattn_field_pairs_result;

/* Ends with sattn_field_pairs_free. */
sattn_status sattn_field_pairs_compute(const sattn_field_settings *settings, sattn_field_pairs_result *out_result, sattn_error *out_error);
void sattn_field_pairs_free(sattn_field_pairs_result *result);

/* Visible (query, key) pairs of one layer of a pattern with an SA band alone, counted one by one. */
uint64_t sattn_field_count_visible(const sattn_field_pattern *pattern, const uint32_t *order);

#endif
