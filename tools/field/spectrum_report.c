/* What the spectrum measure prints and draws. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../sattn/json.h"
#include "bounds.h"
#include "measures.h"
#include "moments.h"
#include "plot.h"
#include "refuse.h"
#include "spectrum.h"

typedef struct {
  sattn_field_moments sigma, typical; /* over seeds */
} stack_account;

typedef struct {
  uint32_t n, width, layers, seeds;
  double eigenvalue;     /* of one layer, by formula */
  double typical_square; /* E |P x|^2 / |x|^2 of a random order, by formula */
  stack_account *row;    /* [layers][SATTN_FIELD_STACKS] */
} spectrum_result;

static const char *const names[SATTN_FIELD_STACKS] = {"swa", "sa", "gated"};
static const char *const colours[SATTN_FIELD_STACKS] = {SATTN_FIELD_COLOUR_SWA, SATTN_FIELD_COLOUR_SA, SATTN_FIELD_COLOUR_BOTH};

static sattn_status measure(const sattn_field_settings *settings, spectrum_result *result, sattn_error *out_error) {
  sattn_field_orders orders = {0};
  sattn_status status = sattn_field_orders_make(result->n, result->layers, settings->seed, &orders, out_error);
  sattn_field_progress progress = sattn_field_progress_begin("spectrum", (uint64_t)result->seeds * result->layers * SATTN_FIELD_STACKS);
  for (uint32_t s = 0; s < result->seeds && status == SATTN_OK; s++) {
    if (s > 0) status = sattn_field_orders_draw(&orders, settings->seed + s, out_error);
    for (uint32_t l = 0; l < result->layers && status == SATTN_OK; l++) {
      for (int kind = 0; kind < SATTN_FIELD_STACKS && status == SATTN_OK; kind++) {
        const sattn_field_stack stack = {(sattn_field_stack_kind)kind, result->n, result->width, l + 1, &orders};
        double sigma = 0.0;
        double typical = 0.0;
        status = sattn_field_stack_sigma(&stack, settings->seed + s, &sigma, &typical, out_error);
        stack_account *const account = &result->row[l * SATTN_FIELD_STACKS + kind];
        sattn_field_moments_add(&account->sigma, sigma);
        sattn_field_moments_add(&account->typical, typical);
        sattn_field_progress_step(&progress, 1);
      }
    }
  }
  sattn_field_progress_end(&progress);
  sattn_field_orders_free(&orders);
  return status;
}

static void print_table(const sattn_field_settings *settings, const spectrum_result *result) {
  printf("n %u, window %u, circular, two-way, equal weights; seeds %llu to %llu\n\n", result->n, result->width,
         (unsigned long long)settings->seed, (unsigned long long)(settings->seed + result->seeds - 1));
  printf("                 swa                                    sa                                    gated\n");
  printf("layers   sigma       gap        typical      sigma       gap        typical      sigma       gap        typical\n");
  for (uint32_t l = 0; l < result->layers; l++) {
    printf("%6u", l + 1);
    for (int kind = 0; kind < SATTN_FIELD_STACKS; kind++) {
      const stack_account *const account = &result->row[l * SATTN_FIELD_STACKS + kind];
      printf("   %.7f %.4e %.3e", account->sigma.mean, 1 - account->sigma.mean, account->typical.mean);
    }
    printf("\n");
  }
  printf("\ntheory: one layer, swa and sa alike: sigma %.7f, gap %.4e; L layers of swa: sigma^L\n", result->eigenvalue,
         1 - result->eigenvalue);
  printf("        sa shrinks a typical vector by %.6f a layer (about 1 / sqrt w = %.6f)\n", sqrt(result->typical_square),
         1 / sqrt(result->width));
}

