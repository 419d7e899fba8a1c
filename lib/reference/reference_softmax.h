/* One row of probabilities: one query, the keys it sees, one softmax. Forward and backward both begin with it. */
#ifndef SATTN_REFERENCE_SOFTMAX_H
#define SATTN_REFERENCE_SOFTMAX_H

#include "problem.h"

typedef struct sattn_reference_row {
  uint32_t *key; /* [count] positions of the visible keys */
  int64_t count;
  double *probability; /* [count] exp(s - LSE) */
  double *slope;       /* [count] derivative of the score by its value before softcap; 1 without softcap */
  double lse;          /* -infinity where the denominator is 0 */
  double sink;         /* the sink logit's share of the denominator; 0 without one */
} sattn_reference_row;

/* Fills all but key and count. keys: [tokens, head_dim]. sink_logit: -infinity where there is none. */
void sattn_reference_softmax(const sattn_problem *problem, const double *query, const double *keys, double sink_logit,
                             sattn_reference_row *row);

#endif
