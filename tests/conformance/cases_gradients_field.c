/* Field faults of backward: P-N1, P-N2, P-N5, P-N6, P-D1, P-D8, P-S5, P-S11; and gate projections. More of them are in cases_gradients.c.
 */
#include <stdio.h>

#include "conformance.h"

static void backward_call(test_env *env, test_call *call, double spread) {
  test_call_fill(call, &env->random, spread);
  test_call_fill_gradients(call, &env->random, 0);
}

/* The rows [first, first + count) of both, bit for bit. */
static void check_rows(test_env *env, const test_call *call, test_output output, int64_t first, int64_t count, const test_result *expected,
                       const test_result *got, const char *label) {
  test_shape shape = test_output_shape(call, output);
  int64_t row = shape.size[2] * shape.size[3];
  test_shape rows = {{1, count, shape.size[2], shape.size[3]}};
  test_difference difference;
  if (test_compare_bits(test_output_name(output), rows, expected->output[output] + first * row, got->output[output] + first * row,
                        &difference))
    test_fail(env->suite, "%s, rows from %lld: %s", label, (long long)first, difference.report);
}

/* P-N1 behind gates: one token: dQ = dK = 0 exactly, dV = dO through both gates. */
static void one_token_gated(test_env *env) {
  test_call call;
  test_result result;
  test_call_init(&call, SATTN_GATED, 1, 1, 1, 1, 1, 16);
  call.attention.dtype = SATTN_FP16;
  backward_call(env, &call, 3.0);
  if (!test_call_ok(env, &call, "n = 1", &result)) return;
  test_check_result(env, &call, "n = 1", &result);
  for (int c = 0; c < 16; ++c) {
    if (result.output[TEST_GRAD_QUERY][c] == 0 && result.output[TEST_GRAD_KEY][c] == 0) continue;
    test_fail(env->suite, "dq[%d] is %g, dk[%d] is %g: both must be 0", c, (double)result.output[TEST_GRAD_QUERY][c], c,
              (double)result.output[TEST_GRAD_KEY][c]);
  }
}

/* P-N2: no gradient flows from rows past the length nor to keys there, whatever lies in Q, K, V, gates, dO and dLSE; the others are the
 * oracle's.
 */
static void empty_rows_of(test_env *env, int64_t head_dim, sattn_dtype dtype) {
  static const int32_t lengths[4] = {30, 17, 1, 0};
  const int64_t row = 2 * head_dim;
  test_call call;
  test_result result;
  test_call_init(&call, env->mode, 4, 30, 30, 2, 2, head_dim);
  call.attention.dtype = dtype;
  call.attention.has_lengths = 1;
  call.lengths = lengths;
  call.attention.has_sink_logits = 1;
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 1);
  static const test_input rows[] = {TEST_QUERY, TEST_KEY, TEST_VALUE, TEST_GRAD_OUT};
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; ++r) {
    float *values = test_call_edit(&call, rows[r]);
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t at = (b * 30 + lengths[b]) * row; at < (b + 1) * 30 * row; ++at) values[at] = (float)NAN;
  }
  for (int input = TEST_GATE_SA; input <= TEST_GATE_SWA; ++input) {
    float *values = call.input[input] ? test_call_edit(&call, (test_input)input) : NULL;
    for (int64_t at = 0; values && at < 4 * 30 * 2; ++at)
      if (at / 2 % 30 >= lengths[at / 60]) values[at] = (float)NAN;
  }
  for (int input = TEST_GRAD_LSE; input <= TEST_GRAD_LSE_SWA; ++input) {
    float *values = call.input[input] ? test_call_edit(&call, (test_input)input) : NULL;
    for (int64_t at = 0; values && at < 4 * 2 * 30; ++at)
      if (at % 30 >= lengths[at / 60]) values[at] = (float)NAN;
  }
  if (!test_call_ok(env, &call, "lengths 30, 17, 1, 0", &result)) return;
  test_check_result(env, &call, "lengths 30, 17, 1, 0", &result);
  for (int64_t b = 0; b < 4; ++b) {
    for (int64_t at = (b * 30 + lengths[b]) * row; at < (b + 1) * 30 * row; ++at) {
      if (result.output[TEST_GRAD_QUERY][at] == 0 && result.output[TEST_GRAD_KEY][at] == 0 && result.output[TEST_GRAD_VALUE][at] == 0)
        continue;
      test_fail(env->suite, "batch %lld: token %lld does not exist and got a gradient", (long long)b, (long long)(at / row % 30));
      break;
    }
  }
}

