/* P-H8: rows so far apart that element numbers pass 2^31 and byte numbers 2^32, as they do in arrays of ordinary rows that nobody would
 * fill in a test. All arrays lie as slices of one allocation of which only their few rows are ever touched. */
#include <stdlib.h>

#include "conformance.h"

enum { TOKENS = 3, HEADS = 2, WIDTH = 64, SLICE = 1024, SLICES = 8, LEAST_STRIDE = 1 << 20 };

typedef struct far_arrays {
  unsigned char *memory;
  sattn_buffer *buffer;
  int64_t stride; /* elements from one token to the next */
} far_arrays;

/* As far apart as device and host allow, up to what makes the last row begin beyond 2^31. */
static int open_far(test_env *env, far_arrays *far) {
  const uint64_t most = sattn_context_device(env->context)->max_allocation_bytes;
  for (far->stride = ((int64_t)1 << 30) + LEAST_STRIDE; far->stride >= LEAST_STRIDE; far->stride /= 2) {
    const uint64_t bytes = ((uint64_t)(TOKENS - 1) * (uint64_t)far->stride + SLICE * SLICES) * sizeof(uint16_t);
    sattn_error error;
    void *memory = NULL;
    if (bytes > most || posix_memalign(&memory, 4096, (size_t)bytes) != 0) continue;
    far->memory = memory;
    if (sattn_buffer_wrap_host(env->context, memory, bytes, &far->buffer, &error) == SATTN_OK) return 1;
    free(memory);
  }
  test_fail(env->suite, "no memory to be had, not even of %d rows", LEAST_STRIDE);
  return 0;
}

static void close_far(far_arrays *far) {
  sattn_buffer_destroy(&far->buffer);
  free(far->memory);
}

static sattn_tensor slice(const far_arrays *far, int number) {
  sattn_tensor tensor = {far->buffer, number * SLICE, 0, far->stride, WIDTH};
  return tensor;
}

/* Row `token` of a slice: all its heads. */
static unsigned char *row_of(const far_arrays *far, int number, int64_t token) {
  return far->memory + (size_t)(number * SLICE + token * far->stride) * sizeof(uint16_t);
}

static void fill(const far_arrays *far, int number, sattn_dtype dtype, const float *values, int heads) {
  const size_t count = (size_t)heads * WIDTH;
  for (int64_t token = 0; token < TOKENS; ++token) test_store(dtype, values + (size_t)token * count, count, row_of(far, number, token));
}

static void compare(test_env *env, const far_arrays *far, int number, const test_call *call, test_output output, const float *expected) {
  test_shape shape = test_output_shape(call, output);
  test_difference difference;
  float *got = test_memory(test_shape_count(shape) * sizeof *got);
  const size_t count = (size_t)(shape.size[2] * shape.size[3]);
  for (int64_t token = 0; token < TOKENS; ++token)
    test_load(call->attention.dtype, row_of(far, number, token), count, got + (size_t)token * count);
  if (test_compare_bits(test_output_name(output), shape, expected, got, &difference))
    test_fail(env->suite, "tokens %lld elements apart: %s", (long long)far->stride, difference.report);
}

/* Numbers of the slices. */
enum { QUERY, KEY, VALUE, GRAD_OUT, OUT, GRAD_QUERY, GRAD_KEY, GRAD_VALUE };

static void move_arguments(test_run *run, const far_arrays *far) {
  run->forward.query = run->backward.query = slice(far, QUERY);
  run->forward.key = run->backward.key = slice(far, KEY);
  run->forward.value = run->backward.value = slice(far, VALUE);
  run->forward.out = slice(far, OUT);
  run->backward.grad_out = slice(far, GRAD_OUT);
  run->backward.grad_query = slice(far, GRAD_QUERY);
  run->backward.grad_key = slice(far, GRAD_KEY);
  run->backward.grad_value = slice(far, GRAD_VALUE);
}

static void run_far(test_env *env, const test_call *call, const test_result *expected) {
  const sattn_dtype dtype = call->attention.dtype;
  far_arrays far = {NULL, NULL, 0};
  test_run run;
  sattn_error error;
  sattn_queue queue = {NULL};
  if (test_run_open(env->context, call, NULL, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  if (open_far(env, &far)) {
    fill(&far, QUERY, dtype, call->input[TEST_QUERY], HEADS);
    fill(&far, KEY, dtype, call->input[TEST_KEY], 1);
    fill(&far, VALUE, dtype, call->input[TEST_VALUE], 1);
    fill(&far, GRAD_OUT, dtype, call->input[TEST_GRAD_OUT], HEADS);
    move_arguments(&run, &far);
    if (test_run_send(&run, &error) || test_run_enqueue(&run, queue, NULL, 0, NULL, &error) ||
        sattn_queue_finish(env->context, queue, &error)) {
      test_fail(env->suite, "%s", error.message);
    } else {
      compare(env, &far, OUT, call, TEST_OUT, expected->output[TEST_OUT]);
      compare(env, &far, GRAD_QUERY, call, TEST_GRAD_QUERY, expected->output[TEST_GRAD_QUERY]);
      compare(env, &far, GRAD_KEY, call, TEST_GRAD_KEY, expected->output[TEST_GRAD_KEY]);
      compare(env, &far, GRAD_VALUE, call, TEST_GRAD_VALUE, expected->output[TEST_GRAD_VALUE]);
    }
    close_far(&far);
  }
  test_run_close(&run);
}

/* Plans for few queries and for more, which may take different kernels. */
static void far_apart(test_env *env) {
  if (!sattn_context_device(env->context)->shares_host_memory) return;
  for (int64_t most = TOKENS; most <= 64; most += 64 - TOKENS) {
    test_call call;
    test_result expected;
    test_call_init(&call, env->mode, 1, TOKENS, TOKENS, HEADS, 1, WIDTH);
    call.attention.dtype = test_case_dtype(env, 1);
    call.maxima = (sattn_sizes){1, most, most};
    if (test_mode_uses_sa(env->mode)) call.attention.window_sa = sattn_window_width(TOKENS);
    if (test_mode_uses_swa(env->mode)) call.attention.window_swa = sattn_window_width(TOKENS);
    test_call_fill(&call, &env->random, 1.0);
    test_call_fill_gradients(&call, &env->random, 0);
    if (test_call_ok(env, &call, "packed", &expected)) run_far(env, &call, &expected);
  }
}

void cases_far(test_suite *suite) {
  test_case_modes(suite, "far-apart", MODES_ALL, far_apart);
}
