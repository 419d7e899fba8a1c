/* Softmax, outputs and gradients over the visible pairs. Contract sections 1, 4 and 6. */
#include "oracle.h"

#include <math.h>
#include <string.h>

#include "half.h"
#include "memory.h"
#include "oracle_visible.h"

/* Everything that one query of one way needs, and what it leaves for backward. */
typedef struct row {
  unsigned char *seen; /* [n_k] */
  double *p;           /* [n_k] probabilities, 0 where not seen */
  double *slope;       /* [n_k] d(score after softcap) / d(score before) */
  double *y;           /* [d] */
  double *dy;          /* [d] */
  double lse;
} row;

typedef struct work {
  const test_call *call;
  test_oracle_result *result;
  test_rounding rounding;
  double scale, softcap;
  int64_t d, heads, keys, queries;
  double *size[TEST_OUTPUTS]; /* gradients with absolute values */
} work;

/* P, dS and gated dO: between two products. */
static double keep_weight(const work *w, double value) {
  return w->rounding == TEST_ROUND_ALL ? test_round(w->call->attention.dtype, value) : value;
}

/* O and GATED's branches: in memory. */
static double keep(const work *w, double value) {
  return w->rounding != TEST_EXACT ? test_round(w->call->attention.dtype, value) : value;
}

static double finite_size(double value) {
  return isfinite(value) ? fabs(value) : 0;
}

static const float *query_row(const work *w, test_input input, int64_t b, int64_t i, int64_t h) {
  return w->call->input[input] + ((b * w->queries + i) * w->heads + h) * w->d;
}

/* 1 - tanh^2 as 4 e / (1 + e)^2, which keeps its digits; 0 where a tanh in double precision is 1. */
static double cap_slope(double x) {
  double e = exp(-2 * fabs(x));
  return e < 0x1p-55 ? 0 : 4 * e / ((1 + e) * (1 + e));
}

/* Scores of the visible pairs and their softmax. */
static void softmax(work *w, const test_head *head, int64_t i, row *r) {
  const float *q = test_head_query(head, i);
  const float *sinks = w->call->input[TEST_SINK_LOGITS];
  double sink = sinks ? (double)sinks[head->h] : -(double)INFINITY;
  double top = sink;
  for (int64_t j = 0; j < w->keys; ++j) {
    r->p[j] = 0;
    r->slope[j] = 0;
    if (!r->seen[j]) continue;
    const float *k = test_head_row(head, TEST_KEY, j);
    double s = 0;
    double reach = 0;
    for (int64_t c = 0; c < w->d; ++c) {
      s += (double)q[c] * (double)k[c];
      reach += fabs((double)q[c] * (double)k[c]);
    }
    reach *= fabs(w->scale);
    if (isfinite(reach) && reach > w->result->score) w->result->score = reach;
    s *= w->scale;
    r->slope[j] = 1;
    if (w->softcap > 0) {
      double x = s / w->softcap;
      s = w->softcap * tanh(x);
      r->slope[j] = cap_slope(x);
    }
    r->p[j] = s;
    if (s > top || isnan(s)) top = s;
  }
  double sum = sinks ? exp(sink - top) : 0;
  for (int64_t j = 0; j < w->keys; ++j) {
    if (!r->seen[j]) continue;
    r->p[j] = exp(r->p[j] - top);
    sum += r->p[j];
  }
  for (int64_t j = 0; j < w->keys; ++j) r->p[j] /= sum;
  r->lse = log(sum) + top;
}

static void values(const work *w, const test_head *head, row *r) {
  for (int64_t c = 0; c < w->d; ++c) r->y[c] = 0;
  for (int64_t j = 0; j < w->keys; ++j) {
    if (!r->seen[j]) continue;
    const float *v = test_head_row(head, TEST_VALUE, j);
    double p = keep_weight(w, r->p[j]);
    for (int64_t c = 0; c < w->d; ++c) r->y[c] += p * (double)v[c];
  }
}

