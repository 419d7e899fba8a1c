/* The reference backend's gradients against central differences, in double: every mode with every option alone, then random sets of
 * options. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"
#include "reference_case.h"

/* Truncation costs about STEP squared, cancellation about 1e-15 / STEP: both are far below the tolerance. */
#define STEP      1e-5
#define TOLERANCE 1e-7

static const sattn_mode modes[] = {SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION, SATTN_GATED, SATTN_MOBA};
enum { MODES = sizeof modes / sizeof *modes };

/* ---- options ---- */

static void two_way(test_call *call) {
  call->attention.causal = 0;
}
static void softcap(test_call *call) {
  call->attention.softcap = 1.5;
}
static void scale(test_call *call) {
  call->attention.scale = -0.8;
}
static void sink_logits(test_call *call) {
  call->attention.has_sink_logits = 1;
}
static void sink_tokens(test_call *call) {
  call->attention.sink_tokens = 2;
}
static void wrap(test_call *call) {
  call->attention.wrap = 1;
}
static void order_length(test_call *call) {
  call->attention.order_length = 14;
}
static void per_head(test_call *call) {
  call->attention.sharing = SATTN_PER_HEAD;
}
static void per_batch(test_call *call) {
  call->attention.sharing = SATTN_PER_BATCH;
}
static void per_batch_and_head(test_call *call) {
  call->attention.sharing = SATTN_PER_BATCH_AND_HEAD;
}

static void sides(test_call *call) {
  if (test_mode_uses_sa(call->attention.mode)) call->attention.window_sa = sattn_window_sides(3, 1);
  if (test_mode_uses_swa(call->attention.mode)) call->attention.window_swa = sattn_window_sides(SATTN_UNBOUNDED, 0);
}

static void gate_per_element(test_call *call) {
  call->attention.gate_sa_shape = SATTN_GATE_PER_ELEMENT;
}
static void other_gate_per_element(test_call *call) {
  call->attention.gate_swa_shape = SATTN_GATE_PER_ELEMENT;
}

static void topk_one(test_call *call) {
  call->attention.topk = 1;
}
static void topk_three(test_call *call) {
  call->attention.topk = 3;
}
/* The last one is short. */
static void blocks_of_four(test_call *call) {
  call->attention.block = 4;
}

/* The caller's own orders, as many as any sharing has. Five has no divisor in common with any length here. */
static void own_order(test_call *call) {
  static uint32_t orders[4 * 14];
  int64_t length = call->attention.order_length ? call->attention.order_length : call->sizes.keys;
  for (int64_t e = 0; e < 4 * length; ++e) orders[e] = (uint32_t)((e % length * 5 + e / length + 1) % length);
  call->order = orders;
}

static void lengths(test_call *call) {
  static const int32_t values[] = {9, 6};
  call->lengths = values;
  call->attention.has_lengths = 1;
}

/* Six queries over nine keys; the second batch entry starts at its first key. */
static void query_start(test_call *call) {
  static const int32_t values[] = {2, 0};
  call->sizes.queries = 6;
  call->query_start = values;
  call->attention.has_query_start = 1;
}

static void fewer_queries(test_call *call) {
  call->sizes.queries = 4;
}

enum { SA = 1, SWA = 2, NOT_FULL = 4, GATED = 8, ANY = 16, MOBA = 32 };

typedef struct option {
  const char *name;
  int where; /* modes that take it */
  void (*apply)(test_call *call);
} option;

static const option options[] = {
    {"two-way", ANY, two_way},
    {"softcap", ANY, softcap},
    {"scale", ANY, scale},
    {"sink-logits", ANY, sink_logits},
    {"sink-tokens", NOT_FULL, sink_tokens},
    {"wrap", SA, wrap},
    {"order-length", SA, order_length},
    {"per-head", SA, per_head},
    {"per-batch", SA, per_batch},
    {"per-batch-and-head", SA, per_batch_and_head},
    {"sides", SA | SWA, sides},
    {"gate-per-element", GATED, gate_per_element},
    {"lengths", ANY, lengths},
    {"query-start", ANY, query_start},
    {"fewer-queries", ANY, fewer_queries},
    {"other-gate-per-element", GATED, other_gate_per_element},
    {"topk-one", MOBA, topk_one},
    {"topk-three", MOBA, topk_three},
    {"blocks-of-four", MOBA, blocks_of_four},
    {"own-order", SA, own_order}, /* after order-length */
};
enum { OPTIONS = sizeof options / sizeof *options };

