#include "approximation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "progress.h"
#include "refuse.h"
#include "visible.h"

#include <sattn/host.h>

enum { SMALLEST_WINDOW = 8 };

typedef struct {
  const sattn_field_settings *settings;
  const sattn_field_sample *sample;
  sattn_context *context;
  size_t count; /* of an output array */
  float *full, *out;
  double *sum, *squares; /* over seeds, of out - full: differences keep digits that the outputs themselves would lose */
  double full_square;    /* sum over the output */
} estimate;

static sattn_status attend(const estimate *e, sattn_mode mode, int64_t window, uint64_t seed, float *out, sattn_error *out_error) {
  sattn_host_call call;
  sattn_host_call_init(&call);
  call.context = e->context;
  call.attention.mode = mode;
  call.attention.heads = e->sample->heads;
  call.attention.kv_heads = e->sample->kv_heads;
  call.attention.head_dim = e->sample->d;
  call.attention.causal = e->settings->causal;
  if (mode == SATTN_SLIDING_WINDOW) call.attention.window_swa = sattn_window_width(window);
  if (mode != SATTN_FULL) call.attention.sink_tokens = e->settings->sink_tokens;
  if (mode == SATTN_STOCHASTIC) {
    call.attention.window_sa = sattn_window_width(window);
    call.attention.wrap = e->settings->wrap;
  }
  call.batch = 1;
  call.queries = call.keys = e->sample->n;
  call.query.data = e->sample->query;
  call.key.data = e->sample->key;
  call.value.data = e->sample->value;
  call.permutation_key.seed = seed;
  call.out.data = out;
  return sattn_attention_host(&call, out_error);
}

/* Full attention's weights of one query into p, over keys 0..last. */
static void weights_of(const sattn_field_sample *sample, int64_t i, int64_t h, int64_t last, double *p) {
  const int64_t g = h / (sample->heads / sample->kv_heads);
  const float *const query = sample->query + (i * sample->heads + h) * sample->d;
  double largest = -INFINITY;
  for (int64_t j = 0; j <= last; j++) {
    const float *const key = sample->key + (j * sample->kv_heads + g) * sample->d;
    double score = 0.0;
    for (int64_t c = 0; c < sample->d; c++) {
      score += (double)query[c] * key[c];
    }
    p[j] = score / sqrt((double)sample->d);
    largest = fmax(largest, p[j]);
  }
  double total = 0.0;
  for (int64_t j = 0; j <= last; j++) {
    p[j] = exp(p[j] - largest);
    total += p[j];
  }
  for (int64_t j = 0; j <= last; j++) {
    p[j] /= total;
  }
}

/* The sums of the theory without the factor (1 - q)/q, over all rows: sum over chance of p_j^2 |v_j - o|^2, and |sum over certain of
 * p_j (v_j - o) - sum over chance of p_j^2 (v_j - o)|^2. Certain are the token itself and the sink tokens, chance is the rest. */
static sattn_status theory_sums(const estimate *e, double *out_variance, double *out_bias_square, sattn_error *out_error) {
  const sattn_field_sample *const sample = e->sample;
  const int64_t group = sample->heads / sample->kv_heads;
  double *const p = malloc((size_t)(sample->n + sample->d) * sizeof *p);
  if (p == NULL) return sattn_field_no_memory(out_error);
  double *const bias = p + sample->n;
  double variance = 0.0;
  double bias_square = 0.0;
  for (int64_t i = 0; i < sample->n; i++) {
    const int64_t last = e->settings->causal ? i : sample->n - 1;
    for (int64_t h = 0; h < sample->heads; h++) {
      const float *const o = e->full + (i * sample->heads + h) * sample->d;
      weights_of(sample, i, h, last, p);
      memset(bias, 0, (size_t)sample->d * sizeof *bias);
      for (int64_t j = 0; j <= last; j++) {
        const float *const v = sample->value + (j * sample->kv_heads + h / group) * sample->d;
        const bool certain = j == i || j < e->settings->sink_tokens;
        const double weight = certain ? p[j] : -p[j] * p[j];
        double square = 0.0;
        for (int64_t c = 0; c < sample->d; c++) {
          const double difference = (double)v[c] - o[c];
          square += difference * difference;
          bias[c] += weight * difference;
        }
        if (!certain) variance += p[j] * p[j] * square;
      }
      for (int64_t c = 0; c < sample->d; c++) {
        bias_square += bias[c] * bias[c];
      }
    }
  }
  free(p);
  *out_variance = variance;
  *out_bias_square = bias_square;
  return SATTN_OK;
}

static double square_distance(const float *a, const float *b, size_t count) {
  double sum = 0.0;
  for (size_t e = 0; e < count; e++) {
    const double difference = (double)a[e] - b[e];
    sum += difference * difference;
  }
  return sum;
}

