/* What the pairs measure prints and draws. */
#include <math.h>
#include <stdio.h>

#include "../sattn/json.h"
#include "measures.h"
#include "pairs.h"
#include "plot.h"

static void print_account(const char *name, const sattn_field_pair_account *account, uint32_t pairs) {
  printf("%-8s %12.8f %12.8f %11.8f %7.2f %12.1f %8.1f %9.2f\n", name, account->probability, account->frequency, account->sampling_error,
         account->sampling_error > 0 ? (account->frequency - account->probability) / account->sampling_error : 0.0, account->chi_square,
         sqrt(2.0 * pairs), account->largest_z);
}

static void print_total(const char *name, const sattn_field_pair_account *account) {
  printf("visible pairs of a layer, %s, counted in %u orders: %llu to %llu (%.6f of n^2)\n", name, account->orders_counted,
         (unsigned long long)account->total_min, (unsigned long long)account->total_max,
         (double)account->total_max / ((double)account->pattern.n * account->pattern.n));
}

static void print_table(const sattn_field_settings *settings, const sattn_field_pairs_result *result) {
  printf("n %u, window %lld%s, %u pairs of tokens, seeds %llu to %llu\n\n", settings->n, (long long)settings->window_sa,
         settings->wrap ? ", wrap" : "", result->pairs, (unsigned long long)settings->seed,
         (unsigned long long)(settings->seed + settings->seeds - 1));
  printf("               law    frequency    +- error       z   chi-square       +-   largest z\n");
  print_account("two-way", &result->two_way, result->pairs);
  print_account("causal", &result->causal, result->pairs);
  printf("\nw/n = %.8f; chi-square should be about %u\n", (double)settings->window_sa / settings->n, result->pairs);
  print_total("two-way", &result->two_way);
  print_total("causal", &result->causal);
  printf("causal sliding window of the same width: %llu\n", (unsigned long long)result->causal_swa_total);
}

static void print_account_json(sattn_json *json, const char *name, const sattn_field_pair_account *account) {
  sattn_json_open(json, name, '{');
  sattn_json_real(json, "probability", account->probability);
  sattn_json_real(json, "frequency", account->frequency);
  sattn_json_real(json, "sampling_error", account->sampling_error);
  sattn_json_real(json, "chi_square", account->chi_square);
  sattn_json_real(json, "largest_z", account->largest_z);
  sattn_json_unsigned(json, "orders_counted", account->orders_counted);
  sattn_json_unsigned(json, "total_min", account->total_min);
  sattn_json_unsigned(json, "total_max", account->total_max);
  sattn_json_close(json, '}');
}

static void print_json(const sattn_field_settings *settings, const sattn_field_pairs_result *result) {
  sattn_json json;
  sattn_json_begin(&json, stdout);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "measure", "pairs");
  sattn_json_unsigned(&json, "n", settings->n);
  sattn_json_integer(&json, "window", settings->window_sa);
  sattn_json_bool(&json, "wrap", settings->wrap);
  sattn_json_unsigned(&json, "pairs", result->pairs);
  sattn_json_unsigned(&json, "first_seed", settings->seed);
  sattn_json_unsigned(&json, "seeds", settings->seeds);
  print_account_json(&json, "two_way", &result->two_way);
  print_account_json(&json, "causal", &result->causal);
  sattn_json_unsigned(&json, "causal_swa_total", result->causal_swa_total);
  sattn_json_close(&json, '}');
}

static sattn_status draw(const sattn_field_settings *settings, const sattn_field_pairs_result *result, sattn_error *out_error) {
  sattn_field_plot plot;
  const sattn_status status = sattn_field_plot_begin(settings->plot, 720, 440, &plot, out_error);
  if (status != SATTN_OK) return status;
  const sattn_field_pair_account *const accounts[2] = {&result->two_way, &result->causal};
  const char *const names[2] = {"two-way", "causal"};
  const char *const colours[2] = {SATTN_FIELD_COLOUR_SA, SATTN_FIELD_COLOUR_SWA};
  for (int a = 0; a < 2; a++) {
    fprintf(plot.script, "$z%d << EOD\n", a);
    for (uint32_t k = 0; k < result->pairs; k++) {
      fprintf(plot.script, "%.6g\n", accounts[a]->z[k]);
    }
    fprintf(plot.script, "EOD\n");
  }
  fprintf(plot.script, "set title 'pair frequency against its law, n = %u, w = %lld, %u seeds'\n", settings->n,
          (long long)settings->window_sa, settings->seeds);
  fprintf(plot.script,
          "set xlabel 'z = (frequency - law) / sampling error'\nset ylabel 'pairs'\nset xrange [-5:5]\nset yrange [0:*]\n"
          "set samples 300\nset style fill transparent solid 0.35 border\nbin = 0.5\nset boxwidth 0.45\n");
  fprintf(plot.script, "plot ");
  for (int a = 0; a < 2; a++) {
    fprintf(plot.script, "$z%d using (bin * (floor($1 / bin) + 0.5)):(1) smooth frequency with boxes linecolor rgb '%s' title '%s', \\\n",
            a, colours[a], names[a]);
  }
  fprintf(plot.script, "  %u * bin * exp(-x * x / 2) / sqrt(2 * pi) with lines linewidth 2 linecolor rgb 'black' title 'standard normal'\n",
          result->pairs);
  return sattn_field_plot_finish(&plot, out_error);
}

sattn_status sattn_field_pairs(const sattn_field_settings *settings, sattn_error *out_error) {
  sattn_field_pairs_result result;
  sattn_status status = sattn_field_pairs_compute(settings, &result, out_error);
  if (status != SATTN_OK) return status;
  if (settings->json) {
    print_json(settings, &result);
  } else {
    print_table(settings, &result);
  }
  if (settings->plot != NULL) status = draw(settings, &result, out_error);
  sattn_field_pairs_free(&result);
  return status;
}
