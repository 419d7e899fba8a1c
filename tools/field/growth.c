#include "growth.h"

#include <math.h>
#include <stdlib.h>

#include "bounds.h"
#include "reach.h"
#include "refuse.h"

enum { DEFAULT_SAMPLE = 64 };

/* One token per stratum: even coverage of positions (causal fields depend on them), and still random. */
static void sample_tokens(uint32_t n, uint32_t count, uint64_t seed, uint32_t *tokens) {
  for (uint32_t t = 0; t < count; t++) {
    const uint64_t first = (uint64_t)t * n / count;
    const uint64_t end = (uint64_t)(t + 1) * n / count;
    tokens[t] = (uint32_t)(first + sattn_field_random(seed, SATTN_FIELD_STREAM_TOKENS, t) % (end - first));
  }
}

/* Takes the fields of one seed, [layers][tokens], into the result. */
static void add_seed(sattn_field_growth_result *result, const uint32_t *tokens, const uint32_t *field) {
  const uint32_t count = result->tokens;
  uint32_t depth = 0;
  uint32_t depth_99 = 0;
  for (uint32_t l = 0; l < result->layers; l++) {
    sattn_field_growth_layer *const layer = &result->layer[l];
    const bool first = layer->mean.count == 0;
    double seen = 0.0;
    double allowed = 0.0;
    uint32_t complete = 0;
    for (uint32_t t = 0; t < count; t++) {
      const uint32_t value = field[(size_t)l * count + t];
      const uint32_t limit = sattn_field_allowed(&result->pattern, tokens[t]);
      const double share = (double)value / limit;
      seen += value;
      allowed += limit;
      complete += value == limit;
      layer->min = (first && t == 0) || value < layer->min ? value : layer->min;
      layer->max = (first && t == 0) || value > layer->max ? value : layer->max;
      layer->worst = (first && t == 0) || share < layer->worst ? share : layer->worst;
    }
    sattn_field_moments_add(&layer->mean, seen / count);
    sattn_field_moments_add(&layer->coverage, seen / allowed);
    sattn_field_moments_add(&layer->complete, (double)complete / count);
    if (depth == 0 && complete == count) depth = l + 1;
    if (depth_99 == 0 && seen >= 0.99 * allowed) depth_99 = l + 1;
  }
  if (depth > 0) sattn_field_moments_add(&result->depth, depth);
  if (depth_99 > 0) sattn_field_moments_add(&result->depth_99, depth_99);
}

static void by_formula(const sattn_field_growth_result *result, const uint32_t *tokens, uint32_t *field) {
  for (uint32_t l = 0; l < result->layers; l++) {
    for (uint32_t t = 0; t < result->tokens; t++) {
      field[(size_t)l * result->tokens + t] = sattn_field_reach_window(&result->pattern, l + 1, tokens[t]);
    }
  }
}

static sattn_status all_seeds(const sattn_field_settings *settings, sattn_field_growth_result *result, const uint32_t *tokens,
                              uint32_t *field, sattn_error *out_error) {
  const uint32_t n = result->pattern.n;
  if (result->method == SATTN_FIELD_BY_FORMULA) {
    by_formula(result, tokens, field);
    add_seed(result, tokens, field);
    return SATTN_OK;
  }
  const uint64_t steps = result->method == SATTN_FIELD_BY_BITSETS ? sattn_field_reach_bitsets_steps(n, result->layers)
                                                                  : (uint64_t)result->layers * result->tokens;
  sattn_field_progress progress = sattn_field_progress_begin("receptive fields", steps * result->seeds);
  sattn_field_orders orders = {0};
  sattn_status status = sattn_field_orders_make(n, result->layers, settings->seed, &orders, out_error);
  for (uint32_t s = 0; s < result->seeds && status == SATTN_OK; s++) {
    if (s > 0) {
      status = sattn_field_orders_draw(&orders, settings->seed + s, out_error);
      if (status != SATTN_OK) break;
    }
    status = result->method == SATTN_FIELD_BY_BITSETS
                 ? sattn_field_reach_bitsets(&result->pattern, &orders, result->layers, field, &progress, out_error)
                 : sattn_field_reach_search(&result->pattern, &orders, result->layers, tokens, result->tokens, field, &progress, out_error);
    if (status == SATTN_OK) add_seed(result, tokens, field);
  }
  sattn_field_progress_end(&progress);
  sattn_field_orders_free(&orders);
  return status;
}