/* ---- gates ---- */

static test_input gate_input(test_way way) {
  return way == TEST_WAY_SA ? TEST_GATE_SA : TEST_GATE_SWA;
}

static size_t gate_at(const work *w, test_way way, int64_t b, int64_t i, int64_t h, int64_t c) {
  test_shape shape = test_input_shape(w->call, gate_input(way));
  int64_t width = shape.size[3];
  return (size_t)(((b * w->queries + i) * w->heads + h) * width + (width == 1 ? 0 : c));
}

static double gate_of(const work *w, test_way way, int64_t b, int64_t i, int64_t h, int64_t c) {
  if (way == TEST_WAY_ALL) return 1;
  return 1 / (1 + exp(-(double)w->call->input[gate_input(way)][gate_at(w, way, b, i, h, c)]));
}

/* ---- backward of one row ---- */

static void add(work *w, test_output output, size_t at, double value, double size) {
  w->result->output[output][at] += value;
  w->size[output][at] += size;
}

/* dO of the branch, after the gate took its own gradient from it. */
static void grad_gate(work *w, test_way way, const test_head *head, int64_t i, row *r) {
  const float *grad_out = query_row(w, TEST_GRAD_OUT, head->b, i, head->h);
  test_output output = way == TEST_WAY_SA ? TEST_GRAD_GATE_SA : TEST_GRAD_GATE_SWA;
  for (int64_t c = 0; c < w->d; ++c) {
    double g = gate_of(w, way, head->b, i, head->h, c);
    double dy = (double)grad_out[c];
    r->dy[c] = way == TEST_WAY_ALL ? dy : keep_weight(w, dy * g);
    if (way == TEST_WAY_ALL) continue;
    double dg = dy * r->y[c] * g * (1 - g);
    add(w, output, gate_at(w, way, head->b, i, head->h, c), dg, finite_size(dg));
  }
}

static double grad_lse_of(const work *w, test_way way, int64_t b, int64_t h, int64_t i) {
  test_input input = way == TEST_WAY_ALL ? TEST_GRAD_LSE : way == TEST_WAY_SA ? TEST_GRAD_LSE_SA : TEST_GRAD_LSE_SWA;
  const float *given = w->call->input[input];
  return given ? (double)given[(b * w->heads + h) * w->queries + i] : 0;
}

static double dot(const double *a, const float *b, int64_t d) {
  double sum = 0;
  for (int64_t c = 0; c < d; ++c) sum += a[c] * (double)b[c];
  return sum;
}

static double size_dot(const double *a, const float *b, int64_t d) {
  double sum = 0;
  for (int64_t c = 0; c < d; ++c) sum += finite_size(a[c]) * finite_size((double)b[c]);
  return sum;
}

