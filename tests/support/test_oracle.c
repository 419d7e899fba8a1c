/* The oracle against the contract's worked example and against its own finite differences. The vectors check it further. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "memory.h"
#include "oracle.h"

static const uint32_t example_order[6] = {3, 0, 5, 1, 4, 2};

static void check_sets(sattn_mode mode, int causal, const char *const sets[6]) {
  test_call call;
  test_call_init(&call, mode, 1, 6, 6, 1, 1, 1);
  call.attention.causal = causal;
  if (mode == SATTN_STOCHASTIC) call.attention.window_sa = sattn_window_width(3);
  if (mode == SATTN_SLIDING_WINDOW) call.attention.window_swa = sattn_window_width(3);
  call.order = example_order;
  for (int i = 0; i < 6; ++i) {
    unsigned char seen[6];
    char text[16] = "";
    test_oracle_visible(&call, SATTN_BAND_SA, 0, 0, i, seen);
    for (int j = 0; j < 6; ++j) {
      if (seen[j]) snprintf(text + strlen(text), sizeof text - strlen(text), "%d", j);
    }
    assert_string_equal(text, sets[i]);
  }
}

static void worked_example(void **state) {
  (void)state;
  check_sets(SATTN_SLIDING_WINDOW, 1, (const char *const[]){"0", "01", "012", "123", "234", "345"});
  check_sets(SATTN_STOCHASTIC, 1, (const char *const[]){"0", "01", "12", "03", "124", "01345"});
  check_sets(SATTN_STOCHASTIC, 0, (const char *const[]){"035", "145", "24", "03", "124", "015"});
}

/* P-S10: which blocks, and with which weights. */
static void moba_example(void **state) {
  (void)state;
  const float strength[8] = {5, 5, 1, 1, 3, 3, 2, 2};
  test_call call;
  test_oracle_result result;
  test_call_init(&call, SATTN_MOBA, 1, 8, 8, 1, 1, 8);
  call.attention.block = 2;
  call.attention.scale = 1;
  float *q = test_call_edit(&call, TEST_QUERY);
  float *k = test_call_edit(&call, TEST_KEY);
  float *v = test_call_edit(&call, TEST_VALUE);
  for (int i = 0; i < 8; ++i) {
    q[i * 8] = 1;
    k[i * 8] = strength[i];
    v[i * 8 + i] = 1;
  }
  test_oracle(&call, TEST_EXACT, &result);
  const double expected[8] = {0.4763, 0.4763, 0, 0, 0, 0, 0.0237, 0.0237};
  for (int j = 0; j < 8; ++j) assert_true(fabs(result.output[TEST_OUT][7 * 8 + j] - expected[j]) < 1e-4);
  assert_true(fabs(result.output[TEST_OUT][1 * 8] - 0.5) < 1e-12);
  test_memory_release();
}

static double loss(const test_call *call) {
  test_oracle_result result;
  double sum = 0;
  test_call forward = *call;
  forward.backward = 0;
  test_oracle(&forward, TEST_EXACT, &result);
  static const int pairs[4][2] = {
      {TEST_OUT, TEST_GRAD_OUT}, {TEST_LSE, TEST_GRAD_LSE}, {TEST_LSE_SA, TEST_GRAD_LSE_SA}, {TEST_LSE_SWA, TEST_GRAD_LSE_SWA}};
  for (int p = 0; p < 4; ++p) {
    const double *value = result.output[pairs[p][0]];
    const float *gradient = call->input[pairs[p][1]];
    if (!value || !gradient) continue;
    size_t count = test_shape_count(test_output_shape(call, (test_output)pairs[p][0]));
    for (size_t i = 0; i < count; ++i) {
      if (isfinite(value[i])) sum += value[i] * (double)gradient[i];
    }
  }
  return sum;
}

/* Central differences in steps that fp32 inputs hold exactly. */
static void differences(test_call *call, test_input input, test_output output, const test_oracle_result *result) {
  const float step = 0x1p-9f;
  size_t count = test_shape_count(test_input_shape(call, input));
  float *values = test_call_edit(call, input);
  for (size_t i = 0; i < count; i += 7) {
    float kept = values[i];
    values[i] = kept + step;
    float up = values[i];
    double above = loss(call);
    values[i] = kept - step;
    double below = loss(call);
    double slope = (above - below) / ((double)up - (double)values[i]);
    values[i] = kept;
    assert_true(fabs(slope - result->output[output][i]) <= 2e-4 * fmax(1, result->size[output]));
  }
}

static void check_gradients(sattn_mode mode) {
  test_call call;
  test_oracle_result result;
  const int32_t lengths[2] = {9, 6};
  test_random random = test_random_open(7, sattn_mode_name(mode));
  test_call_init(&call, mode, 2, 7, 9, 4, 2, 3);
  call.attention.has_sink_logits = 1;
  call.attention.softcap = 3;
  call.attention.sink_tokens = mode == SATTN_FULL ? 0 : 1;
  call.attention.block = mode == SATTN_MOBA ? 3 : 0;
  call.attention.gate_swa_shape = SATTN_GATE_PER_ELEMENT;
  call.attention.has_lengths = 1;
  call.lengths = lengths;
  test_call_fill(&call, &random, 1.0);
  test_call_fill_gradients(&call, &random, 1);
  test_oracle(&call, TEST_EXACT, &result);
  differences(&call, TEST_QUERY, TEST_GRAD_QUERY, &result);
  differences(&call, TEST_KEY, TEST_GRAD_KEY, &result);
  differences(&call, TEST_VALUE, TEST_GRAD_VALUE, &result);
  differences(&call, TEST_SINK_LOGITS, TEST_GRAD_SINK_LOGITS, &result);
  if (mode == SATTN_GATED) {
    differences(&call, TEST_GATE_SA, TEST_GRAD_GATE_SA, &result);
    differences(&call, TEST_GATE_SWA, TEST_GRAD_GATE_SWA, &result);
  }
  test_memory_release();
}

static void gradients(void **state) {
  (void)state;
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) check_gradients((sattn_mode)mode);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(worked_example), cmocka_unit_test(moba_example), cmocka_unit_test(gradients)};
  return cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
}
