/* The reference backend's small operations: rows into slot order and back, merging of partial results, gate projections. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend.h"
#include "memory.h"
#include "random.h"
#include "reference/reference_gate.h"

static sattn_context context;
static const sattn_submission submission;

static sattn_buffer *wrap(void *memory) {
  sattn_buffer *buffer = test_memory(sizeof *buffer);
  *buffer = (sattn_buffer){.context = &context, .impl = memory};
  return buffer;
}

static float *draw(test_random *random, size_t count) {
  return test_random_array(random, SATTN_FP32, count, 1.0);
}

static int release(void **state) {
  (void)state;
  test_memory_release();
  return 0;
}

/* ---- rows ---- */

enum { BATCH = 2, TOKENS = 5, HEADS = 3, WIDTH = 2, ROWS = BATCH * TOKENS * HEADS };

static void gather_follows_the_order_and_scatter_undoes_it(void **state) {
  (void)state;
  test_random random = test_random_open(test_seed(), "rows");
  sattn_permutation permutation = {.length = TOKENS, .sharing = SATTN_PER_BATCH_AND_HEAD, .batch = BATCH, .kv_heads = HEADS};
  permutation.count = (int64_t)BATCH * HEADS;
  permutation.order = test_memory(sizeof(uint32_t) * BATCH * HEADS * TOKENS);
  for (int index = 0; index < BATCH * HEADS; ++index) {
    memcpy(permutation.order + index * TOKENS, test_random_order(&random, TOKENS), TOKENS * sizeof(uint32_t));
  }
  float *source = draw(&random, (size_t)ROWS * WIDTH), *gathered = test_memory(sizeof(float) * ROWS * WIDTH);
  float *back = test_memory(sizeof(float) * ROWS * WIDTH);
  source[3] = NAN; /* bytes are moved, not numbers */
  sattn_tensor packed = {wrap(source), 0, (int64_t)TOKENS * HEADS * WIDTH, (int64_t)HEADS * WIDTH, WIDTH};
  sattn_tensor head_major = {wrap(gathered), 0, (int64_t)TOKENS * HEADS * WIDTH, WIDTH, (int64_t)TOKENS * WIDTH};
  sattn_rows_args args = {.dtype = SATTN_FP32, .batch = BATCH, .tokens = TOKENS, .heads = HEADS, .head_dim = WIDTH};
  args.permutation = &permutation;
  args.source = packed;
  args.target = head_major;
  assert_int_equal(sattn_reference_backend.move_rows(&context, &args, 0, &submission, NULL), SATTN_OK);
  for (int b = 0; b < BATCH; ++b) {
    for (int h = 0; h < HEADS; ++h) {
      for (int s = 0; s < TOKENS; ++s) {
        uint32_t token = permutation.order[(b * HEADS + h) * TOKENS + s];
        assert_memory_equal(gathered + ((b * HEADS + h) * TOKENS + s) * WIDTH, source + ((b * TOKENS + (int)token) * HEADS + h) * WIDTH,
                            sizeof(float) * WIDTH);
      }
    }
  }
  args.source = head_major;
  args.target = packed;
  args.target.buffer = wrap(back);
  assert_int_equal(sattn_reference_backend.move_rows(&context, &args, 1, &submission, NULL), SATTN_OK);
  assert_memory_equal(back, source, sizeof(float) * ROWS * WIDTH);
}

/* ---- merge ---- */

/* Wider than any head: merging has no limit. */
enum { MERGE_WIDTH = 600 };

static void merge_rows(float *out_a, float *lse_a, float *out_b, float *lse_b, int64_t rows) {
  sattn_merge_args args = {.dtype = SATTN_FP32, .batch = 1, .queries = rows, .heads = 1, .head_dim = MERGE_WIDTH};
  args.out_a = (sattn_tensor){wrap(out_a), 0, rows * MERGE_WIDTH, MERGE_WIDTH, MERGE_WIDTH};
  args.out_b = (sattn_tensor){wrap(out_b), 0, rows * MERGE_WIDTH, MERGE_WIDTH, MERGE_WIDTH};
  args.lse_a = (sattn_array){wrap(lse_a), 0};
  args.lse_b = (sattn_array){wrap(lse_b), 0};
  args.out = args.out_a; /* in place */
  args.lse = args.lse_a;
  assert_int_equal(sattn_reference_backend.merge(&context, &args, &submission, NULL), SATTN_OK);
}