static void backward(work *w, test_way way, const test_head *head, int64_t i, row *r) {
  const test_call *call = w->call;
  grad_gate(w, way, head, i, r);
  double dl = grad_lse_of(w, way, head->b, head->h, i);
  double delta = 0;
  double delta_size = 0;
  double sink_size = 0;
  for (int64_t j = 0; j < w->keys; ++j) {
    if (!r->seen[j]) continue;
    const float *v = test_head_row(head, TEST_VALUE, j);
    double dp = dot(r->dy, v, w->d);
    if (w->rounding == TEST_EXACT) delta += r->p[j] * dp;
    delta_size += finite_size(r->p[j]) * size_dot(r->dy, v, w->d);
    sink_size += finite_size(r->p[j] * dp);
  }
  /* The usual shortcut sum(dO * O) sees the rounded O. */
  for (int64_t c = 0; w->rounding != TEST_EXACT && c < w->d; ++c) delta += r->dy[c] * keep(w, r->y[c]);
  if (call->input[TEST_SINK_LOGITS]) {
    double p_sink = exp((double)call->input[TEST_SINK_LOGITS][head->h] - r->lse);
    add(w, TEST_GRAD_SINK_LOGITS, (size_t)head->h, p_sink * (dl - delta), p_sink * (fabs(dl) + sink_size));
  }
  size_t at_q = (size_t)(query_row(w, TEST_QUERY, head->b, i, head->h) - call->input[TEST_QUERY]);
  for (int64_t j = 0; j < w->keys; ++j) {
    if (!r->seen[j]) continue;
    const float *q = test_head_query(head, i);
    const float *k = test_head_row(head, TEST_KEY, j);
    const float *v = test_head_row(head, TEST_VALUE, j);
    size_t at_k = (size_t)(k - call->input[TEST_KEY]);
    double dp = dot(r->dy, v, w->d);
    double ds = keep_weight(w, r->p[j] * (dp - delta + dl) * r->slope[j]) * w->scale;
    double ds_size = finite_size(r->p[j]) * (finite_size(dp) + delta_size + fabs(dl)) * r->slope[j] * fabs(w->scale);
    for (int64_t c = 0; c < w->d; ++c) {
      add(w, TEST_GRAD_QUERY, at_q + (size_t)c, ds * (double)k[c], ds_size * finite_size((double)k[c]));
      add(w, TEST_GRAD_KEY, at_k + (size_t)c, ds * (double)q[c], ds_size * finite_size((double)q[c]));
      add(w, TEST_GRAD_VALUE, at_k + (size_t)c, keep_weight(w, r->p[j]) * r->dy[c], finite_size(r->p[j]) * finite_size(r->dy[c]));
    }
  }
}

/* ---- all rows ---- */

static void attend_row(work *w, test_way way, test_head *head, int64_t i, row *r) {
  test_oracle_result *result = w->result;
  test_output lse = way == TEST_WAY_ALL ? TEST_LSE : way == TEST_WAY_SA ? TEST_LSE_SA : TEST_LSE_SWA;
  size_t at = (size_t)((head->b * w->heads + head->h) * w->queries + i);
  if (test_head_visible(head, way, i, r->seen) == 0) {
    result->output[lse][at] = -(double)INFINITY;
    return;
  }
  softmax(w, head, i, r);
  values(w, head, r);
  result->output[lse][at] = r->lse;
  double *out = result->output[TEST_OUT] + ((head->b * w->queries + i) * w->heads + head->h) * w->d;
  for (int64_t c = 0; c < w->d; ++c) {
    if (way != TEST_WAY_ALL) r->y[c] = keep(w, r->y[c]);
    double g = gate_of(w, way, head->b, i, head->h, c);
    /* A closed gate lets nothing through, infinities included: 0 * inf is not meant. */
    out[c] += g == 0 ? 0 : g * r->y[c];
  }
  if (w->call->backward) backward(w, way, head, i, r);
}

static void open(const test_call *call, test_rounding rounding, test_oracle_result *result, work *w) {
  const sattn_attention *a = &call->attention;
  memset(result, 0, sizeof *result);
  memset(w, 0, sizeof *w);
  w->call = call;
  w->result = result;
  w->rounding = rounding;
  w->d = a->head_dim;
  w->heads = a->heads;
  w->keys = call->sizes.keys;
  w->queries = call->sizes.queries;
  w->scale = a->scale != 0 ? a->scale : 1 / sqrt((double)a->head_dim);
  w->softcap = a->softcap;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (!test_call_has_output(call, (test_output)o)) continue;
    size_t bytes = test_shape_count(test_output_shape(call, (test_output)o)) * sizeof(double);
    result->output[o] = test_memory(bytes);
    if (o >= TEST_GRAD_QUERY) w->size[o] = test_memory(bytes);
  }
}

