#include "pairs.h"

#include <math.h>
#include <stdlib.h>

#include "bounds.h"
#include "orders.h"
#include "progress.h"
#include "refuse.h"

enum { ORDERS_COUNTED = 8 };

uint64_t sattn_field_count_visible(const sattn_field_pattern *pattern, const uint32_t *order) {
  uint64_t total = 0;
  for (uint32_t at = 0; at < pattern->n; at++) {
    sattn_field_range ranges[2];
    const int parts = sattn_field_band_ranges(pattern->n, pattern->wrap, at, pattern->sa.left, pattern->sa.right, ranges);
    for (int part = 0; part < parts; part++) {
      for (uint32_t index = ranges[part].first; index <= ranges[part].last; index++) {
        total += !pattern->causal || order[index] <= order[at];
      }
    }
  }
  return total;
}

static void count_order(sattn_field_pair_account *account, const uint32_t *order) {
  const uint64_t total = sattn_field_count_visible(&account->pattern, order);
  account->total_min = account->orders_counted == 0 || total < account->total_min ? total : account->total_min;
  account->total_max = total > account->total_max ? total : account->total_max;
  account->orders_counted++;
}

/* Turns counts (kept in z so far) into z-scores and sums. */
static void conclude(sattn_field_pair_account *account, uint32_t pairs, uint32_t seeds) {
  const double p = account->probability;
  const double error = sqrt(p * (1 - p) / seeds);
  double sum = 0.0;
  for (uint32_t k = 0; k < pairs; k++) {
    const double frequency = account->z[k] / seeds;
    sum += frequency;
    /* a window over everything leaves nothing to chance: any difference at all would then be infinitely unlikely */
    account->z[k] = frequency == p ? 0.0 : (frequency - p) / error;
    account->chi_square += account->z[k] * account->z[k];
    account->largest_z = fmax(account->largest_z, fabs(account->z[k]));
  }
  account->frequency = sum / pairs;
  account->sampling_error = error / sqrt(pairs);
}

static sattn_status watch(const sattn_field_settings *settings, const uint32_t *token, sattn_field_pairs_result *result,
                          sattn_error *out_error) {
  sattn_field_orders orders = {0};
  sattn_status status = sattn_field_orders_make(settings->n, 1, settings->seed, &orders, out_error);
  sattn_field_progress progress = sattn_field_progress_begin("pairs", settings->seeds);
  for (uint32_t s = 0; s < settings->seeds && status == SATTN_OK; s++) {
    if (s > 0) status = sattn_field_orders_draw(&orders, settings->seed + s, out_error);
    if (status != SATTN_OK) break;
    for (uint32_t k = 0; k < result->pairs; k++) {
      const uint32_t a = token[2 * k];
      const uint32_t b = token[2 * k + 1];
      result->two_way.z[k] += sattn_field_sees_sa(&result->two_way.pattern, orders.slot, a, b);
      result->causal.z[k] += sattn_field_sees_sa(&result->causal.pattern, orders.slot, a > b ? a : b, a > b ? b : a);
    }
    if (s < ORDERS_COUNTED) {
      count_order(&result->two_way, orders.order);
      count_order(&result->causal, orders.order);
    }
    sattn_field_progress_step(&progress, 1);
  }
  sattn_field_progress_end(&progress);
  sattn_field_orders_free(&orders);
  return status;
}

static sattn_status open_account(const sattn_field_settings *settings, bool causal, uint32_t pairs, sattn_field_pair_account *account,
                                 sattn_error *out_error) {
  const sattn_status status =
      sattn_field_pattern_make(SATTN_STOCHASTIC, settings->n, 1, settings->window_sa, causal, settings->wrap, &account->pattern, out_error);
  if (status != SATTN_OK) return status;
  account->probability = sattn_field_pair_probability(settings->n, account->pattern.sa.left, account->pattern.sa.right, settings->wrap);
  account->z = calloc(pairs, sizeof *account->z);
  return account->z != NULL ? SATTN_OK : sattn_field_no_memory(out_error);
}

sattn_status sattn_field_pairs_compute(const sattn_field_settings *settings, sattn_field_pairs_result *out_result, sattn_error *out_error) {
  const uint32_t n = settings->n;
  sattn_field_pairs_result result = {.pairs = settings->pairs < n / 2 ? settings->pairs : n / 2};
  sattn_status status = open_account(settings, false, result.pairs, &result.two_way, out_error);
  if (status == SATTN_OK) status = open_account(settings, true, result.pairs, &result.causal, out_error);
  uint32_t *const token = malloc(n * sizeof *token);
  if (status == SATTN_OK && token == NULL) status = sattn_field_no_memory(out_error);
  if (status == SATTN_OK) {
    /* neighbours of one random order of their own: pairs without a common token, at all distances */
    const sattn_permutation_key key = {.seed = settings->seed, .substream = SATTN_FIELD_STREAM_TOKENS};
    status = sattn_permutation_draw(n, &key, token, NULL, out_error);
  }
  if (status == SATTN_OK) status = watch(settings, token, &result, out_error);
  free(token);
  if (status != SATTN_OK) {
    sattn_field_pairs_free(&result);
    return status;
  }
  conclude(&result.two_way, result.pairs, settings->seeds);
  conclude(&result.causal, result.pairs, settings->seeds);
  result.causal_swa_total = sattn_field_causal_total(n, (uint32_t)(settings->window_sa < n ? settings->window_sa : n));
  *out_result = result;
  return SATTN_OK;
}

void sattn_field_pairs_free(sattn_field_pairs_result *result) {
  free(result->two_way.z);
  free(result->causal.z);
  *result = (sattn_field_pairs_result){0};
}