static void print_json(const sattn_field_settings *settings, const spectrum_result *result) {
  sattn_json json;
  sattn_json_begin(&json, stdout);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "measure", "spectrum");
  sattn_json_unsigned(&json, "n", result->n);
  sattn_json_unsigned(&json, "window", result->width);
  sattn_json_unsigned(&json, "first_seed", settings->seed);
  sattn_json_unsigned(&json, "seeds", result->seeds);
  sattn_json_real(&json, "one_layer_sigma", result->eigenvalue);
  sattn_json_real(&json, "typical_per_layer", sqrt(result->typical_square));
  sattn_json_open(&json, "rows", '[');
  for (uint32_t l = 0; l < result->layers; l++) {
    sattn_json_open(&json, NULL, '{');
    sattn_json_unsigned(&json, "layers", l + 1);
    for (int kind = 0; kind < SATTN_FIELD_STACKS; kind++) {
      const stack_account *const account = &result->row[l * SATTN_FIELD_STACKS + kind];
      sattn_json_open(&json, names[kind], '{');
      sattn_json_real(&json, "sigma", account->sigma.mean);
      sattn_json_real(&json, "sigma_deviation", sattn_field_deviation(&account->sigma));
      sattn_json_real(&json, "gap", 1 - account->sigma.mean);
      sattn_json_real(&json, "typical", account->typical.mean);
      sattn_json_close(&json, '}');
    }
    sattn_json_close(&json, '}');
  }
  sattn_json_close(&json, ']');
  sattn_json_close(&json, '}');
}

static sattn_status draw(const sattn_field_settings *settings, const spectrum_result *result, sattn_error *out_error) {
  sattn_field_plot plot;
  const sattn_status status = sattn_field_plot_begin(settings->plot, 720, 460, &plot, out_error);
  if (status != SATTN_OK) return status;
  for (int kind = 0; kind < SATTN_FIELD_STACKS; kind++) {
    fprintf(plot.script, "$k%d << EOD\n0 1\n", kind);
    for (uint32_t l = 0; l < result->layers; l++) {
      fprintf(plot.script, "%u %.10g\n", l + 1, result->row[l * SATTN_FIELD_STACKS + kind].sigma.mean);
    }
    fprintf(plot.script, "EOD\n");
  }
  fprintf(plot.script, "set title 'what a stack of layers keeps, n = %u, w = %u'\n", result->n, result->width);
  fprintf(plot.script,
          "set xlabel 'layers'\nset ylabel 'sigma of the product'\nset logscale y\nset format y '10^{%%L}'\nset xrange [0:%u]\nset key "
          "left bottom\n",
          result->layers);
  fprintf(plot.script, "set samples %u\nset grid ytics linecolor rgb '#dddddd'\nplot ", 20 * result->layers + 1);
  for (int kind = 0; kind < SATTN_FIELD_STACKS; kind++) {
    fprintf(plot.script, "$k%d with linespoints pointtype 7 pointsize 0.6 linewidth 2 linecolor rgb '%s' title '%s', \\\n", kind,
            colours[kind], names[kind]);
  }
  fprintf(plot.script, "  %.10g ** x with lines dashtype 2 linewidth 1.5 linecolor rgb '%s' title 'w^{-L/2}'\n",
          sqrt(result->typical_square), SATTN_FIELD_COLOUR_BOUND);
  return sattn_field_plot_finish(&plot, out_error);
}

sattn_status sattn_field_spectrum(const sattn_field_settings *settings, sattn_error *out_error) {
  spectrum_result result = {.n = settings->n, .layers = settings->layers, .seeds = settings->seeds};
  result.width = settings->window_sa < settings->n ? (uint32_t)settings->window_sa : settings->n;
  result.eigenvalue = sattn_field_circle_eigenvalue(result.n, result.width);
  result.typical_square = ((double)result.n / result.width - 1) / (result.n - 1.0);
  result.row = calloc((size_t)result.layers * SATTN_FIELD_STACKS, sizeof *result.row);
  if (result.row == NULL) return sattn_field_no_memory(out_error);
  sattn_status status = measure(settings, &result, out_error);
  if (status == SATTN_OK) {
    if (settings->json) {
      print_json(settings, &result);
    } else {
      print_table(settings, &result);
    }
    if (settings->plot != NULL) status = draw(settings, &result, out_error);
  }
  free(result.row);
  return status;
}