static void merge_weighs_by_lse(void **state) {
  (void)state;
  test_random random = test_random_open(test_seed(), "merge");
  float *a = draw(&random, MERGE_WIDTH), *b = draw(&random, MERGE_WIDTH), expected[MERGE_WIDTH];
  float lse_a = 1.5f, lse_b = 0.25f;
  double weight_a = exp(lse_a), weight_b = exp(lse_b);
  for (int c = 0; c < MERGE_WIDTH; ++c) expected[c] = (float)((weight_a * a[c] + weight_b * b[c]) / (weight_a + weight_b));
  merge_rows(a, &lse_a, b, &lse_b, 1);
  for (int c = 0; c < MERGE_WIDTH; ++c) assert_true(fabsf(a[c] - expected[c]) <= 1e-6f * (1 + fabsf(expected[c])));
  assert_true(fabs(lse_a - log(weight_a + weight_b)) <= 1e-6);
}

/* Rows: nothing in a; nothing in b; nothing in both; scores beyond the range of exp; scores so large that log 2 is lost beside them. */
static void merge_of_empty_parts(void **state) {
  (void)state;
  enum { CASES = 5 };
  float *a = test_memory(sizeof(float) * CASES * MERGE_WIDTH), *b = test_memory(sizeof(float) * CASES * MERGE_WIDTH);
  float lse_a[CASES] = {-INFINITY, 2, -INFINITY, 5000, 1e30f}, lse_b[CASES] = {3, -INFINITY, -INFINITY, 4000, 1e30f};
  for (int i = 0; i < CASES * MERGE_WIDTH; ++i) {
    a[i] = isinf(lse_a[i / MERGE_WIDTH]) ? NAN : 7;
    b[i] = isinf(lse_b[i / MERGE_WIDTH]) ? NAN : 9;
  }
  merge_rows(a, lse_a, b, lse_b, CASES);
  const float expected[CASES] = {9, 7, 0, 7, 8}, expected_lse[CASES] = {3, 2, -INFINITY, 5000, 1e30f};
  for (int i = 0; i < CASES * MERGE_WIDTH; ++i) assert_true(a[i] == expected[i / MERGE_WIDTH]);
  for (int i = 0; i < CASES; ++i) assert_true(lse_a[i] == expected_lse[i]);
}

/* ---- gates ---- */

static void sigmoid_saturates_cleanly(void **state) {
  (void)state;
  assert_true(sattn_reference_sigmoid(INFINITY) == 1);
  assert_true(sattn_reference_sigmoid(-INFINITY) == 0);
  assert_true(sattn_reference_sigmoid(0) == 0.5);
  assert_true(sattn_reference_sigmoid(-1e4) == 0 && sattn_reference_sigmoid(1e4) == 1);
}

enum { X_ROWS = 7, INPUTS = 5, OUTPUTS = 3 };

typedef struct projection {
  float *input, *weight, *bias, *logits, *grad_logits, *grad_input, *grad_weight, *grad_bias;
} projection;

static projection draw_projection(void) {
  test_random random = test_random_open(test_seed(), "gate");
  projection p = {draw(&random, X_ROWS * INPUTS),  draw(&random, OUTPUTS * INPUTS), draw(&random, OUTPUTS),
                  draw(&random, X_ROWS * OUTPUTS), draw(&random, X_ROWS * OUTPUTS), draw(&random, X_ROWS * INPUTS),
                  draw(&random, OUTPUTS * INPUTS), draw(&random, OUTPUTS)};
  return p;
}

static sattn_gate_args gate_args(const projection *p, int64_t rows) {
  sattn_gate_args args = {.rows = rows};
  args.input = (sattn_array){wrap(p->input), 0};
  args.weight = (sattn_array){wrap(p->weight), 0};
  args.bias = (sattn_array){wrap(p->bias), 0};
  args.logits = (sattn_array){wrap(p->logits), 0};
  args.grad_logits = (sattn_array){wrap(p->grad_logits), 0};
  args.grad_input = (sattn_array){wrap(p->grad_input), 0};
  args.grad_weight = (sattn_array){wrap(p->grad_weight), 0};
  args.grad_bias = (sattn_array){wrap(p->grad_bias), 0};
  return args;
}

static void expect_near(float got, double expected) {
  assert_true(fabs(got - expected) <= 1e-5);
}

