/* gather_rows, scatter_rows, merge, and SA on top of them. */
#include <math.h>

#include "conformance.h"

typedef struct rows_case {
  sattn_dtype dtype;
  sattn_sharing sharing;
  int64_t batch, tokens, heads, head_dim;
} rows_case;

static sattn_tensor tensor_of(const test_guard *guard, sattn_dtype dtype) {
  sattn_tensor tensor = {guard->buffer, (int64_t)(TEST_GUARD_MARGIN / sattn_dtype_size(dtype)), 0, 0, 0};
  return tensor;
}

static sattn_status open_pair(test_env *env, const rows_case *c, const float *values, test_guard guard[3], sattn_error *error) {
  size_t count = (size_t)(c->batch * c->tokens * c->heads * c->head_dim);
  size_t bytes = count * sattn_dtype_size(c->dtype);
  sattn_status status = SATTN_OK;
  for (int i = 0; i < 3 && !status; ++i) {
    status = test_guard_open(env->context, bytes, 0, &guard[i], error);
    if (!status && i == 0) test_store(c->dtype, values, count, guard[i].image + TEST_GUARD_MARGIN);
    if (!status) status = test_guard_send(&guard[i], error);
  }
  return status;
}

static void check_gathered(test_env *env, const rows_case *c, const sattn_permutation *permutation, const test_guard *source,
                           const test_guard *target) {
  size_t width = (size_t)c->head_dim * sattn_dtype_size(c->dtype);
  int per_batch = c->sharing == SATTN_PER_BATCH || c->sharing == SATTN_PER_BATCH_AND_HEAD;
  int per_head = c->sharing == SATTN_PER_HEAD || c->sharing == SATTN_PER_BATCH_AND_HEAD;
  for (int64_t row = 0; row < c->batch * c->tokens * c->heads; ++row) {
    int64_t h = row % c->heads;
    int64_t s = row / c->heads % c->tokens;
    int64_t b = row / c->heads / c->tokens;
    const uint32_t *order = sattn_permutation_order(permutation, (per_batch ? b : 0) * (per_head ? c->heads : 1) + (per_head ? h : 0));
    int64_t from = (b * c->tokens + order[s]) * c->heads + h;
    if (memcmp(target->now + TEST_GUARD_MARGIN + (size_t)row * width, source->image + TEST_GUARD_MARGIN + (size_t)from * width, width) == 0)
      continue;
    test_fail(env->suite, "batch %lld, slot %lld, head %lld: wrong row", (long long)b, (long long)s, (long long)h);
    return;
  }
}

static void move_and_compare(test_env *env, const rows_case *c, test_guard guard[3], sattn_permutation *permutation) {
  sattn_rows_args args;
  sattn_error error;
  sattn_queue queue = {NULL};
  sattn_rows_args_init(&args);
  args.dtype = c->dtype;
  args.batch = c->batch;
  args.tokens = c->tokens;
  args.heads = c->heads;
  args.head_dim = c->head_dim;
  args.permutation = permutation;
  args.source = tensor_of(&guard[0], c->dtype);
  args.target = tensor_of(&guard[1], c->dtype);
  sattn_status status = sattn_gather_rows(env->context, &args, queue, NULL, 0, NULL, &error);
  args.source = args.target;
  args.target = tensor_of(&guard[2], c->dtype);
  if (!status) status = sattn_scatter_rows(env->context, &args, queue, NULL, 0, NULL, &error);
  if (!status) status = sattn_queue_finish(env->context, queue, &error);
  for (int i = 0; i < 3 && !status; ++i) status = test_guard_fetch(&guard[i], &error);
  if (status) {
    test_fail(env->suite, "%s: %s", sattn_status_name(status), error.message);
    return;
  }
  check_gathered(env, c, permutation, &guard[0], &guard[1]);
  /* There and back again, margins included. */
  if (memcmp(guard[2].now, guard[0].image, guard[0].bytes) != 0) test_fail(env->suite, "scatter does not undo gather");
  if (memcmp(guard[1].now, guard[1].image, TEST_GUARD_MARGIN) != 0 ||
      memcmp(guard[1].now + guard[1].bytes - TEST_GUARD_MARGIN, guard[1].image, TEST_GUARD_MARGIN) != 0)
    test_fail(env->suite, "gather wrote beyond its target");
}

