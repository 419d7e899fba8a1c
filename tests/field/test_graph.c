/* Graph measures against brute force; a build without igraph must say so. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounds.h"
#include "case.h"
#include "small_world.h"

static uint64_t seed;

static int near(double a, double b) {
  return fabs(a - b) <= 1e-9;
}

enum { FAR = 1000000 };

/* Floyd and Warshall, and links counted among neighbours. */
static sattn_field_graph_facts brute_force(const sattn_field_edges *edges) {
  const uint32_t n = edges->n;
  sattn_field_graph_facts facts = {0};
  uint32_t *distance = malloc(sizeof *distance * n * n);
  assert_non_null(distance);
  for (uint32_t k = 0; k < n * n; k++) distance[k] = k / n == k % n ? 0 : FAR;
  for (uint64_t e = 0; e < edges->count; e++) {
    const uint32_t a = (uint32_t)(edges->edge[e] >> 32), b = (uint32_t)edges->edge[e];
    distance[a * n + b] = distance[b * n + a] = 1;
  }
  for (uint32_t a = 0; a < n; a++) {
    double links = 0.0, degree = 0.0;
    for (uint32_t b = 0; b < n; b++) {
      degree += distance[a * n + b] == 1;
      for (uint32_t c = 0; c < b; c++) links += distance[a * n + b] == 1 && distance[a * n + c] == 1 && distance[b * n + c] == 1;
    }
    facts.degree += degree / n;
    facts.clustering += degree < 2 ? 0.0 : links / (degree * (degree - 1) / 2) / n;
  }
  for (uint32_t via = 0; via < n; via++) {
    for (uint32_t a = 0; a < n; a++) {
      for (uint32_t b = 0; b < n; b++) {
        const uint32_t length = distance[a * n + via] + distance[via * n + b];
        if (length < distance[a * n + b]) distance[a * n + b] = length;
      }
    }
  }
  double sum = 0.0, pairs = 0.0;
  for (uint32_t k = 0; k < n * n; k++) {
    if (k / n == k % n || distance[k] >= FAR) continue;
    sum += distance[k];
    pairs++;
    facts.eccentricity = fmax(facts.eccentricity, distance[k]);
  }
  facts.path = sum / pairs;
  facts.reached = pairs / ((double)n * (n - 1));
  free(distance);
  return facts;
}

static void hold_against_brute_force(const sattn_field_edges *edges) {
  sattn_field_graph_facts facts = {0};
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_field_progress progress = sattn_field_progress_begin("", 1);
  const sattn_status status = sattn_field_graph_measure(edges, edges->n, &facts, &progress, &error);
  if (status == SATTN_UNAVAILABLE) {
    assert_non_null(strstr(error.message, "igraph"));
    assert_true(facts.degree == 0.0);
    return;
  }
  assert_int_equal(status, SATTN_OK);
  const sattn_field_graph_facts expected = brute_force(edges);
  assert_true(near(facts.degree, expected.degree));
  assert_true(near(facts.clustering, expected.clustering));
  assert_true(near(facts.path, expected.path));
  assert_true(near(facts.reached, expected.reached));
  assert_true(near(facts.eccentricity, expected.eccentricity));
}

static void rings(void **state) {
  (void)state;
  for (uint32_t n = 8; n <= 60; n += 13) {
    for (uint32_t half = 1; 2 * half < n && half < 6; half++) {
      sattn_field_edges edges;
      uint32_t *order = malloc(sizeof *order * n);
      const sattn_permutation_key key = {.seed = seed};
      assert_non_null(order);
      assert_int_equal(sattn_permutation_draw(n, &key, order, NULL, NULL), SATTN_OK);
      assert_int_equal(sattn_field_edges_make(n, (uint64_t)n * half, &edges, NULL), SATTN_OK);
      sattn_field_edges_add_ring(&edges, half % 2 ? order : NULL, half);
      sattn_field_edges_settle(&edges);
      assert_int_equal(edges.count, (uint64_t)n * half);
      const sattn_field_graph_facts facts = brute_force(&edges);
      assert_true(near(facts.path, sattn_field_ring_path(n, half)));
      if (3 * half < n) assert_true(near(facts.clustering, sattn_field_ring_clustering(n, half)));
      hold_against_brute_force(&edges);
      sattn_field_edges_free(&edges);
      free(order);
    }
  }
}

/* Nodes with fewer than two neighbours count as unclustered; they are not left out of the mean. */
static void a_triangle_and_loners(void **state) {
  (void)state;
  uint64_t edge[] = {UINT64_C(0) << 32 | 1, UINT64_C(0) << 32 | 2, UINT64_C(1) << 32 | 2, UINT64_C(3) << 32 | 4};
  const sattn_field_edges edges = {6, 4, 4, edge};
  assert_true(near(brute_force(&edges).clustering, 0.5));
  hold_against_brute_force(&edges);
}

static void two_rings_and_random_graphs(void **state) {
  (void)state;
  const uint32_t n = 80;
  sattn_field_edges edges;
  sattn_field_orders orders;
  assert_int_equal(sattn_field_orders_make(n, 1, seed, &orders, NULL), SATTN_OK);
  assert_int_equal(sattn_field_edges_make(n, 3 * n, &edges, NULL), SATTN_OK);
  sattn_field_edges_add_ring(&edges, NULL, 2);
  sattn_field_edges_add_ring(&edges, orders.order, 1);
  sattn_field_edges_settle(&edges);
  hold_against_brute_force(&edges);
  sattn_field_edges_free(&edges);
  for (uint32_t wanted = 20; wanted <= 820; wanted += 400) { /* in pieces; ordinary; nearly complete among 41 nodes */
    assert_int_equal(sattn_field_edges_make(wanted == 820 ? 41 : n, wanted, &edges, NULL), SATTN_OK);
    sattn_field_edges_fill_random(&edges, seed);
    assert_int_equal(edges.count, wanted);
    for (uint64_t e = 0; e < edges.count; e++) {
      assert_true(edges.edge[e] >> 32 < (edges.edge[e] & UINT32_MAX) && (edges.edge[e] & UINT32_MAX) < edges.n);
      assert_true(e == 0 || edges.edge[e - 1] < edges.edge[e]);
    }
    hold_against_brute_force(&edges);
    sattn_field_edges_free(&edges);
  }
  sattn_field_orders_free(&orders);
}

int main(int argc, char **argv) {
  (void)argc;
  seed = field_test_seed(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(rings), cmocka_unit_test(a_triangle_and_loners),
                                     cmocka_unit_test(two_rings_and_random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