static sattn_status expect(sattn_field_growth_result *result, sattn_error *out_error) {
  const bool window = result->method == SATTN_FIELD_BY_FORMULA;
  double *const expected = malloc(result->layers * sizeof *expected);
  if (expected == NULL) return sattn_field_no_memory(out_error);
  sattn_status status = SATTN_OK;
  const bool known = result->pattern.sa.used && !result->pattern.swa.used;
  if (known) status = sattn_field_expected_growth(&result->pattern, result->layers, expected, out_error);
  for (uint32_t l = 0; l < result->layers; l++) {
    result->layer[l].expected = known ? expected[l] : NAN;
    /* positions do not mix: a window's field grows by addition, an order's by multiplication */
    result->layer[l].bound = window ? fmin(result->pattern.n, 1.0 + (l + 1.0) * (result->degree - 1.0))
                                    : sattn_field_tree_bound(result->degree, l + 1, result->pattern.n);
  }
  free(expected);
  return status;
}

static sattn_status describe(const sattn_field_settings *settings, sattn_field_growth_result *result, sattn_error *out_error) {
  const uint32_t n = settings->n;
  sattn_status status = sattn_field_pattern_make(settings->mode, n, settings->window_swa, settings->window_sa, settings->causal,
                                                 settings->wrap, &result->pattern, out_error);
  if (status != SATTN_OK) return status;
  sattn_field_pattern window;
  status =
      sattn_field_pattern_make(SATTN_SLIDING_WINDOW, n, settings->mode == SATTN_STOCHASTIC ? settings->window_sa : settings->window_swa, 1,
                               settings->causal, false, &window, out_error);
  if (status != SATTN_OK) return status;
  result->layers = settings->layers;
  result->method = !result->pattern.sa.used                              ? SATTN_FIELD_BY_FORMULA
                   : settings->tokens == 0 && n <= SATTN_FIELD_EXACT_MAX ? SATTN_FIELD_BY_BITSETS
                                                                         : SATTN_FIELD_BY_SEARCH;
  result->seeds = result->method == SATTN_FIELD_BY_FORMULA ? 1 : settings->seeds;
  result->tokens = n;
  if (result->method == SATTN_FIELD_BY_SEARCH) {
    const uint32_t wanted = settings->tokens != 0 ? settings->tokens : DEFAULT_SAMPLE;
    result->tokens = wanted < n ? wanted : n;
  }
  result->degree = sattn_field_max_degree(&result->pattern);
  result->least_depth = sattn_field_tree_depth(result->degree, n);
  result->window_depth = sattn_field_window_depth(settings->mode == SATTN_FULL ? &result->pattern : &window);
  return SATTN_OK;
}

sattn_status sattn_field_growth_compute(const sattn_field_settings *settings, sattn_field_growth_result *out_result,
                                        sattn_error *out_error) {
  sattn_field_growth_result result = {0};
  sattn_status status = describe(settings, &result, out_error);
  if (status != SATTN_OK) return status;
  result.layer = calloc(result.layers, sizeof *result.layer);
  uint32_t *const tokens = malloc(result.tokens * sizeof *tokens);
  uint32_t *const field = malloc((size_t)result.layers * result.tokens * sizeof *field);
  if (result.layer == NULL || tokens == NULL || field == NULL) {
    status = sattn_field_no_memory(out_error);
  } else {
    sample_tokens(settings->n, result.tokens, settings->seed, tokens);
    status = all_seeds(settings, &result, tokens, field, out_error);
    if (status == SATTN_OK) status = expect(&result, out_error);
  }
  free(tokens);
  free(field);
  if (status != SATTN_OK) {
    sattn_field_growth_free(&result);
    return status;
  }
  *out_result = result;
  return SATTN_OK;
}

void sattn_field_growth_free(sattn_field_growth_result *result) {
  free(result->layer);
  *result = (sattn_field_growth_result){0};
}
