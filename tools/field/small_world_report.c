/* `sattn field --measure small-world`: the graphs of the modes at one number of connections, beside a random graph and the fruit fly. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../sattn/json.h"
#include "bounds.h"
#include "measures.h"
#include "plot.h"
#include "small_world.h"

/* The connectome of the fruit fly as the paper quotes it. */
static const double fly_path = 4.4;
static const double fly_sigma = 141.0;

enum { GRAPHS = 7, RANDOM = GRAPHS - 1 };

typedef struct {
  const char *name;
  const char *label; /* in the plot; graphs that lie on one another share one */
  uint32_t half_swa; /* neighbours on either side by position */
  uint32_t half_sa;  /* on either side by slot, shared out over sa_layers independent orders */
  uint32_t sa_layers;
  sattn_field_graph_facts facts;
  double sigma;
  double clustering_theory, path_theory; /* NaN where no formula is known */
} graph_row;

static void list_graphs(uint32_t n, uint32_t half, graph_row *row) {
  const uint32_t shared = half / 2;
  row[0] = (graph_row){.name = "swa", .label = "swa; sa, 1 layer", .half_swa = half};
  row[1] = (graph_row){.name = "sa, 1 layer", .label = "", .half_sa = half, .sa_layers = 1};
  row[2] = (graph_row){
      .name = "union, 1 layer", .label = "union, 1 layer; sa, 2 layers", .half_swa = half - shared, .half_sa = shared, .sa_layers = 1};
  row[3] = (graph_row){.name = "sa, 2 layers", .label = "", .half_sa = half, .sa_layers = half < 2 ? half : 2};
  row[4] = (graph_row){.name = "sa, 4 layers", .label = "sa, 4 layers", .half_sa = half, .sa_layers = half < 4 ? half : 4};
  row[5] = (graph_row){.name = "sa, a layer per pair", .label = "", .half_sa = half, .sa_layers = half};
  row[RANDOM] = (graph_row){.name = "random", .label = "random; sa, a layer per pair"};
  for (int g = 0; g < GRAPHS; g++) {
    row[g].clustering_theory = row[g].path_theory = NAN;
  }
  for (int g = 0; g < 2; g++) { /* one order alone is a ring, whatever the order */
    row[g].clustering_theory = sattn_field_ring_clustering(n, half);
    row[g].path_theory = sattn_field_ring_path(n, half);
  }
  row[RANDOM].clustering_theory = 2.0 * half / (n - 1.0);
  row[RANDOM].path_theory = log(n) / log(2.0 * half);
}

static sattn_status measure(const sattn_field_settings *settings, graph_row *row, sattn_error *out_error) {
  const uint32_t half = settings->degree / 2;
  const uint32_t sources = settings->sources < settings->n ? settings->sources : settings->n;
  sattn_field_progress progress = sattn_field_progress_begin("graphs", (uint64_t)GRAPHS * sources);
  sattn_field_orders orders = {0};
  sattn_field_edges edges = {0};
  sattn_status status = sattn_field_orders_make(settings->n, half, settings->seed, &orders, out_error);
  if (status == SATTN_OK) status = sattn_field_edges_make(settings->n, (uint64_t)settings->n * half, &edges, out_error);
  for (int g = 0; g < GRAPHS && status == SATTN_OK; g++) {
    edges.count = 0;
    if (g == RANDOM) sattn_field_edges_fill_random(&edges, settings->seed);
    sattn_field_edges_add_ring(&edges, NULL, row[g].half_swa);
    for (uint32_t layer = 0; layer < row[g].sa_layers; layer++) {
      const uint32_t share = row[g].half_sa / row[g].sa_layers + (layer < row[g].half_sa % row[g].sa_layers);
      sattn_field_edges_add_ring(&edges, sattn_field_order(&orders, layer), share);
    }
    sattn_field_edges_settle(&edges);
    status = sattn_field_graph_measure(&edges, sources, &row[g].facts, &progress, out_error);
  }
  sattn_field_progress_end(&progress);
  sattn_field_edges_free(&edges);
  sattn_field_orders_free(&orders);
  if (status != SATTN_OK) return status;
  for (int g = 0; g < GRAPHS; g++) {
    row[g].sigma = (row[g].facts.clustering / row[RANDOM].facts.clustering) / (row[g].facts.path / row[RANDOM].facts.path);
  }
  return SATTN_OK;
}

static void print_theory(double value, int width, const char *format) {
  if (isnan(value)) {
    printf("%*s", width, "-");
  } else if (format[0] == 'c') {
    printf("%*.6f", width, value);
  } else {
    printf("%*.4f", width, value);
  }
}

