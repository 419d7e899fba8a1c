#include "reference_softmax.h"

#include <math.h>

#include "reference_array.h"

/* 1 - tanh^2 as 4 e / (1 + e)^2, which keeps its digits far beyond the cap. Where tanh is 1 it is 0. */
static double cap_slope(double x) {
  double e = exp(-2 * fabs(x));
  return e < 0x1p-55 ? 0 : 4 * e / ((1 + e) * (1 + e));
}

/* Scores into row->probability; returns the largest. */
static double score_keys(const sattn_problem *problem, const double *query, const double *keys, sattn_reference_row *row) {
  double scale = problem->scale, softcap = problem->softcap, largest = -INFINITY;
  int64_t width = problem->head_dim;
  for (int64_t k = 0; k < row->count; ++k) {
    double score = scale * sattn_reference_dot(query, keys + (int64_t)row->key[k] * width, width);
    row->slope[k] = 1;
    if (softcap > 0) {
      double x = score / softcap;
      score = softcap * tanh(x);
      row->slope[k] = cap_slope(x);
    }
    row->probability[k] = score;
    if (score > largest) largest = score;
  }
  return largest;
}

void sattn_reference_softmax(const sattn_problem *problem, const double *query, const double *keys, double sink_logit,
                             sattn_reference_row *row) {
  double largest = score_keys(problem, query, keys, row);
  if (sink_logit > largest) largest = sink_logit;
  /* All scores -infinity (infinite keys): without this, -infinity minus itself would turn the row into NaN. */
  if (largest == -INFINITY) largest = 0;

  row->sink = exp(sink_logit - largest);
  double sum = row->sink;
  for (int64_t k = 0; k < row->count; ++k) {
    row->probability[k] = exp(row->probability[k] - largest);
    sum += row->probability[k];
  }
  if (sum == 0) {
    row->lse = -INFINITY; /* every probability is 0 already */
    return;
  }
  row->lse = largest + log(sum);
  row->sink /= sum;
  for (int64_t k = 0; k < row->count; ++k) row->probability[k] /= sum;
}