static void empty_rows(test_env *env) {
  empty_rows_of(env, 16, SATTN_FP32);
  empty_rows_of(env, 64, SATTN_FP32);
  empty_rows_of(env, 64, test_case_dtype(env, 1));
}

/* Small, with every option that a tile must heed and elements beyond a multiple of four: for tools that slow a program down a thousand
 * times. */
static void small(test_env *env) {
  static const int32_t lengths[2] = {45, 31};
  test_call call;
  test_call_init(&call, env->mode, 2, 37, 45, 2, 1, 5);
  call.attention.has_lengths = 1;
  call.lengths = lengths;
  call.attention.softcap = 3;
  call.attention.has_sink_logits = 1;
  if (env->mode != SATTN_FULL) call.attention.sink_tokens = 3;
  if (env->mode == SATTN_GATED) call.attention.gate_sa_shape = SATTN_GATE_PER_ELEMENT;
  test_call_fill(&call, &env->random, 1.0);
  test_call_fill_gradients(&call, &env->random, 1);
  test_check_oracle(env, &call, "small");
}

/* P-N5: gradients of large logits are finite and right, in fp32 and a half type. */
static void large_logits(test_env *env) {
  for (int i = 0; i < 4; ++i) {
    test_call call;
    char label[32];
    test_call_init(&call, env->mode, 1, 96, 96, 2, 1, 64);
    call.attention.dtype = test_case_dtype(env, i / 2);
    backward_call(env, &call, i % 2 ? 30.0 : 3.0);
    snprintf(label, sizeof label, "%s, spread %d", sattn_dtype_name(call.attention.dtype), i % 2 ? 30 : 3);
    test_check_oracle(env, &call, label);
  }
}

/* ---- P-N6 ---- */

enum { N = 70, BAD = 60, HEADS = 2, DIM = 64, ROW = HEADS * DIM };

/* Marks the keys that query i sees in any band of any head. */
static void add_visible(const test_call *call, int64_t i, unsigned char *seen) {
  unsigned char of_band[N];
  for (int64_t h = 0; h < HEADS; ++h) {
    for (int band = SATTN_BAND_SWA; band <= SATTN_BAND_SA; ++band) {
      test_oracle_visible(call, (sattn_band)band, 0, h, i, of_band);
      for (int64_t j = 0; j < N; ++j) seen[j] |= of_band[j];
    }
  }
}

/* dK and dV of the keys that are not marked keep every bit. */
static void check_unmarked_keys(test_env *env, const test_call *call, const unsigned char *seen, const test_result *clean,
                                const test_result *result, const char *label) {
  for (int64_t j = 0; j < N; ++j) {
    if (seen[j]) continue;
    check_rows(env, call, TEST_GRAD_KEY, j, 1, clean, result, label);
    check_rows(env, call, TEST_GRAD_VALUE, j, 1, clean, result, label);
  }
}

/* NaN and infinities in the last K and V rows: dQ of the queries before them, and dK, dV of the keys that only these see, keep every bit.
 */
static void garbage_keys(test_env *env) {
  const float garbage[3] = {(float)NAN, (float)INFINITY, -(float)INFINITY};
  test_call clean;
  test_result of_clean;
  unsigned char seen[N] = {0};
  test_call_init(&clean, env->mode, 1, N, N, HEADS, HEADS, DIM);
  backward_call(env, &clean, 1.0);
  for (int input = TEST_KEY; input <= TEST_VALUE; ++input)
    memset(test_call_edit(&clean, (test_input)input) + BAD * ROW, 0, (N - BAD) * ROW * sizeof(float));
  if (!test_call_ok(env, &clean, "zeros", &of_clean)) return;
  for (int64_t i = BAD; i < N; ++i) add_visible(&clean, i, seen);
  for (int g = 0; g < 3; ++g) {
    test_call call = clean;
    test_result result;
    for (int input = TEST_KEY; input <= TEST_VALUE; ++input) {
      float *values = test_call_edit(&call, (test_input)input);
      for (int64_t at = BAD * ROW; at < N * ROW; ++at) values[at] = garbage[g];
    }
    if (!test_call_ok(env, &call, "garbage", &result)) return;
    /* MOBA's block of the first garbage key begins at 56, and what its later queries select follows the garbage. */
    check_rows(env, &call, TEST_GRAD_QUERY, 0, 56, &of_clean, &result, "garbage in K and V");
    if (env->mode != SATTN_MOBA) check_unmarked_keys(env, &call, seen, &of_clean, &result, "garbage in K and V");
  }
}

