#include "bounds.h"

#include <math.h>
#include <stdlib.h>

#include "refuse.h"

static const double pi = 3.14159265358979323846;

double sattn_field_tree_bound(uint32_t degree, uint32_t layers, uint32_t n) {
  double bound = 1.0;
  for (uint32_t layer = 0; layer < layers && bound < n; layer++) {
    bound *= degree;
  }
  return bound < n ? bound : n;
}

uint32_t sattn_field_tree_depth(uint32_t degree, uint32_t n) {
  if (degree < 2 && n > 1) {
    return 0;
  }
  uint32_t depth = 1;
  for (uint64_t reached = degree; reached < n; reached *= degree) {
    depth++;
  }
  return depth;
}

double sattn_field_pair_probability(uint32_t n, uint32_t left, uint32_t right, bool wrap) {
  if (n < 2) {
    return 1.0;
  }
  const double tokens = n;
  if (wrap) {
    const double others = (double)left + right;
    return others < tokens - 1 ? others / (tokens - 1) : 1.0;
  }
  /* sum of (n - k) for k = 1..side */
  const double left_pairs = left * tokens - left * (left + 1.0) / 2;
  const double right_pairs = right * tokens - right * (right + 1.0) / 2;
  return (left_pairs + right_pairs) / (tokens * (tokens - 1));
}

uint64_t sattn_field_causal_total(uint32_t n, uint32_t width) {
  const uint64_t w = width < n ? width : n;
  return n * w - w * (w - 1) / 2;
}

/* One causal layer: with r[m] the probability that a pair at distance m is connected, the pair stays apart if it was (1 - r), is not joined
 * directly, and no token between sees one that is connected: (1 - p r[d]) for each distance d = 0..m-1 of what the band may show. */
static void causal_layer(double p, uint32_t n, double *r) {
  double log_apart = 0.0;
  for (uint32_t m = 0; m < n; m++) {
    const double before = r[m];
    r[m] = 1.0 - (1.0 - before) * exp(log_apart);
    log_apart += log1p(-p * before);
  }
}

/* Two-way layers. The `field` tokens that reach j already are, for another token i, a random part of the n - 1 others: i stays apart from j
 * when none of the `others` that it sees, drawn without replacement, is among them. */
static void two_way_layers(double others, double n, uint32_t layers, double *out_mean) {
  double field = 1.0;
  for (uint32_t layer = 0; layer < layers; layer++) {
    if (n - field - others > 0) {
      const double log_apart = lgamma(n - field) - lgamma(n - field - others) + lgamma(n - others) - lgamma(n);
      field = n - (n - field) * exp(log_apart);
    } else {
      field = n;
    }
    out_mean[layer] = field;
  }
}

sattn_status sattn_field_expected_growth(const sattn_field_pattern *pattern, uint32_t layers, double *out_mean, sattn_error *out_error) {
  const uint32_t n = pattern->n;
  /* a pair that is always visible would make log1p(-1) */
  const double p = fmin(sattn_field_pair_probability(n, pattern->sa.left, pattern->sa.right, pattern->wrap), 1.0 - 0x1p-53);
  if (!pattern->causal) {
    two_way_layers(p * (n - 1.0), n, layers, out_mean);
    return SATTN_OK;
  }
  double *const r = calloc(n, sizeof *r);
  if (r == NULL) {
    return sattn_field_no_memory(out_error);
  }
  r[0] = 1.0;
  for (uint32_t layer = 0; layer < layers; layer++) {
    causal_layer(p, n, r);
    double pairs = 0.0;
    for (uint32_t m = 0; m < n; m++) {
      pairs += (double)(n - m) * r[m];
    }
    out_mean[layer] = pairs / n;
  }
  free(r);
  return SATTN_OK;
}

double sattn_field_ring_clustering(uint32_t n, uint32_t half) {
  if (half < 2 || 3 * (uint64_t)half >= n) {
    return half < 2 ? 0.0 : NAN; /* bands that meet on the far side close triangles of another kind */
  }
  return 3.0 * (half - 1.0) / (2.0 * (2.0 * half - 1.0));
}

double sattn_field_ring_path(uint32_t n, uint32_t half) {
  double sum = 0.0;
  for (uint32_t offset = 1; offset < n; offset++) {
    const uint32_t around = offset < n - offset ? offset : n - offset;
    sum += (around + half - 1) / half;
  }
  return sum / (n - 1.0);
}

double sattn_field_circle_eigenvalue(uint32_t n, uint32_t width) {
  double largest = 0.0;
  for (uint32_t frequency = 1; frequency <= n / 2; frequency++) {
    const double angle = pi * frequency / n;
    largest = fmax(largest, fabs(sin(angle * width) / (width * sin(angle))));
  }
  return largest;
}