static int takes(sattn_mode mode, const option *o) {
  return (o->where & ANY) || ((o->where & NOT_FULL) && mode != SATTN_FULL) || ((o->where & GATED) && mode == SATTN_GATED) ||
         ((o->where & MOBA) && mode == SATTN_MOBA) || ((o->where & SA) && test_mode_uses_sa(mode)) ||
         ((o->where & SWA) && test_mode_uses_swa(mode));
}

/* ---- the check ---- */

static const char *const input_names[TEST_INPUTS] = {"query", "key", "value", "gate_sa", "gate_swa", "sink_logits"};

static const struct {
  test_input input;
  test_output gradient;
} pairs[] = {{TEST_QUERY, TEST_GRAD_QUERY},     {TEST_KEY, TEST_GRAD_KEY},           {TEST_VALUE, TEST_GRAD_VALUE},
             {TEST_GATE_SA, TEST_GRAD_GATE_SA}, {TEST_GATE_SWA, TEST_GRAD_GATE_SWA}, {TEST_SINK_LOGITS, TEST_GRAD_SINK_LOGITS}};

static double weighted(const reference_case *c, test_output output, test_input weight) {
  double sum = 0;
  if (!c->output[output] || !c->input[weight]) return 0;
  size_t count = reference_case_count(c->call, weight);
  for (size_t e = 0; e < count; ++e) {
    if (c->output[output][e] != -INFINITY) sum += c->output[output][e] * c->input[weight][e]; /* empty rows have no LSE */
  }
  return sum;
}

static double loss(reference_case *c) {
  reference_case_forward(c);
  return weighted(c, TEST_OUT, TEST_GRAD_OUT) + weighted(c, TEST_LSE, TEST_GRAD_LSE) + weighted(c, TEST_LSE_SA, TEST_GRAD_LSE_SA) +
         weighted(c, TEST_LSE_SWA, TEST_GRAD_LSE_SWA);
}

static double difference(reference_case *c, double *element) {
  double kept = *element;
  *element = kept + STEP;
  double above = loss(c);
  *element = kept - STEP;
  double below = loss(c);
  *element = kept;
  return (above - below) / (2 * STEP);
}

/* Returns the number of wrong elements of one gradient. */
static size_t compare_gradient(reference_case *c, test_input input, const double *gradient, const char *what) {
  size_t count = reference_case_count(c->call, input), wrong = 0;
  for (size_t e = 0; e < count; ++e) {
    double expected = difference(c, &c->input[input][e]);
    if (!(fabs(gradient[e] - expected) <= TOLERANCE * (1 + fabs(expected))) && wrong++ == 0) {
      print_error("%s: gradient of %s[%zu] is %.12g, the difference quotient %.12g. Rerun: SATTN_TEST_SEED=%llu unit_reference_grad\n",
                  what, input_names[input], e, gradient[e], expected, (unsigned long long)test_seed());
    }
  }
  return wrong;
}

static size_t check(sattn_mode mode, uint32_t chosen, const char *what) {
  static reference_case c;
  test_call call;
  test_random random = test_random_open(test_seed(), what);
  test_call_init(&call, mode, 2, 9, 9, 2, 1, 3);
  if (test_mode_uses_sa(mode)) call.attention.window_sa = sattn_window_width(3);
  if (test_mode_uses_swa(mode)) call.attention.window_swa = sattn_window_width(2);
  if (mode == SATTN_MOBA) call.attention.block = 2;
  for (int o = 0; o < OPTIONS; ++o) {
    if (chosen >> o & 1) options[o].apply(&call);
  }
  if (call.attention.sharing == SATTN_PER_HEAD || call.attention.sharing == SATTN_PER_BATCH_AND_HEAD) call.attention.kv_heads = 2;
  test_call_fill(&call, &random, 1.0);
  test_call_fill_gradients(&call, &random, 1);
  reference_case_open(&call, &c);
  reference_case_forward(&c);
  reference_case_backward(&c);
  size_t wrong = 0;
  for (size_t p = 0; p < sizeof pairs / sizeof *pairs; ++p) {
    if (c.input[pairs[p].input]) wrong += compare_gradient(&c, pairs[p].input, c.output[pairs[p].gradient], what);
  }
  test_memory_release();
  return wrong;
}

