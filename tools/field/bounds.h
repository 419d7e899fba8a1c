/* The theory as formulas. docs/theory.md derives them; the measures and tests compare against them. */
#ifndef SATTN_TOOLS_FIELD_BOUNDS_H
#define SATTN_TOOLS_FIELD_BOUNDS_H

#include "visible.h"

/* The field of any token after `layers` layers is at most degree^layers (and never more than n). */
double sattn_field_tree_bound(uint32_t degree, uint32_t layers, uint32_t n);

/* The fewest layers after which degree^layers reaches n: ceil(log_degree n); 0 when the degree is 1 and n is not. */
uint32_t sattn_field_tree_depth(uint32_t degree, uint32_t n);

/* Probability over random orders that the SA band shows token j to token i, i != j, causality aside:
 * the sum over the slot offsets of the band of (n - |offset|) / (n (n - 1)), or (left + right) / (n - 1) with wrap. */
double sattn_field_pair_probability(uint32_t n, uint32_t left, uint32_t right, bool wrap);

/* Visible pairs (i, j), j <= i, of causal SWA of width w: n w - w (w - 1) / 2. The causal SA preset has as many for every order. */
uint64_t sattn_field_causal_total(uint32_t n, uint32_t width);

/* Mean field over tokens after layer 1..layers, for a pattern of an SA band alone, if what one token sees were independent of what another
 * sees: two-way by the size of the field, causal by the distance of the pair. docs/theory.md derives both. */
sattn_status sattn_field_expected_growth(const sattn_field_pattern *pattern, uint32_t layers, double *out_mean, sattn_error *out_error);

/* Ring lattice of n nodes, each joined to `half` neighbours on either side (2 half < n): clustering, mean distance. */
double sattn_field_ring_clustering(uint32_t n, uint32_t half);
double sattn_field_ring_path(uint32_t n, uint32_t half);

/* Second largest modulus of the eigenvalues of averaging over `width` neighbours on a circle of n: |sin(pi w / n) / (w sin(pi / n))|, the
 * largest over the non-constant frequencies. */
double sattn_field_circle_eigenvalue(uint32_t n, uint32_t width);

#endif
