/* SA's output as an estimate of full attention's.
 *
 * Over random orders, SA with window w gives token i a softmax over itself and a random part of the other keys: a ratio estimate of the
 * softmax over all of them. With p the full attention's weights, o its output and q the probability of a pair, to first order in 1/q
 *     variance   (1 - q)/q  sum_{j != i} p_j^2 |v_j - o|^2
 *     bias       (1 - q)/q  ( p_i (v_i - o) - sum_{j != i} p_j^2 (v_j - o) )
 * and (1 - q)/q is about n/w: both fall as 1/w. Sink tokens, where there are any, are seen for certain as the token itself is.
 * docs/theory.md derives the formulas. */
#ifndef SATTN_TOOLS_FIELD_APPROXIMATION_H
#define SATTN_TOOLS_FIELD_APPROXIMATION_H

#include "settings.h"

/* One (Q, K, V) in fp32, packed: query [n, heads, d], key and value [n, kv_heads, d]. */
typedef struct {
  int64_t n, heads, kv_heads, d;
  float *query, *key, *value;
} sattn_field_sample;

/* The first n tokens of the settings' files, or random normal data. Ends with sattn_field_sample_free. */
sattn_status sattn_field_sample_make(const sattn_field_settings *settings, sattn_field_sample *out_sample, sattn_error *out_error);
void sattn_field_sample_free(sattn_field_sample *sample);

/* All are squares of distances of output rows, averaged over rows and divided by the mean square of full attention's rows. */
typedef struct {
  int64_t window;
  double pair_probability;
  double variance, variance_theory;
  double bias_square; /* of the mean over the seeds, less what the seeds' scatter puts into it; may come out below 0 where there is none */
  double bias_square_theory;
  double window_square; /* SWA of the same width: its distance has no chance in it */
} sattn_field_approximation_row;

enum { SATTN_FIELD_APPROXIMATION_ROWS = 32 };

typedef struct {
  sattn_field_sample sample;
  int rows;
  sattn_field_approximation_row row[SATTN_FIELD_APPROXIMATION_ROWS];
} sattn_field_approximation_result;

/* Windows 8, 16, ... up to the settings' SA window. Ends with sattn_field_sample_free(&result.sample). */
sattn_status sattn_field_approximation_compute(const sattn_field_settings *settings, sattn_field_approximation_result *out_result,
                                               sattn_error *out_error);

#endif
