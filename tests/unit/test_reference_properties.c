/* Properties that the contract states of the modes (section 2), of lengths and order_length (1, 3) and of unseen rows (1), on the reference
 * backend in double. */
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

/* Two orders of summation apart, in double. */
#define TOLERANCE 1e-12

enum { N = 12, HEADS = 4, KV_HEADS = 2, WIDTH = 3 };

/* ---- helpers ---- */

static test_call describe(sattn_mode mode, int causal, int64_t window) {
  test_call call;
  test_call_init(&call, mode, 1, N, N, HEADS, KV_HEADS, WIDTH);
  call.attention.causal = causal;
  if (test_mode_uses_sa(mode)) call.attention.window_sa = sattn_window_width(window);
  if (test_mode_uses_swa(mode)) call.attention.window_swa = sattn_window_width(window);
  return call;
}

/* The same Q, K, V, dO for every call of these sizes. */
static void fill(test_call *call) {
  test_random random = test_random_open(test_seed(), "properties");
  test_call_fill(call, &random, 1.0);
  random = test_random_open(test_seed(), "gradients");
  test_call_fill_gradients(call, &random, 0);
}

static reference_case *run(const test_call *call) {
  reference_case *c = test_memory(sizeof *c);
  reference_case_open(call, c);
  reference_case_forward(c);
  reference_case_backward(c);
  return c;
}

static void expect_close(const char *what, const double *a, const double *b, size_t count) {
  for (size_t e = 0; e < count; ++e) {
    if (!(a[e] == b[e] || fabs(a[e] - b[e]) <= TOLERANCE * (1 + fabs(a[e])))) {
      fail_msg("%s: element %zu is %.17g and %.17g. Rerun: SATTN_TEST_SEED=%llu unit_reference_properties", what, e, a[e], b[e],
               (unsigned long long)test_seed());
    }
  }
}

static size_t size_of(const reference_case *c, test_output output) {
  return test_shape_count(test_output_shape(c->call, output));
}

/* Everything that both calls have. */
static void expect_same(const char *what, const reference_case *a, const reference_case *b) {
  for (int output = 0; output < TEST_OUTPUTS; ++output) {
    if (a->output[output] && b->output[output]) {
      expect_close(what, a->output[output], b->output[output], size_of(a, (test_output)output));
    }
  }
}

static const uint32_t *identity(void) {
  uint32_t *order = test_memory(N * sizeof *order);
  for (uint32_t token = 0; token < N; ++token) order[token] = token;
  return order;
}

static int release(void **state) {
  (void)state;
  test_memory_release();
  return 0;
}

/* ---- modes against each other ---- */

static void identity_order_is_the_sliding_window(void **state) {
  (void)state;
  for (int64_t w = 1; w <= N; ++w) {
    test_call sa = describe(SATTN_STOCHASTIC, 1, w), swa = describe(SATTN_SLIDING_WINDOW, 1, w);
    fill(&sa);
    fill(&swa);
    sa.order = identity();
    sa.order_count = 1;
    sa.order_size = N;
    expect_same("SA of the identity order and SWA", run(&sa), run(&swa));
  }
}

static void wide_windows_are_full(void **state) {
  (void)state;
  static const sattn_mode modes[] = {SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION, SATTN_GATED};
  for (int causal = 0; causal <= 1; ++causal) {
    test_call full = describe(SATTN_FULL, causal, 0);
    fill(&full);
    const reference_case *expected = run(&full);
    for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
      test_call call = describe(modes[m], causal, causal ? N : 2 * N - 1);
      fill(&call);
      const reference_case *got = run(&call);
      if (modes[m] == SATTN_GATED) {
        expect_close("SA branch", expected->output[TEST_OUT], got->y_sa, size_of(got, TEST_OUT));
        expect_close("SWA branch", expected->output[TEST_OUT], got->y_swa, size_of(got, TEST_OUT));
        expect_close("LSE of the SA branch", expected->output[TEST_LSE], got->output[TEST_LSE_SA], size_of(got, TEST_LSE_SA));
      } else {
        expect_same(sattn_mode_name(modes[m]), expected, got);
      }
    }
    test_call circle = describe(SATTN_STOCHASTIC, causal, N);
    circle.attention.wrap = 1;
    fill(&circle);
    expect_same("wrap", expected, run(&circle));
    test_call blocks = describe(SATTN_MOBA, causal, 0);
    blocks.attention.block = 5;
    blocks.attention.topk = 3;
    fill(&blocks);
    expect_same("all blocks", expected, run(&blocks));
  }
}

static void width_one_gives_the_value(void **state) {
  (void)state;
  static const sattn_mode modes[] = {SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    test_call call = describe(modes[m], (int)(m % 2), 1);
    fill(&call);
    const reference_case *c = run(&call);
    for (int i = 0; i < N; ++i) {
      for (int h = 0; h < HEADS; ++h) {
        int g = h / (HEADS / KV_HEADS);
        expect_close("own value", c->input[TEST_VALUE] + (i * KV_HEADS + g) * WIDTH, c->output[TEST_OUT] + (i * HEADS + h) * WIDTH, WIDTH);
      }
    }
  }
}

static void values_of_one_give_one(void **state) {
  (void)state;
  static const sattn_mode modes[] = {SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION, SATTN_MOBA};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    test_call call = describe(modes[m], 1, 4);
    fill(&call);
    float *value = test_call_edit(&call, TEST_VALUE);
    for (int e = 0; e < N * KV_HEADS * WIDTH; ++e) value[e] = 1;
    const reference_case *c = run(&call);
    for (size_t e = 0; e < size_of(c, TEST_OUT); ++e) assert_true(fabs(c->output[TEST_OUT][e] - 1) <= TOLERANCE);
  }
}

