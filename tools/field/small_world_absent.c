/* Stands in for small_world_igraph.c where igraph was not found when the program was configured. */
#include "refuse.h"
#include "small_world.h"

sattn_status sattn_field_graph_measure(const sattn_field_edges *edges, uint32_t sources, sattn_field_graph_facts *out_facts,
                                       sattn_field_progress *progress, sattn_error *out_error) {
  (void)edges;
  (void)sources;
  (void)out_facts;
  (void)progress;
  return sattn_field_refuse(
      out_error, SATTN_UNAVAILABLE, NULL,
      "graph measures need igraph 0.10 or later, which this program was built without (Debian: install libigraph-dev, "
      "then configure and build again)");
}