/* NaN in one row of Q, then of dO: dQ of the others, and dK, dV of the keys that it does not see, keep every bit. */
static void garbage_queries(test_env *env) {
  static const test_input inputs[2] = {TEST_QUERY, TEST_GRAD_OUT};
  const int64_t bad = 33;
  test_call clean;
  test_result of_clean;
  unsigned char seen[N] = {0};
  test_call_init(&clean, env->mode, 1, N, N, HEADS, HEADS, DIM);
  backward_call(env, &clean, 1.0);
  if (!test_call_ok(env, &clean, "clean", &of_clean)) return;
  add_visible(&clean, bad, seen);
  for (int i = 0; i < 2; ++i) {
    test_call call = clean;
    test_result result;
    const char *label = i ? "NaN in dO row 33" : "NaN in Q row 33";
    float *values = test_call_edit(&call, inputs[i]);
    for (int64_t at = bad * ROW; at < (bad + 1) * ROW; ++at) values[at] = (float)NAN;
    if (!test_call_ok(env, &call, label, &result)) return;
    check_rows(env, &call, TEST_GRAD_QUERY, 0, bad, &of_clean, &result, label);
    check_rows(env, &call, TEST_GRAD_QUERY, bad + 1, N - bad - 1, &of_clean, &result, label);
    /* A NaN in Q changes what MOBA selects. */
    if (env->mode != SATTN_MOBA || i == 1) check_unmarked_keys(env, &call, seen, &of_clean, &result, label);
  }
}

/* ---- P-D1, P-D8 ---- */

/* P-D1: thirty runs, one result. OpenCL drivers share the work out among threads, so they get enough of it; a simulated GPU, which is asked
 * the same through its schedules, would need hours for as much. */
