#include "spectrum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "refuse.h"

enum { LANCZOS_STEPS = 1024, LANCZOS_CHECK = 8 };

/* to += weight * (average over the band of from), on the circle of `order` (NULL: positions). Prefix sums make any width O(n). */
static void add_average(const sattn_field_stack *stack, const uint32_t *order, int transposed, double weight, const double *from,
                        double *to, double *prefix) {
  const uint32_t n = stack->n;
  const uint32_t w = stack->width;
  const uint32_t left = transposed ? w - 1 - w / 2 : w / 2;
  prefix[0] = 0.0;
  for (uint32_t s = 0; s < n; s++) {
    prefix[s + 1] = prefix[s] + from[order != NULL ? order[s] : s];
  }
  for (uint32_t s = 0; s < n; s++) {
    const uint32_t first = s >= left ? s - left : s + n - left;
    const uint32_t end = first + w; /* beyond n where the band crosses the end of the circle */
    const double sum = end <= n ? prefix[end] - prefix[first] : prefix[n] - prefix[first] + prefix[end - n];
    to[order != NULL ? order[s] : s] += weight * sum / w;
  }
}

void sattn_field_stack_apply(const sattn_field_stack *stack, int transposed, const double *from, double *to, double *scratch) {
  double *const prefix = scratch;
  double *const input = scratch + stack->n + 1;
  memmove(to, from, stack->n * sizeof *to);
  for (uint32_t step = 0; step < stack->layers; step++) {
    const uint32_t layer = transposed ? stack->layers - 1 - step : step;
    memcpy(input, to, stack->n * sizeof *to);
    memset(to, 0, stack->n * sizeof *to);
    const double share = stack->kind == SATTN_FIELD_STACK_GATED ? 0.5 : 1.0;
    if (stack->kind != SATTN_FIELD_STACK_SA) {
      add_average(stack, NULL, transposed, share, input, to, prefix);
    }
    if (stack->kind != SATTN_FIELD_STACK_SWA) {
      add_average(stack, sattn_field_order(stack->orders, layer), transposed, share, input, to, prefix);
    }
  }
}

static double dot(const double *a, const double *b, uint32_t n) {
  double sum = 0.0;
  for (uint32_t i = 0; i < n; i++) {
    sum += a[i] * b[i];
  }
  return sum;
}

/* Takes the constant part out and returns the norm of the rest. */
static double centre(double *x, uint32_t n) {
  double mean = 0.0;
  for (uint32_t i = 0; i < n; i++) {
    mean += x[i] / n;
  }
  for (uint32_t i = 0; i < n; i++) {
    x[i] -= mean;
  }
  return sqrt(dot(x, x, n));
}

/* Number of eigenvalues above `value` of the symmetric tridiagonal matrix (Sturm count). */
static uint32_t count_above(const double *diagonal, const double *beside, uint32_t size, double value) {
  uint32_t above = 0;
  double pivot = 1.0;
  for (uint32_t k = 0; k < size; k++) {
    const double square = k > 0 ? beside[k - 1] * beside[k - 1] : 0.0;
    pivot = diagonal[k] - value - square / pivot;
    if (pivot == 0.0) pivot = 1e-300;
    above += pivot > 0.0;
  }
  return above;
}

static double largest_eigenvalue(const double *diagonal, const double *beside, uint32_t size) {
  double low = 0.0;
  double high = 0.0;
  for (uint32_t k = 0; k < size; k++) { /* Gershgorin */
    high = fmax(high, diagonal[k] + (k > 0 ? fabs(beside[k - 1]) : 0.0) + (k + 1 < size ? fabs(beside[k]) : 0.0));
  }
  for (int halving = 0; halving < 100 && high - low > 1e-15 * high; halving++) {
    const double middle = 0.5 * (low + high);
    if (count_above(diagonal, beside, size, middle) > 0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return 0.5 * (low + high);
}

typedef struct {
  double *now, *before, *image, *middle, *scratch;
  double diagonal[LANCZOS_STEPS], beside[LANCZOS_STEPS];
} lanczos;

/* The largest Ritz value converges first and is not disturbed by the copies that lost orthogonality brings, so nothing is orthogonalised
 * again: memory stays linear. */
static double lanczos_largest(const sattn_field_stack *stack, lanczos *state) {
  const uint32_t n = stack->n;
  double largest = 0.0;
  for (uint32_t k = 0; k < LANCZOS_STEPS; k++) {
    sattn_field_stack_apply(stack, 0, state->now, state->middle, state->scratch);
    sattn_field_stack_apply(stack, 1, state->middle, state->image, state->scratch);
    state->diagonal[k] = dot(state->image, state->now, n);
    for (uint32_t i = 0; i < n; i++) {
      state->image[i] -= state->diagonal[k] * state->now[i] + (k > 0 ? state->beside[k - 1] * state->before[i] : 0.0);
    }
    const double norm = centre(state->image, n);
    state->beside[k] = norm;
    const bool exhausted = norm <= 1e-14 * fabs(state->diagonal[0]) || k + 2 >= n;
    if (exhausted || (k + 1) % LANCZOS_CHECK == 0 || k + 1 == LANCZOS_STEPS) {
      const double found = largest_eigenvalue(state->diagonal, state->beside, k + 1);
      const bool settled = fabs(found - largest) <= 1e-11 * found;
      largest = found;
      if (exhausted || settled) break;
    }
    for (uint32_t i = 0; i < n; i++) {
      state->before[i] = state->now[i];
      state->now[i] = state->image[i] / norm;
    }
  }
  return largest;
}

sattn_status sattn_field_stack_sigma(const sattn_field_stack *stack, uint64_t seed, double *out_sigma, double *out_typical,
                                     sattn_error *out_error) {
  const uint32_t n = stack->n;
  lanczos *const state = malloc(sizeof *state);
  double *const memory = calloc(6 * (size_t)n + 1, sizeof *memory);
  if (state == NULL || memory == NULL) {
    free(state);
    free(memory);
    return sattn_field_no_memory(out_error);
  }
  state->now = memory;
  state->before = memory + n;
  state->image = memory + 2 * (size_t)n;
  state->middle = memory + 3 * (size_t)n;
  state->scratch = memory + 4 * (size_t)n;
  for (uint32_t i = 0; i < n; i++) {
    state->now[i] = sattn_field_uniform(seed, SATTN_FIELD_STREAM_VECTOR, i) - 0.5;
  }
  const double norm = centre(state->now, n);
  for (uint32_t i = 0; i < n; i++) {
    state->now[i] /= norm;
  }
  sattn_field_stack_apply(stack, 0, state->now, state->middle, state->scratch);
  *out_typical = sqrt(dot(state->middle, state->middle, n));
  *out_sigma = sqrt(lanczos_largest(stack, state));
  free(memory);
  free(state);
  return SATTN_OK;
}
