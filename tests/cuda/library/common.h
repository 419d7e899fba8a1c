/* The library on the stub driver: what its programs share. Public headers, the test support and the stub's own questions. */
#ifndef SATTN_TEST_CUDA_LIBRARY_H
#define SATTN_TEST_CUDA_LIBRARY_H

#include <stdio.h>
#include <string.h>

#include <sattn/cuda.h>
#include <sattn/sattn.h>

#include "memory.h"
#include "run.h"
#include "stub.h"

/* Failures so far; a program returns report(). */
extern int failures;

void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define CHECK(condition, ...) ((condition) ? (void)0 : fail(__FILE__, __LINE__, __VA_ARGS__))
/* The status must be SATTN_OK; `error` is in scope. */
#define OK(expression) CHECK((expression) == SATTN_OK, "%s: %s", #expression, error.message)
#define DRIVER_OK(expression)                                                                \
  do {                                                                                       \
    CUresult code_ = (expression);                                                           \
    CHECK(code_ == CUDA_SUCCESS, "%s gave %d: %s", #expression, code_, sattn_stub_report()); \
  } while (0)

/* Prints the verdict; the exit status. */
int report(const char *program);

/* A forward and backward call that has every kind of array of its mode; at most 2 batch entries, of which the first has 4 tokens. */
void small_call(test_call *call, sattn_mode mode, sattn_dtype dtype, int64_t batch, int64_t tokens, int64_t head_dim);

/* The call on a context; reading its results is a part of it. */
sattn_status run_on(sattn_context *context, const test_call *call, test_result *out_result, const char **out_fault, sattn_error *error);
/* A context, the call, no context. */
sattn_status run_alone(const char *device, const test_call *call, test_result *out_result, const char **out_fault, sattn_error *error);

/* Whether every output has the same bits; complains if not. */
int same_bits(const test_call *call, const test_result *expected, const test_result *got, const char *what);

/* Complains about what the driver still holds, or about calls that a driver forbids. */
void nothing_left(const char *what);

#endif