static void print_table(const sattn_field_settings *settings, const graph_row *row) {
  printf("n %u, %u connections per node (density %.4f %%), circular, seed %llu, distances from %u nodes\n\n", settings->n, settings->degree,
         100.0 * settings->degree / (settings->n - 1.0), (unsigned long long)settings->seed, settings->sources);
  printf("graph                   degree  clustering    (theory)        path    (theory)  farthest   reached       sigma\n");
  for (int g = 0; g < GRAPHS; g++) {
    printf("%-22s %7.3f %11.6f ", row[g].name, row[g].facts.degree, row[g].facts.clustering);
    print_theory(row[g].clustering_theory, 11, "clustering");
    printf(" %11.4f ", row[g].facts.path);
    print_theory(row[g].path_theory, 11, "path");
    printf(" %9.0f %8.4f %% %10.3f\n", row[g].facts.eccentricity, 100 * row[g].facts.reached, row[g].sigma);
  }
  printf("%-22s %7s %11s %11s %11.1f %11s %9s %10s %10.0f\n", "fruit fly (published)", "", "", "", fly_path, "", "", "", fly_sigma);
  printf("\nsigma = (clustering / random's) / (path / random's)\n");
}

static void print_json(const sattn_field_settings *settings, const graph_row *row) {
  sattn_json json;
  sattn_json_begin(&json, stdout);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "measure", "small-world");
  sattn_json_unsigned(&json, "n", settings->n);
  sattn_json_unsigned(&json, "degree", settings->degree);
  sattn_json_unsigned(&json, "seed", settings->seed);
  sattn_json_unsigned(&json, "sources", settings->sources);
  sattn_json_open(&json, "fruit_fly", '{');
  sattn_json_real(&json, "path", fly_path);
  sattn_json_real(&json, "sigma", fly_sigma);
  sattn_json_close(&json, '}');
  sattn_json_open(&json, "rows", '[');
  for (int g = 0; g < GRAPHS; g++) {
    sattn_json_open(&json, NULL, '{');
    sattn_json_text(&json, "graph", row[g].name);
    sattn_json_real(&json, "degree", row[g].facts.degree);
    sattn_json_real(&json, "clustering", row[g].facts.clustering);
    sattn_json_real(&json, "clustering_theory", row[g].clustering_theory);
    sattn_json_real(&json, "path", row[g].facts.path);
    sattn_json_real(&json, "path_theory", row[g].path_theory);
    sattn_json_real(&json, "farthest", row[g].facts.eccentricity);
    sattn_json_real(&json, "reached", row[g].facts.reached);
    sattn_json_real(&json, "sigma", row[g].sigma);
    sattn_json_close(&json, '}');
  }
  sattn_json_close(&json, ']');
  sattn_json_close(&json, '}');
}

static sattn_status draw(const sattn_field_settings *settings, const graph_row *row, sattn_error *out_error) {
  sattn_field_plot plot;
  const sattn_status status = sattn_field_plot_begin(settings->plot, 760, 460, &plot, out_error);
  if (status != SATTN_OK) return status;
  /* what clustering the fly's sigma and path mean beside this random graph */
  const double fly_clustering = fly_sigma * row[RANDOM].facts.clustering * fly_path / row[RANDOM].facts.path;
  fprintf(plot.script, "$graphs << EOD\n");
  for (int g = 0; g < GRAPHS; g++) {
    fprintf(plot.script, "%.10g %.10g \"%s\"\n", row[g].facts.path, row[g].facts.clustering, row[g].label);
  }
  fprintf(plot.script, "EOD\n$fly << EOD\n%.10g %.10g \"fruit fly\"\nEOD\n", fly_path, fly_clustering);
  fprintf(plot.script, "set title '%u nodes of %u connections: small worlds are top left'\n", settings->n, settings->degree);
  fprintf(plot.script,
          "set xlabel 'mean path'\nset ylabel 'clustering'\nset logscale xy\nset xrange [2:20000]\nset yrange [1e-4:2]\nunset key\n"
          "set grid linecolor rgb '#dddddd'\n");
  fprintf(plot.script, "plot $graphs using 1:2 with points pointtype 7 pointsize 0.9 linecolor rgb '%s', \\\n", SATTN_FIELD_COLOUR_SA);
  fprintf(plot.script, "  $graphs using 1:2:3 with labels left offset 1,0.3 noenhanced, \\\n");
  fprintf(plot.script, "  $fly using 1:2 with points pointtype 5 pointsize 1 linecolor rgb '%s', \\\n", SATTN_FIELD_COLOUR_BOTH);
  fprintf(plot.script, "  $fly using 1:2:3 with labels left offset 1,-0.3 textcolor rgb '%s'\n", SATTN_FIELD_COLOUR_BOTH);
  return sattn_field_plot_finish(&plot, out_error);
}

sattn_status sattn_field_small_world(const sattn_field_settings *settings, sattn_error *out_error) {
  graph_row row[GRAPHS];
  list_graphs(settings->n, settings->degree / 2, row);
  const sattn_status status = measure(settings, row, out_error);
  if (status != SATTN_OK) return status;
  if (settings->json) {
    print_json(settings, row);
  } else {
    print_table(settings, row);
  }
  return settings->plot != NULL ? draw(settings, row, out_error) : SATTN_OK;
}