/* Outputs are stored in the dtype once, at the end. */
static void close_result(work *w) {
  test_oracle_result *result = w->result;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (!result->output[o]) continue;
    size_t count = test_shape_count(test_output_shape(w->call, (test_output)o));
    for (size_t i = 0; i < count; ++i) {
      if (w->rounding != TEST_EXACT) result->output[o][i] = test_round(test_output_dtype(w->call, (test_output)o), result->output[o][i]);
      if (w->size[o] && w->size[o][i] > result->size[o]) result->size[o] = w->size[o][i];
    }
  }
}

void test_oracle(const test_call *call, test_rounding rounding, test_oracle_result *result) {
  work w;
  open(call, rounding, result, &w);
  size_t keys = (size_t)w.keys;
  row r = {test_memory(keys),
           test_memory(keys * sizeof(double)),
           test_memory(keys * sizeof(double)),
           test_memory((size_t)w.d * sizeof(double)),
           test_memory((size_t)w.d * sizeof(double)),
           0};
  int gated = call->attention.mode == SATTN_GATED;
  for (int64_t b = 0; b < call->sizes.batch; ++b) {
    for (int64_t h = 0; h < w.heads; ++h) {
      test_head head;
      test_head_open(call, b, h, &head);
      for (int64_t i = 0; i < w.queries; ++i) {
        attend_row(&w, gated ? TEST_WAY_SA : TEST_WAY_ALL, &head, i, &r);
        if (gated) attend_row(&w, TEST_WAY_SWA, &head, i, &r);
      }
    }
  }
  close_result(&w);
}

/* ---- tolerances, contract section 8 ---- */

static double largest(const double *values, size_t count) {
  double top = 0;
  for (size_t i = 0; i < count; ++i) {
    if (isfinite(values[i]) && fabs(values[i]) > top) top = fabs(values[i]);
  }
  return top;
}

static double largest_input(const test_call *call, test_input input) {
  double top = 0;
  size_t count = test_shape_count(test_input_shape(call, input));
  for (size_t i = 0; i < count; ++i) top = fmax(top, finite_size((double)call->input[input][i]));
  return top;
}

static double rounding_error(const double *exact, const double *rounded, size_t count) {
  double top = 0;
  for (size_t i = 0; i < count; ++i) top = fmax(top, finite_size(rounded[i] - exact[i]));
  return top;
}

void test_oracle_tolerances(const test_call *call, const test_oracle_result *exact, double tolerance[TEST_OUTPUTS]) {
  double r = 8 * test_epsilon(SATTN_FP32) * exact->score;
  sattn_dtype dtype = call->attention.dtype;
  int half = dtype != SATTN_FP32 || (call->attention.mode == SATTN_GATED && call->attention.gate_dtype != SATTN_FP32);
  /* Both runs are single samples of an error, and a gradient of few rows may have next to none in one of them by chance: the rounding of P
   * in O and that of O itself meet in delta with either sign. Kernels that keep P in fp32 have the second one. */
  test_oracle_result rounded, stored;
  if (half) test_oracle(call, TEST_ROUND_ALL, &rounded);
  if (half && call->backward) test_oracle(call, TEST_ROUND_STORED, &stored);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    tolerance[o] = 0;
    if (!exact->output[o]) continue;
    size_t count = test_shape_count(test_output_shape(call, (test_output)o));
    double big = largest(exact->output[o], count);
    if (o == TEST_LSE || o == TEST_LSE_SA || o == TEST_LSE_SWA) {
      tolerance[o] = 2e-6 * fmax(1, big) + r;
      continue;
    }
    tolerance[o] = o == TEST_OUT ? (2e-6 + 2 * r) * largest_input(call, TEST_VALUE) : (1e-5 + 2 * r) * exact->size[o];
    if (half) {
      double epsilon = fmax(test_epsilon(dtype), test_epsilon(test_output_dtype(call, (test_output)o)));
      double error = rounding_error(exact->output[o], rounded.output[o], count);
      if (o >= TEST_GRAD_QUERY) error = fmax(error, rounding_error(exact->output[o], stored.output[o], count));
      tolerance[o] += 2 * error + epsilon * big;
    }
  }
}
