/* Random patterns and the brute force that the fast paths are held against. */
#ifndef TEST_FIELD_CASE_H
#define TEST_FIELD_CASE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the three above */
#include <setjmp.h>

#include <cmocka.h>

#include "orders.h"
#include "random.h"
#include "visible.h"

typedef struct {
  sattn_field_pattern pattern;
  sattn_mode mode;
  uint32_t layers;
  int64_t width_swa, width_sa;
  uint64_t seed;
} field_case;

/* Any mode, direction, wrap, widths (from one token to more than all); n from 2 to `most`. */
field_case field_case_draw(test_random *random, uint32_t most);

sattn_field_pattern field_pattern(sattn_mode mode, uint32_t n, int64_t width, bool causal, bool wrap);

void field_case_print(const field_case *c);

/* [layers][n], by the definition of a receptive field and nothing else. Freed by the caller. */
uint32_t *field_brute_force(const sattn_field_pattern *pattern, const sattn_field_orders *orders, uint32_t layers);

/* Prints the seed and the command that reruns this program with it; returns it. */
uint64_t field_test_seed(const char *program);

#endif