static void each_option(void **state) {
  (void)state;
  size_t wrong = 0;
  for (int m = 0; m < MODES; ++m) {
    wrong += check(modes[m], 0, sattn_mode_name(modes[m]));
    for (int o = 0; o < OPTIONS; ++o) {
      char what[64];
      snprintf(what, sizeof what, "%s %s", sattn_mode_name(modes[m]), options[o].name);
      if (takes(modes[m], &options[o])) wrong += check(modes[m], 1u << o, what);
    }
  }
  assert_int_equal(wrong, 0);
}

static void random_options(void **state) {
  (void)state;
  size_t wrong = 0;
  test_random random = test_random_open(test_seed(), "sets of options");
  for (int round = 0; round < 10 * MODES; ++round) {
    sattn_mode mode = modes[round % MODES];
    uint32_t chosen = 0;
    char what[256];
    size_t used = (size_t)snprintf(what, sizeof what, "%s", sattn_mode_name(mode));
    for (int o = 0; o < OPTIONS; ++o) {
      if (!takes(mode, &options[o]) || test_random_below(&random, 3) != 0) continue;
      chosen |= 1u << o;
      used += (size_t)snprintf(what + used, sizeof what - used, " %s", options[o].name);
    }
    wrong += check(mode, chosen, what);
  }
  assert_int_equal(wrong, 0);
}

/* Saturated gates: exactly open or shut, without a gradient, and no NaN on the way. */
static void infinite_gates(void **state) {
  (void)state;
  static reference_case c;
  test_call call;
  test_random random = test_random_open(test_seed(), "infinite gates");
  test_call_init(&call, SATTN_GATED, 1, 4, 4, 1, 1, 2);
  test_call_fill(&call, &random, 1.0);
  test_call_fill_gradients(&call, &random, 0);
  float *sa = test_call_edit(&call, TEST_GATE_SA), *swa = test_call_edit(&call, TEST_GATE_SWA);
  for (int i = 0; i < 4; ++i) {
    sa[i] = INFINITY;
    swa[i] = -INFINITY;
  }
  reference_case_open(&call, &c);
  reference_case_forward(&c);
  reference_case_backward(&c);
  for (int i = 0; i < 4; ++i) {
    assert_true(c.output[TEST_OUT][2 * i] == c.y_sa[2 * i]);
    assert_true(c.output[TEST_GRAD_GATE_SA][i] == 0 && c.output[TEST_GRAD_GATE_SWA][i] == 0);
  }
  for (int e = 0; e < 8; ++e) assert_true(isfinite(c.output[TEST_GRAD_QUERY][e]));
  test_memory_release();
}

/* Backward after a call without queries: zeros wherever something could have flowed, and no permutation is asked for. */
static void no_queries(void **state) {
  (void)state;
  static reference_case c;
  test_call call;
  test_random random = test_random_open(test_seed(), "no queries");
  test_call_init(&call, SATTN_STOCHASTIC, 2, 0, 5, 2, 1, 3);
  call.attention.has_sink_logits = 1;
  test_call_fill(&call, &random, 1.0);
  test_call_fill_gradients(&call, &random, 0);
  reference_case_open(&call, &c);
  const test_output outputs[] = {TEST_GRAD_KEY, TEST_GRAD_VALUE, TEST_GRAD_SINK_LOGITS};
  for (size_t o = 0; o < sizeof outputs / sizeof *outputs; ++o) {
    memset(c.output[outputs[o]], 0xff, test_shape_count(test_output_shape(&call, outputs[o])) * sizeof(double));
  }
  reference_case_backward(&c);
  for (size_t o = 0; o < sizeof outputs / sizeof *outputs; ++o) {
    size_t count = test_shape_count(test_output_shape(&call, outputs[o]));
    for (size_t e = 0; e < count; ++e) assert_true(c.output[outputs[o]][e] == 0);
  }
  test_memory_release();
}

int main(void) {
  printf("seed %llu\n", (unsigned long long)test_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_option),
      cmocka_unit_test(random_options),
      cmocka_unit_test(infinite_gates),
      cmocka_unit_test(no_queries),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
