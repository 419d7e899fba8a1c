/* Every driver call of a forward and a backward pass is made to fail in turn, from making the context to giving it back: the status must
 * say so (or the call was only giving something back, and the result is right), nothing may be left, and what comes next must work.
 */
#include "common.h"

/* Calls that give something back: the work is done when they fail. */
static int is_release(const char *function) {
  static const char *const releases[] = {
      "cuMemFree",        "cuEventDestroy", "cuStreamDestroy", "cuModuleUnload", "cuDevicePrimaryCtxRelease",
      "cuCtxPushCurrent", "cuCtxPopCurrent"};
  for (size_t i = 0; i < sizeof releases / sizeof releases[0]; ++i) {
    if (strncmp(function, releases[i], strlen(releases[i])) == 0) return 1;
  }
  return 0;
}

/* Which call was made to fail ("" for none); from now on none is. */
static const char *disarm(void) {
  static char name[64];
  sattn_stub_stats stats;
  sattn_stub_get_stats(&stats);
  snprintf(name, sizeof name, "%s", stats.failed_function ? stats.failed_function : "");
  sattn_stub_fail_at(0, 0);
  return name;
}

/* The message names the function, or what is better to know: how much memory was asked for. Counting devices has no status: a driver that
 * does not answer has none. */
static int says_so(const char *function, sattn_status status, const sattn_error *error) {
  char bare[64];
  snprintf(bare, sizeof bare, "%.*s", (int)strcspn(function, "_"), function);
  if (status == SATTN_OUT_OF_MEMORY && strcmp(bare, "cuMemAlloc") == 0) return strstr(error->message, "bytes needed") != NULL;
  return strstr(error->message, bare) || strstr(error->message, "has 0 device(s)");
}

static void judge(const test_call *call, const test_result *expected, const char *function, sattn_status status, const test_result *got,
                  const char *fault, const sattn_error *error, const char *what) {
  CHECK(!fault, "%s: %s", what, fault);
  if (status == SATTN_OK) {
    CHECK(is_release(function), "%s: %s failed, and nobody said so", what, function);
    same_bits(call, expected, got, what);
    return;
  }
  CHECK(error->status == status && error->message[0], "%s: no message", what);
  CHECK(says_so(function, status, error), "%s: %s failed, and the message does not say so: %s", what, function, error->message);
}

/* From no context to no context; a failure at call n. */
static void whole_life(const test_call *call, const test_result *expected, int code) {
  sattn_stub_stats stats;
  test_result result;
  const char *fault = NULL;
  sattn_error error;
  sattn_stub_reset();
  OK(run_alone("cuda:0", call, &result, &fault, &error));
  sattn_stub_get_stats(&stats);
  long calls = stats.calls;
  CHECK(calls > 30, "only %ld driver calls", calls);
  for (long n = 1; n <= calls && failures < 20; ++n) {
    char what[64];
    snprintf(what, sizeof what, "call %ld of %ld gives %d", n, calls, code);
    sattn_stub_reset();
    sattn_stub_fail_at(n, code);
    fault = NULL;
    memset(&result, 0, sizeof result);
    sattn_status status = run_alone("cuda:0", call, &result, &fault, &error);
    const char *function = disarm();
    CHECK(function[0], "%s: no call was made to fail", what);
    judge(call, expected, function, status, &result, fault, &error, what);
    nothing_left(what);
    CHECK(sattn_stub_context_depth() == 0, "%s: %d contexts stay pushed", what, sattn_stub_context_depth());
    fault = NULL;
    if (run_alone("cuda:0", call, &result, &fault, &error) || fault) {
      fail(__FILE__, __LINE__, "after %s: %s", what, fault ? fault : error.message);
    } else {
      same_bits(call, expected, &result, what);
    }
  }
  printf("%s: each of %ld driver calls failed with %d\n", sattn_mode_name(call->attention.mode), calls, code);
}

/* The context lives on: the next call on it works, or says that the device failed. */
static void same_context(const test_call *call, const test_result *expected, int code) {
  long n = 1;
  for (;; ++n) {
    char what[64];
    sattn_error error;
    sattn_context *context = NULL;
    test_result result;
    const char *fault = NULL;
    snprintf(what, sizeof what, "call %ld of a context gives %d", n, code);
    sattn_stub_reset();
    OK(sattn_context_create("cuda:0", NULL, &context, &error));
    sattn_stub_fail_at(n, code);
    sattn_status status = run_on(context, call, &result, &fault, &error);
    const char *function = disarm();
    int failed = function[0] != 0;
    if (failed) judge(call, expected, function, status, &result, fault, &error, what);
    fault = NULL;
    sattn_status next = run_on(context, call, &result, &fault, &error);
    if (next == SATTN_OK) {
      CHECK(!fault, "after %s: %s", what, fault);
      same_bits(call, expected, &result, what);
    } else {
      CHECK(failed && next == SATTN_DRIVER_ERROR && strstr(error.message, "failed earlier"), "after %s: %s", what, error.message);
    }
    sattn_context_destroy(&context);
    nothing_left(what);
    if (!failed || failures >= 20) break;
  }
  printf("%s: %ld calls failed in a context that lived on\n", sattn_mode_name(call->attention.mode), n - 1);
}

/* A kernel that fails while it runs is noticed by the next wait, and for ever. */
static void kernels_fail(const test_call *call) {
  sattn_error error;
  sattn_stub_stats stats;
  test_result result;
  const char *fault = NULL;
  sattn_stub_reset();
  OK(run_alone("cuda:0", call, &result, &fault, &error));
  sattn_stub_get_stats(&stats);
  for (long n = 1; n <= (long)stats.launches; ++n) {
    sattn_context *context = NULL;
    OK(sattn_context_create("cuda:0", NULL, &context, &error));
    sattn_stub_fail_kernel(n, 719);
    sattn_status status = run_on(context, call, &result, &fault, &error);
    CHECK(status == SATTN_DRIVER_ERROR && strstr(error.message, "719"), "kernel %ld failed: status %d, %s", n, status, error.message);
    status = run_on(context, call, &result, &fault, &error);
    CHECK(status == SATTN_DRIVER_ERROR, "after kernel %ld failed: status %d", n, status);
    sattn_context_destroy(&context);
    sattn_stub_fail_kernel(0, 0);
    nothing_left("a failed kernel");
    OK(run_alone("cuda:0", call, &result, &fault, &error));
  }
  printf("%s: each of %llu kernels failed\n", sattn_mode_name(call->attention.mode), stats.launches);
}

/* Before anything else, because the driver is initialised once. */
static void init_fails(const test_call *call) {
  sattn_error error;
  test_result result;
  const char *fault = NULL;
  sattn_stub_fail_name("cuInit", 0, 100);
  sattn_status status = run_alone("cuda:0", call, &result, &fault, &error);
  CHECK(status == SATTN_UNAVAILABLE && strstr(error.message, "cuInit"), "cuInit fails: status %d, %s", status, error.message);
  sattn_stub_fail_name(NULL, 0, 0);
}

int main(void) {
  static const sattn_mode modes[] = {SATTN_GATED, SATTN_MOBA};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; ++i) {
    test_call call;
    test_result expected;
    const char *fault = NULL;
    sattn_error error;
    small_call(&call, modes[i], i ? SATTN_FP16 : SATTN_FP32, 1, 5, 8);
    if (i == 0) init_fails(&call);
    OK(run_alone("cuda:0", &call, &expected, &fault, &error));
    if (failures) break;
    whole_life(&call, &expected, 2);
    same_context(&call, &expected, 700);
    kernels_fail(&call);
    test_memory_release();
  }
  return report("failures");
}