static void check_logits(const projection *p, int with_bias) {
  for (int r = 0; r < X_ROWS; ++r) {
    for (int o = 0; o < OUTPUTS; ++o) {
      double sum = with_bias ? p->bias[o] : 0;
      for (int c = 0; c < INPUTS; ++c) sum += (double)p->input[r * INPUTS + c] * p->weight[o * INPUTS + c];
      expect_near(p->logits[r * OUTPUTS + o], sum);
    }
  }
}

static void check_gradients(const projection *p) {
  for (int c = 0; c < INPUTS; ++c) {
    for (int r = 0; r < X_ROWS; ++r) {
      double sum = 0;
      for (int o = 0; o < OUTPUTS; ++o) sum += (double)p->grad_logits[r * OUTPUTS + o] * p->weight[o * INPUTS + c];
      expect_near(p->grad_input[r * INPUTS + c], sum);
    }
    for (int o = 0; o < OUTPUTS; ++o) {
      double sum = 0;
      for (int r = 0; r < X_ROWS; ++r) sum += (double)p->grad_logits[r * OUTPUTS + o] * p->input[r * INPUTS + c];
      expect_near(p->grad_weight[o * INPUTS + c], sum);
    }
  }
  for (int o = 0; o < OUTPUTS; ++o) {
    double sum = 0;
    for (int r = 0; r < X_ROWS; ++r) sum += p->grad_logits[r * OUTPUTS + o];
    expect_near(p->grad_bias[o], sum);
  }
}

/* False, with the reason printed, on a machine without CBLAS. */
static int prepare(sattn_gate_plan *plan) {
  sattn_error error = {0};
  sattn_status status = sattn_reference_backend.gate_prepare(plan, &error);
  if (status == SATTN_OK) return 1;
  assert_int_equal(status, SATTN_UNAVAILABLE);
  assert_non_null(strstr(error.message, "install"));
  print_message("no CBLAS here: %s\n", error.message);
  return 0;
}

static void projections_match_plain_sums(void **state) {
  (void)state;
  projection p = draw_projection();
  for (int with_bias = 0; with_bias <= 1; ++with_bias) {
    sattn_gate_plan plan = {.context = &context, .max_rows = X_ROWS, .inputs = INPUTS, .outputs = OUTPUTS, .has_bias = with_bias};
    if (!prepare(&plan)) skip();
    sattn_gate_args args = gate_args(&p, X_ROWS);
    assert_int_equal(sattn_reference_backend.gate_run(&plan, &args, 0, &submission, NULL), SATTN_OK);
    check_logits(&p, with_bias);
    assert_int_equal(sattn_reference_backend.gate_run(&plan, &args, 1, &submission, NULL), SATTN_OK);
    check_gradients(&p);
    args.grad_input = args.grad_bias = (sattn_array){NULL, 0};
    p.grad_input[0] = 42;
    assert_int_equal(sattn_reference_backend.gate_run(&plan, &args, 1, &submission, NULL), SATTN_OK);
    assert_true(p.grad_input[0] == 42);
    args = gate_args(&p, 0);
    assert_int_equal(sattn_reference_backend.gate_run(&plan, &args, 1, &submission, NULL), SATTN_OK);
    for (int w = 0; w < OUTPUTS * INPUTS; ++w) assert_true(p.grad_weight[w] == 0);
    for (int o = 0; o < OUTPUTS; ++o) assert_true(p.grad_bias[o] == 0);
    sattn_reference_backend.gate_destroy(&plan);
  }
}

static void sizes_beyond_cblas_are_refused(void **state) {
  (void)state;
  sattn_gate_plan plan = {.context = &context, .max_rows = 1, .inputs = (int64_t)INT32_MAX + 1, .outputs = 1};
  sattn_error error = {0};
  assert_int_equal(sattn_reference_backend.gate_prepare(&plan, &error), SATTN_UNSUPPORTED);
  assert_non_null(strstr(error.message, "inputs"));
}

int main(void) {
  printf("seed %llu\n", (unsigned long long)test_seed());
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(gather_follows_the_order_and_scatter_undoes_it, release),
      cmocka_unit_test_teardown(merge_weighs_by_lse, release),
      cmocka_unit_test_teardown(merge_of_empty_parts, release),
      cmocka_unit_test(sigmoid_saturates_cleanly),
      cmocka_unit_test_teardown(projections_match_plain_sums, release),
      cmocka_unit_test(sizes_beyond_cblas_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
