/* Every OpenCL call of a forward and a backward pass is made to fail in turn, from making the context to giving it back: a clear status,
 * nothing left, nothing written by a forward call that says it failed, and what comes next works. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "faults.h"
#include "wrapper.h"

/* Calls without which the work can be done: giving back, and asking what a device is like, which number it has, or whether a binary can be
 * had.
 */
static int can_do_without(const char *function) {
  static const char *const names[] = {"clRelease",
                                      "clGetDeviceInfo",
                                      "clGetPlatformInfo",
                                      "clCreateProgramWithBinary",
                                      "clBuildProgram",
                                      "clGetProgramInfo",
                                      "clGetKernelWorkGroupInfo",
                                      "clFinish",
                                      "clFlush",
                                      "clGetPlatformIDs",
                                      "clGetDeviceIDs"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (strncmp(function, names[i], strlen(names[i])) == 0) return 1;
  }
  return 0;
}

static int says_so(const char *function, sattn_status status, const sattn_error *error) {
  if (strstr(error->message, function)) return 1;
  /* A device of which nothing is known can do nothing, and the message says what it lacks. */
  if (strcmp(function, "clGetDeviceInfo") == 0 || strcmp(function, "clGetPlatformInfo") == 0) return 1;
  if (strcmp(function, "clGetDeviceIDs") == 0) return status == SATTN_UNAVAILABLE;
  if (strcmp(function, "clGetPlatformIDs") == 0) return status == SATTN_UNAVAILABLE;
  if (strcmp(function, "clBuildProgram") == 0) return status == SATTN_BUILD_FAILED;
  return 0;
}

static void judge(const test_call *call, const test_result *expected, const char *function, sattn_status status, const test_result *got,
                  const char *written, const sattn_error *error, const char *what) {
  if (written && strcmp(function, "clFlush") != 0) faults_fail("%s (%s): %s", what, function, written);
  /* Where flushing fails, the whole call is in the queue already. */
  if (written && strcmp(function, "clFlush") == 0) faults_same(call, expected, got, what);
  if (status == SATTN_OK) {
    if (!can_do_without(function)) faults_fail("%s: %s failed, and nobody said so", what, function);
    faults_same(call, expected, got, what);
    return;
  }
  if (error->status != status || !error->message[0]) faults_fail("%s (%s): no message", what, function);
  if (!says_so(function, status, error)) faults_fail("%s: %s failed, and the message does not say so: %s", what, function, error->message);
}

/* Returns the function that was made to fail, or NULL. */
static const char *run_failing(sattn_context *context, const char *device, const test_call *call, const test_result *expected, long n,
                               cl_int code, const char *what, long before) {
  test_result result;
  const char *written = NULL;
  sattn_error error;
  memset(&error, 0, sizeof error);
  sattn_wrapper_fail_at(n, code);
  sattn_status status = faults_run(context, device, call, &result, &written, &error);
  const char *function = sattn_wrapper_failed();
  sattn_wrapper_fail_at(0, 0);
  if (!function) {
    if (!context) faults_fail("%s: no call was made to fail", what);
    return NULL;
  }
  judge(call, expected, function, status, &result, written, &error, what);
  /* An object whose release failed counts as left. */
  long left = sattn_wrapper_alive() - before - (strncmp(function, "clRelease", 9) == 0);
  if (!context && left > 0) faults_fail("%s (%s): %ld driver objects are left (%s)", what, function, left, sattn_wrapper_alive_text());
  return function;
}

/* Waiting that fails means that the device failed: that sticks to a context, and it says so. */
static int is_spent(sattn_context *context) {
  test_call call;
  test_result result;
  const char *written;
  sattn_error error;
  faults_call(&call, SATTN_FULL, 8);
  return faults_run(context, NULL, &call, &result, &written, &error) == SATTN_DRIVER_ERROR &&
         strstr(error.message, "failed earlier") != NULL;
}