static void check_rows(test_env *env, const rows_case *c) {
  test_guard guard[3] = {{NULL, NULL, NULL, 0, 0}};
  sattn_permutation_options options;
  sattn_permutation *permutation = NULL;
  sattn_error error;
  float *values = test_random_array(&env->random, c->dtype, (size_t)(c->batch * c->tokens * c->heads * c->head_dim), 1.0);
  sattn_permutation_options_init(&options);
  options.length = c->tokens;
  options.sharing = c->sharing;
  options.batch = c->batch;
  options.kv_heads = c->heads;
  options.key.seed = 5;
  if (sattn_permutation_create(env->context, &options, &permutation, &error) || open_pair(env, c, values, guard, &error)) {
    test_fail(env->suite, "%s", error.message);
  } else {
    move_and_compare(env, c, guard, permutation);
  }
  for (int i = 0; i < 3; ++i) test_guard_close(&guard[i]);
  sattn_permutation_destroy(&permutation);
}

static void gather_and_scatter(test_env *env) {
  static const rows_case tried[] = {{SATTN_FP32, SATTN_SHARED, 2, 37, 3, 64},
                                    {SATTN_FP16, SATTN_PER_HEAD, 2, 37, 3, 59},
                                    {SATTN_BF16, SATTN_PER_BATCH, 3, 130, 1, 5},
                                    {SATTN_FP32, SATTN_PER_BATCH_AND_HEAD, 2, 9, 2, 1},
                                    {SATTN_FP32, SATTN_SHARED, 1, 1, 1, 256}};
  sattn_error error;
  if (sattn_rows_prepare(env->context, &error)) {
    test_fail(env->suite, "%s: %s", sattn_status_name(error.status), error.message);
    return;
  }
  for (size_t i = 0; i < sizeof tried / sizeof tried[0]; ++i) check_rows(env, &tried[i]);
}

/* ---- merge ---- */

enum { OUT_A, LSE_A, OUT_B, LSE_B, OUT, LSE, PARTS };

static void fill_part(const float *values, size_t count, sattn_dtype dtype, test_guard *guard) {
  if (values) test_store(dtype, values, count, guard->image + TEST_GUARD_MARGIN);
}

/* in[]: two results; expected: the joint one. */
static void run_merge(test_env *env, const test_call *call, const float *const in[4], const double *expected_out,
                      const double *expected_lse, double tolerance, const char *label) {
  test_guard guard[PARTS] = {{NULL, NULL, NULL, 0, 0}};
  sattn_merge_args args;
  sattn_error error;
  sattn_queue queue = {NULL};
  sattn_dtype dtype = call->attention.dtype;
  test_shape out_shape = test_output_shape(call, TEST_OUT);
  test_shape lse_shape = test_output_shape(call, TEST_LSE);
  size_t rows = test_shape_count(lse_shape);
  size_t count = test_shape_count(out_shape);
  sattn_status status = SATTN_OK;
  for (int i = 0; i < PARTS && !status; ++i) {
    int is_lse = i % 2;
    status = test_guard_open(env->context, is_lse ? rows * sizeof(float) : count * sattn_dtype_size(dtype), 0, &guard[i], &error);
    if (status) break;
    if (i < OUT) fill_part(in[i], is_lse ? rows : count, is_lse ? SATTN_FP32 : dtype, &guard[i]);
    status = test_guard_send(&guard[i], &error);
  }
  sattn_merge_args_init(&args);
  args.dtype = dtype;
  args.batch = call->sizes.batch;
  args.queries = call->sizes.queries;
  args.heads = call->attention.heads;
  args.head_dim = call->attention.head_dim;
  args.out_a = tensor_of(&guard[OUT_A], dtype);
  args.out_b = tensor_of(&guard[OUT_B], dtype);
  args.out = tensor_of(&guard[OUT], dtype);
  args.lse_a = (sattn_array){guard[LSE_A].buffer, TEST_GUARD_MARGIN / 4};
  args.lse_b = (sattn_array){guard[LSE_B].buffer, TEST_GUARD_MARGIN / 4};
  args.lse = (sattn_array){guard[LSE].buffer, TEST_GUARD_MARGIN / 4};
  if (!status) status = sattn_merge(env->context, &args, queue, NULL, 0, NULL, &error);
  if (!status) status = sattn_queue_finish(env->context, queue, &error);
  for (int i = 0; i < PARTS && !status; ++i) status = test_guard_fetch(&guard[i], &error);
  if (status) {
    test_fail(env->suite, "%s: %s: %s", label, sattn_status_name(status), error.message);
  } else {
    float *got = test_memory(count * sizeof *got);
    float *got_lse = test_memory(rows * sizeof *got_lse);
    test_difference difference;
    test_load(dtype, guard[OUT].now + TEST_GUARD_MARGIN, count, got);
    test_load(SATTN_FP32, guard[LSE].now + TEST_GUARD_MARGIN, rows, got_lse);
    if (test_compare("out", out_shape, expected_out, got, tolerance, &difference))
      test_fail(env->suite, "%s: %s", label, difference.report);
    if (test_compare("lse", lse_shape, expected_lse, got_lse, 1e-5, &difference)) test_fail(env->suite, "%s: %s", label, difference.report);
  }
  for (int i = 0; i < PARTS; ++i) test_guard_close(&guard[i]);
}