static sattn_status measure_window(estimate *e, sattn_field_approximation_row *row, sattn_field_progress *progress,
                                   sattn_error *out_error) {
  const uint32_t seeds = e->settings->seeds;
  memset(e->sum, 0, e->count * sizeof *e->sum);
  memset(e->squares, 0, e->count * sizeof *e->squares);
  for (uint32_t s = 0; s < seeds; s++) {
    const sattn_status status = attend(e, SATTN_STOCHASTIC, row->window, e->settings->seed + s, e->out, out_error);
    if (status != SATTN_OK) return status;
    for (size_t k = 0; k < e->count; k++) {
      const double difference = (double)e->out[k] - e->full[k];
      e->sum[k] += difference;
      e->squares[k] += difference * difference;
    }
    sattn_field_progress_step(progress, 1);
  }
  double variance = 0.0;
  double mean_square = 0.0;
  for (size_t k = 0; k < e->count; k++) {
    const double mean = e->sum[k] / seeds;
    mean_square += mean * mean;
    variance += (e->squares[k] - seeds * mean * mean) / (seeds > 1 ? seeds - 1.0 : 1.0);
  }
  row->variance = variance / e->full_square;
  row->bias_square = (mean_square - variance / seeds) / e->full_square;
  const sattn_status status = attend(e, SATTN_SLIDING_WINDOW, row->window, 0, e->out, out_error);
  row->window_square = square_distance(e->out, e->full, e->count) / e->full_square;
  return status;
}

static sattn_status measure(estimate *e, sattn_field_approximation_result *result, sattn_error *out_error) {
  const sattn_field_settings *const settings = e->settings;
  const uint32_t n = (uint32_t)e->sample->n;
  sattn_status status = attend(e, SATTN_FULL, 0, 0, e->full, out_error);
  if (status != SATTN_OK) return status;
  for (size_t k = 0; k < e->count; k++) {
    e->full_square += (double)e->full[k] * e->full[k];
  }
  double variance = 0.0;
  double bias_square = 0.0;
  status = theory_sums(e, &variance, &bias_square, out_error);
  sattn_field_progress progress = sattn_field_progress_begin("approximation", (uint64_t)result->rows * settings->seeds);
  for (int r = 0; r < result->rows && status == SATTN_OK; r++) {
    sattn_field_approximation_row *const row = &result->row[r];
    sattn_field_pattern pattern;
    status = sattn_field_pattern_make(SATTN_STOCHASTIC, n, 1, row->window, settings->causal, settings->wrap, &pattern, out_error);
    if (status != SATTN_OK) break;
    row->pair_probability = sattn_field_pair_probability(n, pattern.sa.left, pattern.sa.right, settings->wrap);
    const double factor = (1 - row->pair_probability) / row->pair_probability;
    row->variance_theory = factor * variance / e->full_square;
    row->bias_square_theory = factor * factor * bias_square / e->full_square;
    status = measure_window(e, row, &progress, out_error);
  }
  sattn_field_progress_end(&progress);
  return status;
}

sattn_status sattn_field_approximation_compute(const sattn_field_settings *settings, sattn_field_approximation_result *out_result,
                                               sattn_error *out_error) {
  sattn_field_approximation_result result = {0};
  sattn_status status = sattn_field_sample_make(settings, &result.sample, out_error);
  if (status != SATTN_OK) return status;
  for (int64_t w = SMALLEST_WINDOW; w <= settings->window_sa && w < result.sample.n && result.rows < SATTN_FIELD_APPROXIMATION_ROWS;
       w *= 2) {
    result.row[result.rows++].window = w;
  }
  estimate e = {.settings = settings, .sample = &result.sample};
  e.count = (size_t)(result.sample.n * result.sample.heads * result.sample.d);
  e.full = malloc(e.count * sizeof *e.full);
  e.out = malloc(e.count * sizeof *e.out);
  e.sum = malloc(e.count * sizeof *e.sum);
  e.squares = malloc(e.count * sizeof *e.squares);
  if (e.full == NULL || e.out == NULL || e.sum == NULL || e.squares == NULL) {
    status = sattn_field_no_memory(out_error);
  } else {
    /* the yardstick of the library: the same numbers on every machine */
    status = sattn_context_create("reference", NULL, &e.context, out_error);
  }
  if (status == SATTN_OK) status = measure(&e, &result, out_error);
  sattn_context_destroy(&e.context);
  free(e.full);
  free(e.out);
  free(e.sum);
  free(e.squares);
  if (status != SATTN_OK) {
    sattn_field_sample_free(&result.sample);
    return status;
  }
  *out_result = result;
  return SATTN_OK;
}
