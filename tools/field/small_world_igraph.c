/* Graph measures through igraph (0.10 or later). */
#include <igraph/igraph.h>
#include <math.h>

#include "refuse.h"
#include "small_world.h"

static sattn_status failed(igraph_error_t code, sattn_error *out_error) {
  return sattn_field_refuse(out_error, code == IGRAPH_ENOMEM ? SATTN_OUT_OF_MEMORY : SATTN_INTERNAL, NULL, "igraph: %s",
                            igraph_strerror(code));
}

static igraph_error_t make_graph(const sattn_field_edges *edges, igraph_t *out_graph) {
  igraph_vector_int_t ends;
  igraph_error_t code = igraph_vector_int_init(&ends, (igraph_integer_t)(2 * edges->count));
  if (code != IGRAPH_SUCCESS) return code;
  for (uint64_t e = 0; e < edges->count; e++) {
    VECTOR(ends)[2 * e] = (igraph_integer_t)(edges->edge[e] >> 32);
    VECTOR(ends)[2 * e + 1] = (igraph_integer_t)(edges->edge[e] & UINT32_MAX);
  }
  code = igraph_create(out_graph, &ends, (igraph_integer_t)edges->n, IGRAPH_UNDIRECTED);
  igraph_vector_int_destroy(&ends);
  return code;
}

/* Breadth-first search from some nodes: memory stays linear, which a matrix of distances would not. */
static igraph_error_t measure_paths(const igraph_t *graph, uint32_t n, uint32_t sources, sattn_field_graph_facts *facts,
                                    sattn_field_progress *progress) {
  igraph_vector_int_t order, layers;
  igraph_error_t code = igraph_vector_int_init(&order, 0);
  if (code != IGRAPH_SUCCESS) return code;
  code = igraph_vector_int_init(&layers, 0);
  if (code != IGRAPH_SUCCESS) {
    igraph_vector_int_destroy(&order);
    return code;
  }
  double distance = 0.0;
  double reached = 0.0;
  for (uint32_t s = 0; s < sources && code == IGRAPH_SUCCESS; s++) {
    code = igraph_bfs_simple(graph, (igraph_integer_t)((uint64_t)s * n / sources), IGRAPH_ALL, &order, &layers, NULL);
    if (code != IGRAPH_SUCCESS) break;
    /* layers holds where each distance begins in the order of visit, and the end */
    for (igraph_integer_t d = 1; d + 1 < igraph_vector_int_size(&layers); d++) {
      const double nodes = (double)(VECTOR(layers)[d + 1] - VECTOR(layers)[d]);
      distance += nodes * (double)d;
      reached += nodes;
      facts->eccentricity = fmax(facts->eccentricity, (double)d);
    }
    sattn_field_progress_step(progress, 1);
  }
  facts->path = distance / reached;
  facts->reached = reached / ((double)sources * (n - 1.0));
  igraph_vector_int_destroy(&layers);
  igraph_vector_int_destroy(&order);
  return code;
}

sattn_status sattn_field_graph_measure(const sattn_field_edges *edges, uint32_t sources, sattn_field_graph_facts *out_facts,
                                       sattn_field_progress *progress, sattn_error *out_error) {
  /* the default handler ends the program */
  igraph_error_handler_t *const handler = igraph_set_error_handler(igraph_error_handler_ignore);
  sattn_field_graph_facts facts = {.degree = 2.0 * (double)edges->count / edges->n};
  igraph_t graph;
  igraph_error_t code = make_graph(edges, &graph);
  if (code == IGRAPH_SUCCESS) {
    code = igraph_transitivity_avglocal_undirected(&graph, &facts.clustering, IGRAPH_TRANSITIVITY_ZERO);
    if (code == IGRAPH_SUCCESS) code = measure_paths(&graph, edges->n, sources < edges->n ? sources : edges->n, &facts, progress);
    igraph_destroy(&graph);
  }
  igraph_set_error_handler(handler);
  if (code != IGRAPH_SUCCESS) return failed(code, out_error);
  *out_facts = facts;
  return SATTN_OK;
}
