/* How fast layers mix.
 *
 * A layer that gives every visible key the same weight is a matrix: A averages w neighbours on a circle of positions (SWA), P = S^T A S
 * does so on a circle of slots (SA, S the order), (A + P) / 2 is GATED with open gates. All three keep the constant vector, and a stack of
 * layers M = P_L ... P_1 forgets everything else at the speed of its largest singular value on the other vectors, sigma. The gap is 1 -
 * sigma. */
#ifndef SATTN_TOOLS_FIELD_SPECTRUM_H
#define SATTN_TOOLS_FIELD_SPECTRUM_H

#include "orders.h"
#include "progress.h"

typedef enum { SATTN_FIELD_STACK_SWA, SATTN_FIELD_STACK_SA, SATTN_FIELD_STACK_GATED, SATTN_FIELD_STACKS } sattn_field_stack_kind;

typedef struct {
  sattn_field_stack_kind kind;
  uint32_t n, width;                /* width <= n */
  uint32_t layers;                  /* how many of the orders' layers the stack has */
  const sattn_field_orders *orders; /* NULL in SWA */
} sattn_field_stack;

/* to = M from (or M^T from). The arrays have n entries; `scratch` has 2 n + 1. */
void sattn_field_stack_apply(const sattn_field_stack *stack, int transposed, const double *from, double *to, double *scratch);

/* sigma, by Lanczos on M^T M. out_typical: |M x| / |x| of one random vector x without constant part. */
sattn_status sattn_field_stack_sigma(const sattn_field_stack *stack, uint64_t seed, double *out_sigma, double *out_typical,
                                     sattn_error *out_error);

#endif