/* ---- lengths, order_length ---- */

/* A batch of a full and a right-padded sequence, against the short sequence alone. */
static void padding_changes_nothing(void **state) {
  (void)state;
  enum { SHORT = 7 };
  static const int32_t lengths[] = {N, SHORT};
  static const sattn_mode modes[] = {SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION, SATTN_GATED, SATTN_MOBA};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    test_call padded = describe(modes[m], 1, 3), alone;
    padded.sizes.batch = 2;
    padded.lengths = lengths;
    padded.attention.has_lengths = 1;
    fill(&padded);
    alone = padded;
    alone.sizes = (sattn_sizes){1, SHORT, SHORT};
    alone.lengths = NULL;
    alone.attention.has_lengths = 0;
    for (int input = 0; input < TEST_INPUTS; ++input) {
      if (padded.input[input])
        alone.input[input] = padded.input[input] + test_shape_count(test_input_shape(&padded, (test_input)input)) / 2;
    }
    const reference_case *a = run(&padded), *b = run(&alone);
    const test_output rows[] = {TEST_OUT, TEST_GRAD_QUERY, TEST_GRAD_KEY, TEST_GRAD_VALUE};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
      size_t half = size_of(a, rows[r]) / 2;
      expect_close("short sequence", b->output[rows[r]], a->output[rows[r]] + half, size_of(b, rows[r]));
      for (size_t e = half + size_of(b, rows[r]); e < 2 * half; ++e) assert_true(a->output[rows[r]][e] == 0);
    }
  }
}

/* With order_length, one query at a time over a growing cache gives what one call over everything gives. */
static void order_length_keeps_visible_sets(void **state) {
  (void)state;
  test_call whole = describe(SATTN_STOCHASTIC, 1, 6);
  whole.attention.order_length = 20;
  fill(&whole);
  const reference_case *expected = run(&whole);
  for (int64_t n = 1; n <= N; ++n) {
    test_call step = whole;
    step.sizes = (sattn_sizes){1, 1, n};
    step.input[TEST_QUERY] = whole.input[TEST_QUERY] + (n - 1) * HEADS * WIDTH;
    step.input[TEST_GRAD_OUT] = whole.input[TEST_GRAD_OUT] + (n - 1) * HEADS * WIDTH;
    expect_close("decode step", expected->output[TEST_OUT] + (n - 1) * HEADS * WIDTH, run(&step)->output[TEST_OUT], HEADS * WIDTH);
  }
}

/* ---- rows that nobody sees ---- */

/* The last keys and queries hold NaN and infinity: rows before them must have the same bits as without. */
static void garbage_ahead_does_not_leak(void **state) {
  (void)state;
  enum { CLEAN = 8 };
  static const sattn_mode modes[] = {SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_UNION, SATTN_GATED, SATTN_MOBA};
  for (size_t m = 0; m < sizeof modes / sizeof *modes; ++m) {
    static const int32_t lengths[] = {CLEAN};
    test_call call = describe(modes[m], 1, 5), dirty;
    call.attention.block = modes[m] == SATTN_MOBA ? 3 : 0;
    call.lengths = lengths; /* so that nothing flows back from the garbage either */
    call.attention.has_lengths = 1;
    fill(&call);
    dirty = call;
    const test_input inputs[] = {TEST_QUERY, TEST_KEY, TEST_VALUE, TEST_GRAD_OUT};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; ++i) {
      size_t count = test_shape_count(test_input_shape(&dirty, inputs[i])), first = count / N * CLEAN;
      float *values = test_call_edit(&dirty, inputs[i]);
      for (size_t e = first; e < count; ++e) values[e] = e % 2 ? NAN : INFINITY;
    }
    const reference_case *a = run(&call), *b = run(&dirty);
    for (int output = 0; output < TEST_OUTPUTS; ++output) {
      if (a->output[output]) assert_memory_equal(a->output[output], b->output[output], size_of(a, (test_output)output) * sizeof(double));
    }
    /* Without lengths causality alone has to keep it out of the rows before. */
    dirty.lengths = NULL;
    dirty.attention.has_lengths = 0;
    if (test_mode_uses_sa(modes[m])) {
      dirty.attention.order_length = N;
      call.attention.order_length = N;
    }
    const reference_case *c = run(&call), *d = run(&dirty);
    assert_memory_equal(c->output[TEST_OUT], d->output[TEST_OUT], CLEAN * HEADS * WIDTH * sizeof(double));
    assert_memory_equal(c->output[TEST_GRAD_QUERY], d->output[TEST_GRAD_QUERY], CLEAN * HEADS * WIDTH * sizeof(double));
  }
}

int main(void) {
  printf("seed %llu\n", (unsigned long long)test_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(identity_order_is_the_sliding_window, release),
      cmocka_unit_test_teardown(wide_windows_are_full, release),
      cmocka_unit_test_teardown(width_one_gives_the_value, release),
      cmocka_unit_test_teardown(values_of_one_give_one, release),
      cmocka_unit_test_teardown(padding_changes_nothing, release),
      cmocka_unit_test_teardown(order_length_keeps_visible_sets, release),
      cmocka_unit_test_teardown(garbage_ahead_does_not_leak, release),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
