/* What the growth measure prints and draws. */
#include <math.h>
#include <stdio.h>

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

static void print_depth_json(const char *name, const sattn_field_moments *depth) {
  const bool any = depth->count > 0;
  printf("\"%s\": {\"seeds_reached\": %u, \"mean\": %s, \"min\": %s, \"max\": %s}", name, (unsigned)depth->count,
         sattn_field_json(any ? depth->mean : NAN).text, sattn_field_json(any ? depth->min : NAN).text,
         sattn_field_json(any ? depth->max : NAN).text);
}

static void print_json(const sattn_field_settings *settings, const sattn_field_growth_result *result) {
  const sattn_field_pattern *const pattern = &result->pattern;
  printf("{\"measure\": \"growth\", \"mode\": \"%s\", \"n\": %u, \"causal\": %s, \"wrap\": %s, ", sattn_mode_name(settings->mode),
         pattern->n, pattern->causal ? "true" : "false", pattern->wrap ? "true" : "false");
  printf("\"window_swa\": %s, ",
         sattn_field_json(pattern->swa.used && settings->mode != SATTN_FULL ? (double)settings->window_swa : NAN).text);
  printf("\"window_sa\": %s, ", sattn_field_json(pattern->sa.used ? (double)settings->window_sa : NAN).text);
  printf("\"layers\": %u, \"first_seed\": %llu, \"seeds\": %u, \"method\": \"%s\", \"tokens\": %u, ", result->layers,
         (unsigned long long)settings->seed, result->seeds, methods[result->method], result->tokens);
  printf("\"max_keys\": %u, \"least_depth\": %u, \"window_depth\": %llu, ", result->degree, result->least_depth,
         (unsigned long long)result->window_depth);
  print_depth_json("depth", &result->depth);
  printf(", ");
  print_depth_json("depth_99", &result->depth_99);
  printf(", \"rows\": [");
  for (uint32_t l = 0; l < result->layers; l++) {
    const sattn_field_growth_layer *const layer = &result->layer[l];
    printf("%s\n  {\"layer\": %u, \"min\": %u, \"mean\": %s, ", l > 0 ? "," : "", l + 1, layer->min,
           sattn_field_json(layer->mean.mean).text);
    printf("\"mean_deviation\": %s, \"max\": %u, ", sattn_field_json(sattn_field_deviation(&layer->mean)).text, layer->max);
    printf("\"expected\": %s, \"bound\": %s, ", sattn_field_json(layer->expected).text, sattn_field_json(layer->bound).text);
    printf("\"seen\": %s, \"worst_seen\": %s, ", sattn_field_json(layer->coverage.mean).text, sattn_field_json(layer->worst).text);
    printf("\"complete\": %s}", sattn_field_json(layer->complete.mean).text);
  }
  printf("]}\n");
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