static void run_well(sattn_context *context, const char *device, const test_call *call, const test_result *expected, const char *what) {
  test_result result;
  const char *written = NULL;
  sattn_error error;
  if (faults_run(context, device, call, &result, &written, &error) || written) {
    faults_fail("after %s: %s", what, written ? written : error.message);
  } else {
    faults_same(call, expected, &result, what);
  }
}

/* From no context to no context. */
static void whole_life(const char *device, const test_call *call, const test_result *expected, cl_int code) {
  test_result result;
  const char *written = NULL;
  sattn_error error;
  sattn_wrapper_fail_at(0, 0);
  if (faults_run(NULL, device, call, &result, &written, &error)) faults_fail("without a fault: %s", error.message);
  long calls = sattn_wrapper_calls();
  if (calls < 30) faults_fail("only %ld driver calls", calls);
  for (long n = 1; n <= calls && faults_failures < 20; ++n) {
    char what[64];
    snprintf(what, sizeof what, "call %ld of %ld gives %d", n, calls, (int)code);
    long before = sattn_wrapper_alive();
    run_failing(NULL, device, call, expected, n, code, what, before);
    if (n % 16 == 0) run_well(NULL, device, call, expected, what);
  }
  printf("%s, %s: each of %ld driver calls failed with %d\n", sattn_mode_name(call->attention.mode),
         call->backward ? "backward" : "forward", calls, (int)code);
}

/* The context lives on, and the next call on it works, unless its device failed. */
static void same_context(const char *device, const test_call *call, const test_result *expected, cl_int code) {
  sattn_context *context = NULL;
  sattn_error error;
  test_result result;
  const char *written = NULL;
  if (sattn_context_create(device, NULL, &context, &error)) {
    faults_fail("no context: %s", error.message);
    return;
  }
  sattn_wrapper_fail_at(0, 0);
  if (faults_run(context, device, call, &result, &written, &error)) faults_fail("without a fault: %s", error.message);
  long calls = sattn_wrapper_calls();
  for (long n = 1; n <= calls && faults_failures < 20; ++n) {
    char what[64];
    snprintf(what, sizeof what, "call %ld of a context gives %d", n, (int)code);
    const char *function = run_failing(context, device, call, expected, n, code, what, 0);
    if (function && (strcmp(function, "clFinish") == 0 || strcmp(function, "clWaitForEvents") == 0) && is_spent(context)) {
      sattn_context_destroy(&context);
      if (sattn_context_create(device, NULL, &context, &error)) faults_fail("no new context after %s: %s", what, error.message);
    }
    run_well(context, device, call, expected, what);
  }
  sattn_context_destroy(&context);
  printf("%s: each of %ld calls of a context that lived on failed with %d\n", sattn_mode_name(call->attention.mode), calls, (int)code);
}

static void check(const char *device, sattn_mode mode, int64_t head_dim, int backward) {
  test_call call;
  test_result expected;
  const char *written = NULL;
  sattn_error error;
  test_random random = test_random_open(test_seed(), "gradients");
  faults_call(&call, mode, head_dim);
  if (backward) test_call_fill_gradients(&call, &random, 1);
  if (faults_run(NULL, device, &call, &expected, &written, &error) || written) {
    faults_fail("%s: %s", device, written ? written : error.message);
    return;
  }
  whole_life(device, &call, &expected, CL_OUT_OF_RESOURCES);
  same_context(device, &call, &expected, CL_OUT_OF_HOST_MEMORY);
  test_memory_release();
}

/* "all": the long form. */
int main(int argc, char **argv) {
  sattn_error error;
  int all = argc > 1 && strcmp(argv[1], "all") == 0;
  if (sattn_backend_probe(SATTN_BACKEND_OPENCL, &error)) {
    printf("%s\n", error.message);
    return 77;
  }
  if (sattn_wrapper_calls() == 0) {
    printf("FAILED: the library does not take the driver that the process has\n");
    return 1;
  }
  check("opencl:0", SATTN_GATED, 8, all);
  if (all) {
    check("opencl:0", SATTN_UNION, 64, 0);
    check("opencl:0", SATTN_MOBA, 8, 1);
    check("opencl:0", SATTN_STOCHASTIC, 64, 1);
  }
  return faults_report("driver failures");
}
