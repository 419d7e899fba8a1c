/* Each allocation of the library is made to fail in turn, in every object and both passes: SATTN_OUT_OF_MEMORY or a way without it, nothing
 * left, nothing written by a call that says it failed, and the next call works.
 *
 * The linker hands malloc, calloc, realloc, posix_memalign and free of the library to the functions below (--wrap); drivers and the C
 * library keep theirs, and so does the test.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
int __real_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __wrap_free(void *memory);

static long allocations;
static long fail_at; /* 0: none */
static long alive;

static int fails(void) {
  return ++allocations == fail_at;
}

void *__wrap_malloc(size_t bytes) {
  void *memory = fails() ? NULL : __real_malloc(bytes);
  alive += memory != NULL;
  return memory;
}

void *__wrap_calloc(size_t count, size_t bytes) {
  void *memory = fails() ? NULL : __real_calloc(count, bytes);
  alive += memory != NULL;
  return memory;
}

void *__wrap_realloc(void *memory, size_t bytes) {
  if (fails()) return NULL;
  alive += memory == NULL;
  return __real_realloc(memory, bytes);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes) {
  int code = fails() ? ENOMEM : __real_posix_memalign(memory, alignment, bytes);
  alive += code == 0;
  return code;
}

void __wrap_free(void *memory) {
  alive -= memory != NULL;
  __real_free(memory);
}

static void arm(long n) {
  allocations = 0;
  fail_at = n;
}

/* ---- memory of the test, in place of tests/support/memory.c ---- */

static void *pieces[4096];
static int piece_count;

void *test_memory(size_t bytes) {
  size_t rounded = (bytes / 4096 + 1) * 4096;
  void *memory = piece_count < 4096 ? aligned_alloc(4096, rounded) : NULL;
  if (!memory) exit(2);
  memset(memory, 0, rounded);
  pieces[piece_count++] = memory;
  return memory;
}

void test_memory_release(void) {
  while (piece_count) __real_free(pieces[--piece_count]);
}

/* ---- everything that allocates ---- */

static sattn_status attend(sattn_context *context, const test_call *call, const test_result *expected, const char *what,
                           sattn_error *error) {
  test_result result;
  const char *written = NULL;
  sattn_status status = faults_run(context, NULL, call, &result, &written, error);
  if (written) faults_fail("%s: %s", what, written);
  if (!status && expected) faults_same(call, expected, &result, what);
  return status;
}

static sattn_status attend_host(sattn_context *context, const test_call *call, const test_result *expected, const char *what,
                                sattn_error *error) {
  test_result result;
  sattn_status status = test_run_host(context, call, &result, error);
  if (!status) {
    if (expected) faults_same(call, expected, &result, what);
    return status;
  }
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (!result.output[o]) continue;
    size_t count = test_shape_count(test_output_shape(call, (test_output)o));
    for (size_t i = 0; i < count; ++i) {
      if (result.output[o][i] == result.output[o][i]) {
        faults_fail("%s: the one-call form failed and wrote %s", what, test_output_name((test_output)o));
        return status;
      }
    }
  }
  return status;
}

static sattn_status make_small_objects(sattn_context *context, sattn_error *error) {
  sattn_permutation_options options;
  sattn_permutation *permutation = NULL;
  sattn_gate_options gate_options;
  sattn_gate_plan *gate = NULL;
  sattn_permutation_key key = {1, 2, 3, 4};
  uint32_t order[9];
  static const uint32_t own[4] = {2, 0, 3, 1};
  sattn_permutation_options_init(&options);
  options.length = 4;
  options.order = own;
  sattn_status status = sattn_permutation_draw(9, &key, order, NULL, error);
  if (!status) status = sattn_permutation_create(context, &options, &permutation, error);
  if (!status) status = sattn_permutation_redraw(permutation, &key, error);
  if (!status) status = sattn_rows_prepare(context, error);
  if (!status) {
    sattn_gate_options_init(&gate_options);
    gate_options.max_rows = gate_options.inputs = gate_options.outputs = 3;
    status = sattn_gate_plan_create(context, &gate_options, &gate, error);
    /* No library for matrix products: not what is asked here. */
    if (status == SATTN_UNAVAILABLE) status = SATTN_OK;
  }
  sattn_gate_plan_destroy(&gate);
  sattn_permutation_destroy(&permutation);
  return status;
}

typedef struct expectation {
  test_result forward, both, host;
} expectation;

/* A whole life; `expected` is NULL for the first, which fills *found. */
static sattn_status live(const char *device, const test_call *forward, const test_call *both, const expectation *expected, const char *what,
                         sattn_error *error) {
  sattn_context *context = NULL;
  sattn_status status = sattn_context_create(device, NULL, &context, error);
  if (status) return status;
  status = attend(context, forward, expected ? &expected->forward : NULL, what, error);
  if (!status) status = attend(context, both, expected ? &expected->both : NULL, what, error);
  if (!status) status = attend_host(context, both, expected ? &expected->host : NULL, what, error);
  if (!status) status = make_small_objects(context, error);
  sattn_context_destroy(&context);
  return status;
}