static void thirty_runs(test_env *env) {
  const int64_t n = env->suite->backend == SATTN_BACKEND_OPENCL ? 1024 : 20;
  test_call call;
  test_run run;
  test_result first, again;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_call_init(&call, env->mode, 1, n, n, n > 20 ? 8 : 4, 2, 64);
  if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(n > 20 ? 40 : 5);
  if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(n > 20 ? 40 : 5);
  backward_call(env, &call, 1.0);
  if (test_run_open(env->context, &call, NULL, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  for (int i = 0; i < 30; ++i) {
    if (test_run_send(&run, &error) || test_run_enqueue(&run, queue, NULL, 0, NULL, &error) ||
        sattn_queue_finish(env->context, queue, &error)) {
      test_fail(env->suite, "run %d: %s", i, error.message);
      break;
    }
    const char *fault = test_run_fetch(&run, i ? &again : &first, &error);
    if (fault) test_fail(env->suite, "run %d: %s", i, fault);
    if (fault || (i && !test_check_same(env, &call, "again", &first, &again))) break;
  }
  test_run_close(&run);
}

static double loss(const test_call *call, const test_result *result) {
  double sum = 0;
  size_t count = test_shape_count(test_output_shape(call, TEST_OUT));
  for (size_t e = 0; e < count; ++e) sum += (double)result->output[TEST_OUT][e] * (double)call->input[TEST_GRAD_OUT][e];
  return sum;
}

/* P-D8: backward differentiates the very call that forward made: the device's own forward, by central differences. */
static void by_differences(test_env *env) {
  static const test_output outputs[3] = {TEST_GRAD_QUERY, TEST_GRAD_KEY, TEST_GRAD_VALUE};
  const float step = 0x1p-6f;
  test_call call;
  test_result result;
  test_call_init(&call, env->mode, 1, 7, 7, 1, 1, 16);
  if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(3);
  backward_call(env, &call, 0.5);
  if (!test_call_ok(env, &call, "backward", &result)) return;
  call.backward = 0;
  for (int i = 0; i < 3; ++i) {
    double largest = 0;
    for (int e = 0; e < 7 * 16; ++e) largest = fmax(largest, fabs((double)result.output[outputs[i]][e]));
    for (int tried = 0; tried < 6; ++tried) {
      const int64_t e = test_random_below(&env->random, 7 * 16);
      double side[2];
      for (int up = 0; up < 2; ++up) {
        test_call moved = call;
        test_result of_moved;
        test_call_edit(&moved, (test_input)i)[e] += up ? step : -step;
        if (!test_call_ok(env, &moved, "moved", &of_moved)) return;
        side[up] = loss(&moved, &of_moved);
      }
      double expected = (side[1] - side[0]) / (2 * (double)step), got = (double)result.output[outputs[i]][e];
      if (!(fabs(got - expected) <= 1e-3 * fmax(largest, 0.1)))
        test_fail(env->suite, "%s[%lld] is %.7g, the difference quotient %.7g", test_output_name(outputs[i]), (long long)e, got, expected);
    }
  }
}

/* ---- P-S5, P-S11: what is saved fits, or nothing is written ---- */

/* P-S5: no plan for the backward of more queries than keys. */
static void more_queries(test_env *env) {
  test_call call;
  sattn_plan *plan = NULL;
  sattn_error error;
  test_call_init(&call, env->mode, 1, 10, 10, 1, 1, 16);
  const sattn_sizes sizes = {1, 10, 8};
  sattn_status status = sattn_plan_create(env->context, &call.attention, &sizes, SATTN_PASS_BACKWARD, &plan, &error);
  test_check_refusal(env, "10 queries, 8 keys", status, SATTN_INVALID_ARGUMENT, &error, "");
  if (plan) test_fail(env->suite, "out_plan was written");
}

typedef struct saved_pair {
  test_call call[2];
  test_run run[2];
} saved_pair;

/* Two plans that differ in their window only, each with its own permutation, each gone forward. */
static int open_pair(test_env *env, saved_pair *pair) {
  sattn_queue queue = {NULL};
  sattn_error error;
  for (int i = 0; i < 2; ++i) {
    test_call *call = &pair->call[i];
    test_call_init(call, env->mode, 1, 20, 20, 1, 1, 16);
    if (test_mode_uses_sa(env->mode)) call->attention.window_sa = sattn_window_width(i ? 5 : 4);
    if (test_mode_uses_swa(env->mode)) call->attention.window_swa = sattn_window_width(i ? 5 : 4);
    backward_call(env, call, 1.0);
    if (test_run_open(env->context, call, NULL, &pair->run[i], &error)) {
      test_fail(env->suite, "%s", error.message);
      if (i) test_run_close(&pair->run[0]);
      return 0;
    }
    if (test_run_send(&pair->run[i], &error) || sattn_forward(pair->run[i].plan, &pair->run[i].forward, queue, NULL, 0, NULL, &error) ||
        sattn_queue_finish(env->context, queue, &error))
      test_fail(env->suite, "forward: %s", error.message);
  }
  return 1;
}

/* Backward of the first run with a changed struct: refused, nothing written; then the struct is as it was. */
static void refused(test_env *env, saved_pair *pair, const sattn_saved *kept, sattn_status expected, const char *argument,
                    const char *label) {
  sattn_queue queue = {NULL};
  sattn_error error;
  test_run *run = &pair->run[0];
  size_t bytes = 7 * 20 * sizeof(float);
  float *before = test_memory(bytes), *after = test_memory(bytes);
  const sattn_tensor *out = &run->backward.grad_query;
  if (sattn_buffer_read(out->buffer, (uint64_t)out->offset * 4, before, bytes, &error)) test_fail(env->suite, "%s", error.message);
  sattn_status status = sattn_backward(run->plan, &run->backward, queue, NULL, 0, NULL, &error);
  test_check_refusal(env, label, status, expected, &error, argument);
  if (sattn_queue_finish(env->context, queue, &error) || sattn_buffer_read(out->buffer, (uint64_t)out->offset * 4, after, bytes, &error))
    test_fail(env->suite, "%s", error.message);
  if (memcmp(before, after, bytes) != 0) test_fail(env->suite, "%s: dq was written", label);
  run->saved = *kept;
}

/* P-S11, P-D8: another plan's call, another permutation's, one that has no permutation, sizes of another call, arrays left out. */
static void wrong_saved(test_env *env) {
  saved_pair pair;
  if (!open_pair(env, &pair)) return;
  sattn_saved *saved = &pair.run[0].saved;
  const sattn_saved kept = *saved;
  *saved = pair.run[1].saved;
  refused(env, &pair, &kept, SATTN_MISMATCH, "plan_id", "the call of another window");
  saved->sizes.keys = 21;
  refused(env, &pair, &kept, SATTN_MISMATCH, "sizes", "a key more");
  saved->sizes.batch = 2;
  refused(env, &pair, &kept, SATTN_MISMATCH, "sizes", "a batch entry more");
  if (test_mode_uses_sa(env->mode)) {
    saved->permutation = pair.run[1].permutation;
    refused(env, &pair, &kept, SATTN_MISMATCH, "permutation_id", "another permutation");
    saved->permutation = NULL;
    refused(env, &pair, &kept, SATTN_MISMATCH, "permutation_id", "no permutation");
    saved->sizes.keys = saved->sizes.queries = 19;
    refused(env, &pair, &kept, SATTN_MISMATCH, "", "fewer tokens than the permutation has");
  } else {
    saved->permutation_id = 7;
    refused(env, &pair, &kept, SATTN_MISMATCH, "permutation_id", "a permutation in a mode without");
  }
  if (env->mode == SATTN_GATED) {
    saved->y_swa.buffer = NULL;
    refused(env, &pair, &kept, SATTN_INVALID_ARGUMENT, "y_swa", "no branch");
    saved->lse_sa.buffer = NULL;
    refused(env, &pair, &kept, SATTN_INVALID_ARGUMENT, "lse_sa", "no LSE of a branch");
  } else {
    saved->lse.buffer = NULL;
    refused(env, &pair, &kept, SATTN_INVALID_ARGUMENT, "lse", "no LSE");
  }
  if (env->mode == SATTN_MOBA) {
    saved->selected.buffer = NULL;
    refused(env, &pair, &kept, SATTN_INVALID_ARGUMENT, "selected", "no selection");
  }
  for (int i = 0; i < 2; ++i) test_run_close(&pair.run[i]);
}

/* ---- gate projections: G = X W^T + bias, dX = dG W, dW = dG^T X, dbias ---- */

enum { X_ROWS = 37, INPUTS = 20, LOGITS = 6, PARTS = 8 };

/* Row-major A [rows, inner] times B, or its transpose, summed over `inner`: one element. */
static double product(const float *a, int64_t a_row, int64_t a_step, const float *b, int64_t b_row, int64_t b_step, int64_t inner) {
  double sum = 0;
  for (int64_t k = 0; k < inner; ++k) sum += (double)a[a_row + k * a_step] * (double)b[b_row + k * b_step];
  return sum;
}

static void check_projection(test_env *env, const float *const part[PARTS]) {
  const float *x = part[0], *w = part[1], *bias = part[2], *dg = part[4], one[1] = {1};
  for (int64_t r = 0; r < X_ROWS; ++r) {
    for (int64_t o = 0; o < LOGITS; ++o) {
      double g = product(x, r * INPUTS, 1, w, o * INPUTS, 1, INPUTS) + (double)bias[o];
      if (!(fabs(g - (double)part[3][r * LOGITS + o]) <= 1e-5)) test_fail(env->suite, "logit %lld of row %lld", (long long)o, (long long)r);
    }
    for (int64_t c = 0; c < INPUTS; ++c) {
      double dx = product(dg, r * LOGITS, 1, w, c, INPUTS, LOGITS);
      if (!(fabs(dx - (double)part[5][r * INPUTS + c]) <= 1e-5)) test_fail(env->suite, "dX[%lld][%lld]", (long long)r, (long long)c);
    }
  }
  for (int64_t o = 0; o < LOGITS; ++o) {
    for (int64_t c = 0; c < INPUTS; ++c) {
      double dw = product(dg, o, LOGITS, x, c, INPUTS, X_ROWS);
      if (!(fabs(dw - (double)part[6][o * INPUTS + c]) <= 1e-4)) test_fail(env->suite, "dW[%lld][%lld]", (long long)o, (long long)c);
    }
    double db = product(dg, o, LOGITS, one, 0, 0, X_ROWS);
    if (!(fabs(db - (double)part[7][o]) <= 1e-4)) test_fail(env->suite, "dbias[%lld]", (long long)o);
  }
}

static void gate_projection(test_env *env) {
  static const size_t counts[PARTS] = {X_ROWS * INPUTS, LOGITS * INPUTS, LOGITS,          X_ROWS * LOGITS,
                                       X_ROWS * LOGITS, X_ROWS * INPUTS, LOGITS * INPUTS, LOGITS};
  sattn_gate_plan *plan = NULL;
  sattn_gate_options options;
  sattn_gate_args args;
  sattn_error error;
  sattn_queue queue = {NULL};
  sattn_buffer *buffer[PARTS] = {NULL};
  float *part[PARTS];
  sattn_gate_options_init(&options);
  options.max_rows = X_ROWS, options.inputs = INPUTS, options.outputs = LOGITS;
  sattn_status status = sattn_gate_plan_create(env->context, &options, &plan, &error);
  if (status) { /* a machine without the device's BLAS: then that is what it says */
    test_check_refusal(env, "no BLAS", status, SATTN_UNAVAILABLE, &error, "");
    return;
  }
  sattn_gate_args_init(&args);
  sattn_array *const arrays[PARTS] = {&args.input,       &args.weight,     &args.bias,        &args.logits,
                                      &args.grad_logits, &args.grad_input, &args.grad_weight, &args.grad_bias};
  args.rows = X_ROWS;
  for (int i = 0; i < PARTS && !status; ++i) {
    part[i] = test_memory(counts[i] * sizeof(float));
    for (size_t e = 0; e < counts[i]; ++e) part[i][e] = i < 3 || i == 4 ? (float)test_random_normal(&env->random) : (float)NAN;
    status = sattn_buffer_create(env->context, counts[i] * sizeof(float), &buffer[i], &error);
    if (!status) status = sattn_buffer_write(buffer[i], 0, part[i], counts[i] * sizeof(float), &error);
    arrays[i]->buffer = buffer[i];
  }
  uint64_t workspace = sattn_gate_plan_workspace(plan);
  if (!status && workspace) status = sattn_buffer_create(env->context, workspace, &args.workspace, &error);
  if (!status) status = sattn_gate_forward(plan, &args, queue, NULL, 0, NULL, &error);
  if (!status) status = sattn_gate_backward(plan, &args, queue, NULL, 0, NULL, &error);
  if (!status) status = sattn_queue_finish(env->context, queue, &error);
  for (int i = 0; i < PARTS && !status; ++i) status = sattn_buffer_read(buffer[i], 0, part[i], counts[i] * sizeof(float), &error);
  if (status) {
    test_fail(env->suite, "%s", error.message);
  } else {
    check_projection(env, (const float *const *)part);
  }
  for (int i = 0; i < PARTS; ++i) sattn_buffer_destroy(&buffer[i]);
  sattn_buffer_destroy(&args.workspace);
  sattn_gate_plan_destroy(&plan);
}

void cases_gradients_field(test_suite *suite) {
  test_case_run(suite, "gradients-one-token-gated", one_token_gated);
  test_case_modes(suite, "gradients-empty-rows", MODES_ALL, empty_rows);
  test_case_modes(suite, "gradients-small", MODES_ALL, small);
  test_case_modes(suite, "gradients-large-logits", MODES_ALL, large_logits);
  test_case_modes(suite, "gradients-garbage-keys", MODES_ALL, garbage_keys);
  test_case_modes(suite, "gradients-garbage-queries", MODES_ALL, garbage_queries);
  test_case_modes(suite, "gradients-thirty-runs", MODE(SATTN_STOCHASTIC) | MODE(SATTN_GATED), thirty_runs);
  test_case_modes(suite, "gradients-by-differences", MODES_ALL, by_differences);
  test_case_modes(suite, "gradients-more-queries", MODES_ALL, more_queries);
  test_case_modes(suite, "gradients-wrong-saved", MODES_ALL, wrong_saved);
  test_case_run(suite, "gate-projection", gate_projection);
}
