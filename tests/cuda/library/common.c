#include "common.h"

#include <stdarg.h>

int failures;

void fail(const char *file, int line, const char *format, ...) {
  va_list arguments;
  const char *name = strrchr(file, '/');
  if (++failures > 20) return;
  va_start(arguments, format);
  printf("FAIL %s:%d: ", name ? name + 1 : file, line);
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

int report(const char *program) {
  printf(failures ? "%s: %d failures (seed %llu)\n" : "%s: all is well\n", program, failures, (unsigned long long)test_seed());
  return failures != 0;
}

void small_call(test_call *call, sattn_mode mode, sattn_dtype dtype, int64_t batch, int64_t tokens, int64_t head_dim) {
  static const int32_t lengths[2] = {4, 7};
  test_random random = test_random_open(test_seed(), "small call");
  test_call_init(call, mode, batch, tokens, tokens, 2, 1, head_dim);
  call->attention.dtype = dtype;
  call->attention.has_sink_logits = 1;
  call->attention.has_lengths = 1;
  call->lengths = lengths;
  test_call_fill(call, &random, 1.0);
  test_call_fill_gradients(call, &random, 1);
}

sattn_status run_on(sattn_context *context, const test_call *call, test_result *out_result, const char **out_fault, sattn_error *error) {
  sattn_status status = test_run_call(context, call, out_result, out_fault, error);
  if (status != SATTN_OK || *out_fault != error->message) return status;
  *out_fault = NULL; /* reading the results failed */
  return error->status;
}

sattn_status run_alone(const char *device, const test_call *call, test_result *out_result, const char **out_fault, sattn_error *error) {
  sattn_context *context = NULL;
  sattn_status status = sattn_context_create(device, NULL, &context, error);
  if (status == SATTN_OK) status = run_on(context, call, out_result, out_fault, error);
  sattn_context_destroy(&context);
  return status;
}

int same_bits(const test_call *call, const test_result *expected, const test_result *got, const char *what) {
  int same = 1;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    test_output output = (test_output)o;
    if (!expected->output[o]) continue;
    if (!test_compare_bits(test_output_name(output), test_output_shape(call, output), expected->output[o], got->output[o], &difference)) {
      continue;
    }
    fail(__FILE__, __LINE__, "%s: %s", what, difference.report);
    same = 0;
  }
  return same;
}

void nothing_left(const char *what) {
  sattn_stub_stats s;
  sattn_stub_get_stats(&s);
  CHECK(!s.retains && !s.contexts && !s.modules && !s.streams && !s.events && !s.allocations && !s.graphs && !s.graph_execs,
        "%s leaves %d retains, %d contexts, %d modules, %d streams, %d events, %d allocations, %d graphs, %d executable graphs", what,
        s.retains, s.contexts, s.modules, s.streams, s.events, s.allocations, s.graphs, s.graph_execs);
  CHECK(!s.misuses, "%s: %d calls that a driver forbids: %s", what, s.misuses, sattn_stub_report());
}