static void expect(const char *device, const test_call *forward, const test_call *both, expectation *found) {
  sattn_context *context = NULL;
  sattn_error error;
  const char *written = NULL;
  if (sattn_context_create(device, NULL, &context, &error) || faults_run(context, NULL, forward, &found->forward, &written, &error) ||
      faults_run(context, NULL, both, &found->both, &written, &error) || test_run_host(context, both, &found->host, &error))
    faults_fail("%s: %s", device, error.message);
  sattn_context_destroy(&context);
}

static void check(const char *device, sattn_mode mode, int64_t head_dim) {
  test_call forward, both;
  expectation expected;
  sattn_error error;
  test_random random = test_random_open(test_seed(), "gradients");
  faults_call(&forward, mode, head_dim);
  both = forward;
  test_call_fill_gradients(&both, &random, 1);
  arm(0);
  expect(device, &forward, &both, &expected);
  long before = alive;
  arm(0);
  if (live(device, &forward, &both, &expected, "without a fault", &error)) faults_fail("without a fault: %s", error.message);
  long count = allocations;
  if (alive != before) faults_fail("%s: %ld allocations are left by calls that went well", device, alive - before);
  int refused = 0;
  for (long n = 1; n <= count && faults_failures < 20; ++n) {
    char what[96];
    int mark = piece_count;
    snprintf(what, sizeof what, "%s, %s: allocation %ld of %ld fails", device, sattn_mode_name(mode), n, count);
    before = alive;
    memset(&error, 0, sizeof error);
    arm(n);
    sattn_status status = live(device, &forward, &both, &expected, what, &error);
    arm(0);
    if (status && status != SATTN_OUT_OF_MEMORY) faults_fail("%s: %s: %s", what, sattn_status_name(status), error.message);
    if (status && !error.message[0]) faults_fail("%s: no message", what);
    if (alive != before) faults_fail("%s: %ld allocations are left", what, alive - before);
    refused += status != SATTN_OK;
    if (n % 4 == 0 && live(device, &forward, &both, &expected, what, &error)) faults_fail("after %s: %s", what, error.message);
    while (piece_count > mark) __real_free(pieces[--piece_count]);
  }
  printf("%s, %s: %ld allocations, %d of them end the call\n", device, sattn_mode_name(mode), count, refused);
  test_memory_release();
}

/* P-F10: with the caller's workspace, executing calls no allocator. */
static void execute_allocates_nothing(const char *device, sattn_mode mode, int64_t head_dim) {
  test_call call;
  test_run run;
  sattn_context *context = NULL;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_random random = test_random_open(test_seed(), "gradients");
  faults_call(&call, mode, head_dim);
  test_call_fill_gradients(&call, &random, 1);
  if (sattn_context_create(device, NULL, &context, &error) || test_run_open(context, &call, NULL, &run, &error)) {
    faults_fail("%s: %s", device, error.message);
    sattn_context_destroy(&context);
    return;
  }
  if (test_run_send(&run, &error)) faults_fail("%s: %s", device, error.message);
  arm(0);
  for (int i = 0; i < 3; ++i) {
    if (test_run_enqueue(&run, queue, NULL, 0, NULL, &error)) faults_fail("%s: %s", device, error.message);
  }
  if (allocations) faults_fail("%s, %s: %ld allocations while executing", device, sattn_mode_name(mode), allocations);
  if (sattn_queue_finish(context, queue, &error)) faults_fail("%s: %s", device, error.message);
  test_run_close(&run);
  sattn_context_destroy(&context);
  test_memory_release();
}

/* "all": the long form. */
int main(int argc, char **argv) {
  sattn_error error;
  int all = argc > 1 && strcmp(argv[1], "all") == 0;
  check("reference", SATTN_GATED, 8);
  check("reference", SATTN_MOBA, 8);
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) execute_allocates_nothing("reference", (sattn_mode)mode, 8);
  if (sattn_backend_probe(SATTN_BACKEND_OPENCL, &error) == SATTN_OK) {
    check("opencl", SATTN_GATED, 8);
    for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) execute_allocates_nothing("opencl", (sattn_mode)mode, 8);
    if (all) execute_allocates_nothing("opencl", SATTN_STOCHASTIC, 64);
    if (all) check("opencl", SATTN_STOCHASTIC, 64);
    if (all) check("opencl", SATTN_MOBA, 8);
  } else {
    printf("no OpenCL: %s\n", error.message);
  }
  return faults_report("allocation failures");
}
