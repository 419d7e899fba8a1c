/* What the growth measure prints and draws. */
#include <math.h>
#include <stdio.h>

#include "../sattn/json.h"
#include "growth.h"
#include "measures.h"
#include "plot.h"

static const char *const methods[] = {"formula", "bitsets", "search"};

static double window_of(const sattn_field_settings *settings) {
  return (double)(settings->mode == SATTN_SLIDING_WINDOW ? settings->window_swa : settings->window_sa);
}

static void print_depth(const char *what, const sattn_field_moments *depth, const sattn_field_growth_result *result) {
  printf("%s: ", what);
  if (depth->count == 0) {
    printf("not within %u layers\n", result->layers);
  } else {
    printf("%.4g layers (mean), %.0f to %.0f, in %u of %u seeds\n", depth->mean, depth->min, depth->max, (unsigned)depth->count,
           result->seeds);
  }
}

static void print_table(const sattn_field_settings *settings, const sattn_field_growth_result *result) {
  const sattn_field_pattern *const pattern = &result->pattern;
  printf("mode %s, n %u, %s%s", sattn_mode_name(settings->mode), pattern->n, pattern->causal ? "causal" : "two-way",
         pattern->wrap ? ", wrap" : "");
  if (pattern->swa.used) printf(", swa window (%u, %u)", pattern->swa.left, pattern->causal ? 0 : pattern->swa.right);
  if (pattern->sa.used) printf(", sa window (%u, %u)", pattern->sa.left, pattern->sa.right);
  if (result->method == SATTN_FIELD_BY_FORMULA) {
    printf("; exact, all tokens, by formula\n\n");
  } else {
    printf("; seeds %llu to %llu; %s %u tokens, by %s\n\n", (unsigned long long)settings->seed,
           (unsigned long long)(settings->seed + result->seeds - 1), result->tokens == pattern->n ? "all" : "a sample of", result->tokens,
           methods[result->method]);
  }
  printf("layer        min         mean   (+-seeds)        max    expected       bound    seen %%   worst %%  complete %%\n");
  for (uint32_t l = 0; l < result->layers; l++) {
    const sattn_field_growth_layer *const layer = &result->layer[l];
    printf("%5u %10u %12.2f %11.2f %10u ", l + 1, layer->min, layer->mean.mean, sattn_field_deviation(&layer->mean), layer->max);
    if (isnan(layer->expected)) {
      printf("%11s ", "-");
    } else {
      printf("%11.2f ", layer->expected);
    }
    printf("%11.0f %9.4f %9.4f %11.4f\n", layer->bound, 100 * layer->coverage.mean, 100 * layer->worst, 100 * layer->complete.mean);
  }
  printf("\n");
  print_depth("every token sees all it may", &result->depth, result);
  print_depth("99 % of the allowed pairs seen", &result->depth_99, result);
  const double window = window_of(settings);
  printf("theory: n/w = %.4g, log_w n = %.4g; sliding window of this width %llu layers; at least %u with %u keys a layer\n",
         pattern->n / window, window > 1 ? log(pattern->n) / log(window) : INFINITY, (unsigned long long)result->window_depth,
         result->least_depth, result->degree);
}

static void print_depth_json(sattn_json *json, const char *name, const sattn_field_moments *depth) {
  const bool any = depth->count > 0;
  sattn_json_open(json, name, '{');
  sattn_json_unsigned(json, "seeds_reached", depth->count);
  sattn_json_real(json, "mean", any ? depth->mean : NAN);
  sattn_json_real(json, "min", any ? depth->min : NAN);
  sattn_json_real(json, "max", any ? depth->max : NAN);
  sattn_json_close(json, '}');
}

static void print_row_json(sattn_json *json, uint32_t number, const sattn_field_growth_layer *layer) {
  sattn_json_open(json, NULL, '{');
  sattn_json_unsigned(json, "layer", number);
  sattn_json_unsigned(json, "min", layer->min);
  sattn_json_real(json, "mean", layer->mean.mean);
  sattn_json_real(json, "mean_deviation", sattn_field_deviation(&layer->mean));
  sattn_json_unsigned(json, "max", layer->max);
  sattn_json_real(json, "expected", layer->expected);
  sattn_json_real(json, "bound", layer->bound);
  sattn_json_real(json, "seen", layer->coverage.mean);
  sattn_json_real(json, "worst_seen", layer->worst);
  sattn_json_real(json, "complete", layer->complete.mean);
  sattn_json_close(json, '}');
}

