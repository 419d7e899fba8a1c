#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t field_test_seed(const char *program) {
  const uint64_t seed = test_seed();
  printf("rerun: SATTN_TEST_SEED=%llu %s\n", (unsigned long long)seed, program);
  return seed;
}

field_case field_case_draw(test_random *random, uint32_t most) {
  static const sattn_mode modes[] = {SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_STOCHASTIC, SATTN_UNION, SATTN_GATED};
  field_case c = {.mode = modes[test_random_below(random, 6)]};
  const uint32_t n = (uint32_t)(2 + test_random_below(random, most - 1));
  /* small windows more often: large ones are complete after one layer */
  const int64_t widest = test_random_below(random, 4) == 0 ? 2 * (int64_t)n + 1 : 1 + n / 8;
  c.width_swa = 1 + test_random_below(random, widest);
  c.width_sa = 1 + test_random_below(random, widest);
  c.layers = (uint32_t)(1 + test_random_below(random, 5));
  c.seed = test_random_next(random);
  const bool causal = test_random_below(random, 2) == 0;
  const bool wrap = test_random_below(random, 3) == 0;
  assert_int_equal(sattn_field_pattern_make(c.mode, n, c.width_swa, c.width_sa, causal, wrap, &c.pattern, NULL), SATTN_OK);
  return c;
}

sattn_field_pattern field_pattern(sattn_mode mode, uint32_t n, int64_t width, bool causal, bool wrap) {
  sattn_field_pattern pattern;
  assert_int_equal(sattn_field_pattern_make(mode, n, width, width, causal, wrap, &pattern, NULL), SATTN_OK);
  return pattern;
}

void field_case_print(const field_case *c) {
  printf("mode %s, n %u, %s%s, swa %lld, sa %lld, layers %u, seed %llu\n", sattn_mode_name(c->mode), c->pattern.n,
         c->pattern.causal ? "causal" : "two-way", c->pattern.wrap ? ", wrap" : "", (long long)c->width_swa, (long long)c->width_sa,
         c->layers, (unsigned long long)c->seed);
}

uint32_t *field_brute_force(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers) {
  const size_t n = pattern->n;
  unsigned char *now = calloc(n * n, 1);
  unsigned char *next = calloc(n * n, 1);
  uint32_t *field = calloc(layers * n, sizeof *field);
  assert_non_null(now);
  assert_non_null(next);
  assert_non_null(field);
  for (size_t i = 0; i < n; i++) now[i * n + i] = 1;
  for (uint32_t layer = 0; layer < layers; layer++) {
    memset(next, 0, n * n);
    for (uint32_t i = 0; i < n; i++) {
      for (uint32_t j = 0; j < n; j++) {
        if (!sattn_field_sees(pattern, sattn_field_slot(orders, layer), i, j)) continue;
        for (size_t t = 0; t < n; t++) next[i * n + t] |= now[j * n + t];
      }
      for (size_t t = 0; t < n; t++) field[layer * n + i] += next[i * n + t];
    }
    unsigned char *swap = now;
    now = next;
    next = swap;
  }
  free(now);
  free(next);
  return field;
}
