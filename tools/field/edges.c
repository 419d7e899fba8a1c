#include <stdlib.h>

#include "refuse.h"
#include "small_world.h"

sattn_status sattn_field_edges_make(uint32_t n, uint64_t capacity, sattn_field_edges *out_edges, sattn_error *out_error) {
  uint64_t *const edge = capacity <= SIZE_MAX / sizeof *edge ? malloc((size_t)capacity * sizeof *edge) : NULL;
  if (edge == NULL) return sattn_field_no_memory(out_error);
  *out_edges = (sattn_field_edges){n, 0, capacity, edge};
  return SATTN_OK;
}

void sattn_field_edges_free(sattn_field_edges *edges) {
  free(edges->edge);
  *edges = (sattn_field_edges){0};
}

static void add(sattn_field_edges *edges, uint32_t a, uint32_t b) {
  edges->edge[edges->count++] = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

void sattn_field_edges_add_ring(sattn_field_edges *edges, const uint32_t *order, uint32_t half) {
  for (uint32_t at = 0; at < edges->n; at++) {
    for (uint32_t step = 1; step <= half; step++) {
      const uint32_t other = (uint32_t)(((uint64_t)at + step) % edges->n);
      add(edges, order != NULL ? order[at] : at, order != NULL ? order[other] : other);
    }
  }
}

static int by_value(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a;
  const uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

void sattn_field_edges_settle(sattn_field_edges *edges) {
  qsort(edges->edge, (size_t)edges->count, sizeof *edges->edge, by_value);
  uint64_t kept = 0;
  for (uint64_t e = 0; e < edges->count; e++) {
    if (e == 0 || edges->edge[e] != edges->edge[e - 1]) edges->edge[kept++] = edges->edge[e];
  }
  edges->count = kept;
}

void sattn_field_edges_fill_random(sattn_field_edges *edges, uint64_t seed) {
  uint64_t drawn = 0;
  while (edges->count < edges->capacity) {
    while (edges->count < edges->capacity) {
      const uint32_t a = (uint32_t)(sattn_field_uniform(seed, SATTN_FIELD_STREAM_GRAPH, drawn) * edges->n);
      const uint32_t b = (uint32_t)(sattn_field_uniform(seed, SATTN_FIELD_STREAM_GRAPH, drawn + 1) * edges->n);
      drawn += 2;
      if (a != b) add(edges, a, b);
    }
    /* what was drawn twice leaves room that the next round fills */
    sattn_field_edges_settle(edges);
  }
}
