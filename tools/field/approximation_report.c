/* What the approximation measure prints and draws. */
#include <math.h>
#include <stdio.h>

#include "../sattn/json.h"
#include "approximation.h"
#include "measures.h"
#include "plot.h"

/* Slope of log(value) over log(window) by least squares, over the rows where the value is positive. */
static double slope(const sattn_field_approximation_result *result, double (*value)(const sattn_field_approximation_row *)) {
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (int r = 0; r < result->rows; r++) {
    const double measured = value(&result->row[r]);
    if (!(measured > 0)) continue;
    const double a = log((double)result->row[r].window);
    const double b = log(measured);
    count++;
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  return count < 2 ? NAN : (count * xy - x * y) / (count * xx - x * x);
}

static double variance_of(const sattn_field_approximation_row *row) {
  return row->variance;
}

static double bias_of(const sattn_field_approximation_row *row) {
  return sqrt(fmax(row->bias_square, 0.0));
}

static void print_table(const sattn_field_settings *settings, const sattn_field_approximation_result *result) {
  const sattn_field_sample *const sample = &result->sample;
  printf("%s, n %lld, sink tokens %lld, heads %lld/%lld, d %lld, %s%s; seeds %llu to %llu\n",
         settings->query != NULL ? settings->query : "random normal data", (long long)sample->n, (long long)settings->sink_tokens,
         (long long)sample->heads, (long long)sample->kv_heads, (long long)sample->d, settings->causal ? "causal" : "two-way",
         settings->wrap ? ", wrap" : "", (unsigned long long)settings->seed, (unsigned long long)(settings->seed + settings->seeds - 1));
  printf("distances to full attention, as shares of the size of its output\n\n");
  printf(" window   pair prob.    variance     (theory)  variance*w        bias     (theory)      bias*w   sa distance  swa distance\n");
  for (int r = 0; r < result->rows; r++) {
    const sattn_field_approximation_row *const row = &result->row[r];
    const double w = (double)row->window;
    printf("%7lld %12.6f %11.6f %12.6f %11.4f %11.6f %12.6f %11.4f %13.6f %13.6f\n", (long long)row->window, row->pair_probability,
           row->variance, row->variance_theory, row->variance * w, bias_of(row), sqrt(row->bias_square_theory), bias_of(row) * w,
           sqrt(row->variance + fmax(row->bias_square, 0.0)), sqrt(row->window_square));
  }
  printf("\nvariance falls as w^%.3f, bias as w^%.3f (theory: both -1 while w is well below n and above the number of keys that matter)\n",
         slope(result, variance_of), slope(result, bias_of));
}

static void print_json(const sattn_field_settings *settings, const sattn_field_approximation_result *result) {
  const sattn_field_sample *const sample = &result->sample;
  sattn_json json;
  sattn_json_begin(&json, stdout);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "measure", "approximation");
  sattn_json_text(&json, "data", settings->query != NULL ? "files" : "random");
  sattn_json_integer(&json, "n", sample->n);
  sattn_json_integer(&json, "heads", sample->heads);
  sattn_json_integer(&json, "kv_heads", sample->kv_heads);
  sattn_json_integer(&json, "head_dim", sample->d);
  sattn_json_integer(&json, "sink_tokens", settings->sink_tokens);
  sattn_json_bool(&json, "causal", settings->causal);
  sattn_json_bool(&json, "wrap", settings->wrap);
  sattn_json_unsigned(&json, "first_seed", settings->seed);
  sattn_json_unsigned(&json, "seeds", settings->seeds);
  sattn_json_real(&json, "variance_slope", slope(result, variance_of));
  sattn_json_real(&json, "bias_slope", slope(result, bias_of));
  sattn_json_open(&json, "rows", '[');
  for (int r = 0; r < result->rows; r++) {
    const sattn_field_approximation_row *const row = &result->row[r];
    sattn_json_open(&json, NULL, '{');
    sattn_json_integer(&json, "window", row->window);
    sattn_json_real(&json, "pair_probability", row->pair_probability);
    sattn_json_real(&json, "variance", row->variance);
    sattn_json_real(&json, "variance_theory", row->variance_theory);
    sattn_json_real(&json, "bias_square", row->bias_square);
    sattn_json_real(&json, "bias_square_theory", row->bias_square_theory);
    sattn_json_real(&json, "swa_distance_square", row->window_square);
    sattn_json_close(&json, '}');
  }
  sattn_json_close(&json, ']');
  sattn_json_close(&json, '}');
}

static sattn_status draw(const sattn_field_settings *settings, const sattn_field_approximation_result *result, sattn_error *out_error) {
  sattn_field_plot plot;
  const sattn_status status = sattn_field_plot_begin(settings->plot, 760, 480, &plot, out_error);
  if (status != SATTN_OK) return status;
  fprintf(plot.script, "$rows << EOD\n");
  for (int r = 0; r < result->rows; r++) {
    const sattn_field_approximation_row *const row = &result->row[r];
    fprintf(plot.script, "%lld %.10g %.10g ", (long long)row->window, row->variance, row->variance_theory);
    if (row->bias_square > 0) {
      fprintf(plot.script, "%.10g ", bias_of(row));
    } else {
      fprintf(plot.script, "NaN ");
    }
    fprintf(plot.script, "%.10g\n", sqrt(row->bias_square_theory));
  }
  fprintf(plot.script, "EOD\n");
  fprintf(plot.script, "set title 'SA against full attention, %s data, n = %lld, %s, %u seeds'\n",
          settings->query != NULL ? "real" : "random", (long long)result->sample.n, settings->causal ? "causal" : "two-way",
          settings->seeds);
  fprintf(plot.script,
          "set xlabel 'window'\nset ylabel 'share of the output'\nset logscale xy 2\nset format y '2^{%%L}'\n"
          "set grid linecolor rgb '#dddddd'\nset key left bottom\n");
  fprintf(plot.script, "plot $rows using 1:2 with linespoints pointtype 7 linewidth 2 linecolor rgb '%s' title 'variance', \\\n",
          SATTN_FIELD_COLOUR_SA);
  fprintf(plot.script, "  $rows using 1:3 with lines dashtype 2 linecolor rgb '%s' title 'variance, theory', \\\n", SATTN_FIELD_COLOUR_SA);
  fprintf(plot.script, "  $rows using 1:4 with linespoints pointtype 7 linewidth 2 linecolor rgb '%s' title 'bias', \\\n",
          SATTN_FIELD_COLOUR_SWA);
  fprintf(plot.script, "  $rows using 1:5 with lines dashtype 2 linecolor rgb '%s' title 'bias, theory'\n", SATTN_FIELD_COLOUR_SWA);
  return sattn_field_plot_finish(&plot, out_error);
}

sattn_status sattn_field_approximation(const sattn_field_settings *settings, sattn_error *out_error) {
  sattn_field_approximation_result result;
  sattn_status status = sattn_field_approximation_compute(settings, &result, out_error);
  if (status != SATTN_OK) return status;
  if (settings->json) {
    print_json(settings, &result);
  } else {
    print_table(settings, &result);
  }
  if (settings->plot != NULL) status = draw(settings, &result, out_error);
  sattn_field_sample_free(&result.sample);
  return status;
}