static void print_json(const sattn_field_settings *settings, const sattn_field_growth_result *result) {
  const sattn_field_pattern *const pattern = &result->pattern;
  sattn_json json;
  sattn_json_begin(&json, stdout);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "measure", "growth");
  sattn_json_text(&json, "mode", sattn_mode_name(settings->mode));
  sattn_json_unsigned(&json, "n", pattern->n);
  sattn_json_bool(&json, "causal", pattern->causal);
  sattn_json_bool(&json, "wrap", pattern->wrap);
  sattn_json_real(&json, "window_swa", pattern->swa.used && settings->mode != SATTN_FULL ? (double)settings->window_swa : NAN);
  sattn_json_real(&json, "window_sa", pattern->sa.used ? (double)settings->window_sa : NAN);
  sattn_json_unsigned(&json, "layers", result->layers);
  sattn_json_unsigned(&json, "first_seed", settings->seed);
  sattn_json_unsigned(&json, "seeds", result->seeds);
  sattn_json_text(&json, "method", methods[result->method]);
  sattn_json_unsigned(&json, "tokens", result->tokens);
  sattn_json_unsigned(&json, "max_keys", result->degree);
  sattn_json_unsigned(&json, "least_depth", result->least_depth);
  sattn_json_unsigned(&json, "window_depth", result->window_depth);
  print_depth_json(&json, "depth", &result->depth);
  print_depth_json(&json, "depth_99", &result->depth_99);
  sattn_json_open(&json, "rows", '[');
  for (uint32_t l = 0; l < result->layers; l++) print_row_json(&json, l + 1, &result->layer[l]);
  sattn_json_close(&json, ']');
  sattn_json_close(&json, '}');
}

/* A vertical line where a depth of the theory falls inside the plot. */
static void mark_depth(FILE *script, int tag, double depth, double layers, const char *label, const char *colour) {
  if (!(depth > 0) || depth > layers) return;
  fprintf(script, "set arrow %d from %g, graph 0 to %g, graph 1 nohead dashtype 3 linewidth 1.5 linecolor rgb '%s'\n", tag, depth, depth,
          colour);
  fprintf(script, "set label %d '%s' at %g, graph 0.04 offset 0.5,0 textcolor rgb '%s'\n", tag, label, depth, colour);
}

sattn_status sattn_field_growth_plot(const sattn_field_settings *settings, const sattn_field_growth_result *result,
                                     sattn_error *out_error) {
  sattn_field_plot plot;
  const sattn_status status = sattn_field_plot_begin(settings->plot, 760, 500, &plot, out_error);
  if (status != SATTN_OK) return status;
  FILE *const script = plot.script;
  const double n = result->pattern.n;
  const double window = window_of(settings);
  fprintf(script, "$growth << EOD\n0 1 1 1 1 1 1\n");
  for (uint32_t l = 0; l < result->layers; l++) {
    const sattn_field_growth_layer *const layer = &result->layer[l];
    fprintf(script, "%u %u %.10g %u ", l + 1, layer->min, layer->mean.mean, layer->max);
    if (isnan(layer->expected)) {
      fprintf(script, "NaN ");
    } else {
      fprintf(script, "%.10g ", layer->expected);
    }
    fprintf(script, "%.10g %.10g\n", layer->bound, fmin(n, 1 + (l + 1.0) * (window - 1)));
  }
  fprintf(script, "EOD\n");
  fprintf(script, "set title '%s, n = %.0f, w = %.0f, %s' noenhanced\n", sattn_mode_name(settings->mode), n, window,
          result->pattern.causal ? "causal" : "two-way");
  fprintf(script, "set xlabel 'layers'\nset ylabel 'tokens seen'\nset logscale y\nset yrange [1:%g]\nset xrange [0:%u]\n", 1.6 * n,
          result->layers);
  fprintf(script, "set key right bottom box opaque\nset grid ytics linecolor rgb '#dddddd'\n");
  mark_depth(script, 1, log(n) / log(window), result->layers, "log_w n", SATTN_FIELD_COLOUR_BOTH);
  mark_depth(script, 2, n / window, result->layers, "n/w", SATTN_FIELD_COLOUR_SWA);
  fprintf(
      script,
      "plot $growth using 1:2:4 with filledcurves fillcolor rgb '%s' fillstyle transparent solid 0.18 title 'smallest to largest', \\\n",
      SATTN_FIELD_COLOUR_SA);
  fprintf(script, "  %g with lines linewidth 1 linecolor rgb 'black' title 'n', \\\n", n);
  fprintf(script, "  $growth using 1:6 with lines dashtype 2 linewidth 1.5 linecolor rgb '%s' title 'bound', \\\n",
          SATTN_FIELD_COLOUR_BOUND);
  fprintf(script, "  $growth using 1:7 with lines dashtype 2 linewidth 1.5 linecolor rgb '%s' title 'sliding window, 1 + L(w - 1)', \\\n",
          SATTN_FIELD_COLOUR_SWA);
  if (!isnan(result->layer[0].expected)) {
    fprintf(script, "  $growth using 1:5 with lines dashtype 3 linewidth 2 linecolor rgb '%s' title 'expected', \\\n",
            SATTN_FIELD_COLOUR_BOTH);
  }
  fprintf(script, "  $growth using 1:3 with linespoints pointtype 7 pointsize 0.6 linewidth 2 linecolor rgb '%s' title 'measured mean'\n",
          SATTN_FIELD_COLOUR_SA);
  return sattn_field_plot_finish(&plot, out_error);
}

sattn_status sattn_field_growth(const sattn_field_settings *settings, sattn_error *out_error) {
  sattn_field_growth_result result;
  sattn_status status = sattn_field_growth_compute(settings, &result, out_error);
  if (status != SATTN_OK) return status;
  if (settings->json) {
    print_json(settings, &result);
  } else {
    print_table(settings, &result);
  }
  if (settings->plot != NULL) status = sattn_field_growth_plot(settings, &result, out_error);
  sattn_field_growth_free(&result);
  return status;
}
