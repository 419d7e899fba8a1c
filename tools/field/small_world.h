/* The graph of who sees whom, taken as undirected, and its measures. */
#ifndef SATTN_TOOLS_FIELD_SMALL_WORLD_H
#define SATTN_TOOLS_FIELD_SMALL_WORLD_H

#include "orders.h"
#include "progress.h"

typedef struct {
  uint32_t n;
  uint64_t count, capacity;
  uint64_t *edge; /* smaller node << 32 | larger node; no loops */
} sattn_field_edges;

/* Ends with sattn_field_edges_free. */
sattn_status sattn_field_edges_make(uint32_t n, uint64_t capacity, sattn_field_edges *out_edges, sattn_error *out_error);
void sattn_field_edges_free(sattn_field_edges *edges);

/* Adds, for every node, its `half` next neighbours on the circle of an order (NULL: positions). Needs room for n * half more edges. */
void sattn_field_edges_add_ring(sattn_field_edges *edges, const uint32_t *order, uint32_t half);

/* Sorts, and drops what stands twice. */
void sattn_field_edges_settle(sattn_field_edges *edges);

/* Fills an empty list to its capacity with random edges, all different: a random graph of that many edges, settled. */
void sattn_field_edges_fill_random(sattn_field_edges *edges, uint64_t seed);

typedef struct {
  double degree;       /* mean */
  double clustering;   /* mean over nodes of (links among neighbours) / (possible ones), as Watts and Strogatz define it */
  double path;         /* mean distance from the sources to the other nodes they reach */
  double reached;      /* share of the nodes that the sources reach */
  double eccentricity; /* largest distance met */
} sattn_field_graph_facts;

/* Measures a settled list through igraph; SATTN_UNAVAILABLE in a build without it. Distances start at `sources` nodes spread evenly. Makes
 * `sources` steps of progress. */
sattn_status sattn_field_graph_measure(const sattn_field_edges *edges, uint32_t sources, sattn_field_graph_facts *out_facts,
                                       sattn_field_progress *progress, sattn_error *out_error);

#endif