static float *narrowed(const double *values, size_t count, sattn_dtype dtype) {
  float *narrow = test_memory(count * sizeof *narrow);
  for (size_t i = 0; i < count; ++i) narrow[i] = (float)test_round(dtype, values[i]);
  return narrow;
}

/* Attention to the first and to the last keys, merged, is attention to all: and a part without keys adds nothing, whatever it holds. */
static void merge(test_env *env) {
  for (int dtype = SATTN_FP32; dtype <= SATTN_BF16; ++dtype) {
    test_call all;
    test_oracle_result of[3];
    const int64_t split = 11;
    test_call_init(&all, SATTN_FULL, 1, 5, 30, 2, 1, 64);
    all.attention.causal = 0;
    all.attention.dtype = (sattn_dtype)dtype;
    test_call_fill(&all, &env->random, 1.0);
    test_call part[2] = {all, all};
    part[0].sizes.keys = split;
    part[1].sizes.keys = 30 - split;
    part[1].input[TEST_KEY] += split * 64;
    part[1].input[TEST_VALUE] += split * 64;
    test_oracle(&all, TEST_EXACT, &of[2]);
    size_t count = test_shape_count(test_output_shape(&all, TEST_OUT));
    size_t rows = test_shape_count(test_output_shape(&all, TEST_LSE));
    const float *in[4];
    for (int i = 0; i < 2; ++i) {
      test_oracle(&part[i], TEST_EXACT, &of[i]);
      in[2 * i] = narrowed(of[i].output[TEST_OUT], count, (sattn_dtype)dtype);
      in[2 * i + 1] = narrowed(of[i].output[TEST_LSE], rows, SATTN_FP32);
    }
    double tolerance = 1e-5 + 4 * test_epsilon((sattn_dtype)dtype) * 2;
    run_merge(env, &all, in, of[2].output[TEST_OUT], of[2].output[TEST_LSE], tolerance, sattn_dtype_name((sattn_dtype)dtype));
    float *nothing = test_memory(rows * sizeof *nothing);
    float *garbage = test_memory(count * sizeof *garbage);
    double *zero = test_memory(count * sizeof *zero);
    double *empty = test_memory(rows * sizeof *empty);
    for (size_t i = 0; i < rows; ++i) empty[i] = nothing[i] = -(float)INFINITY;
    for (size_t i = 0; i < count; ++i) garbage[i] = (float)NAN;
    const float *const with_nothing[4] = {in[0], in[1], garbage, nothing};
    const float *const nothing_first[4] = {garbage, nothing, in[0], in[1]};
    const float *const both_nothing[4] = {garbage, nothing, garbage, nothing};
    run_merge(env, &all, with_nothing, of[0].output[TEST_OUT], of[0].output[TEST_LSE], tolerance, "b without keys");
    run_merge(env, &all, nothing_first, of[0].output[TEST_OUT], of[0].output[TEST_LSE], tolerance, "a without keys");
    run_merge(env, &all, both_nothing, zero, empty, 0, "both without keys");
  }
}

void cases_rows(test_suite *suite) {
  test_case_run(suite, "gather-and-scatter", gather_and_scatter);
  test_case_run(suite, "merge", merge);
}
