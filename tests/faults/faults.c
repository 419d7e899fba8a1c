#include "faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int faults_failures;

void faults_fail(const char *format, ...) {
  va_list arguments;
  if (++faults_failures > 20) return;
  va_start(arguments, format);
  printf("FAILED: ");
  vprintf(format, arguments);
  printf("\n");
  va_end(arguments);
}

int faults_report(const char *program) {
  unsigned long long seed = test_seed();
  if (faults_failures) {
    printf("%s: %d failures (seed %llu)\n", program, faults_failures, seed);
  } else {
    printf("%s: all is well (seed %llu)\n", program, seed);
  }
  return faults_failures != 0;
}

void faults_call(test_call *call, sattn_mode mode, int64_t head_dim) {
  static const int32_t lengths[2] = {4, 7};
  test_random random = test_random_open(test_seed(), "faults");
  test_call_init(call, mode, 2, 7, 7, 2, 1, head_dim);
  call->attention.has_sink_logits = 1;
  call->attention.has_lengths = 1;
  call->lengths = lengths;
  test_call_fill(call, &random, 1.0);
}

static sattn_status run_open(test_run *run, test_result *out_result, const char **out_written, sattn_error *error) {
  sattn_queue queue = {NULL};
  sattn_event event = {NULL};
  sattn_status status = test_run_send(run, error);
  if (status) return status;
  status = test_run_enqueue(run, queue, NULL, 0, &event, error);
  if (!status) {
    status = sattn_event_wait(run->context, event, error);
    sattn_event_release(run->context, &event);
    if (status) return status;
    *out_written = test_run_fetch(run, out_result, error);
    if (*out_written != error->message) return SATTN_OK;
    *out_written = NULL; /* reading the results failed */
    return error->status;
  }
  sattn_error other;
  if (!run->call->backward && sattn_queue_finish(run->context, queue, &other) == SATTN_OK && !test_run_untouched(run, &other)) {
    *out_written = "outputs were written";
    (void)test_run_fetch(run, out_result, &other);
  }
  return status;
}

sattn_status faults_run(sattn_context *context, const char *device, const test_call *call, test_result *out_result,
                        const char **out_written, sattn_error *error) {
  sattn_context *own = NULL;
  test_run run;
  sattn_status status = context ? SATTN_OK : sattn_context_create(device, NULL, &own, error);
  *out_written = NULL;
  memset(out_result, 0, sizeof *out_result);
  if (status) return status;
  status = test_run_open(context ? context : own, call, NULL, &run, error);
  if (!status) {
    status = run_open(&run, out_result, out_written, error);
    test_run_close(&run);
  }
  sattn_context_destroy(&own);
  return status;
}

void faults_same(const test_call *call, const test_result *expected, const test_result *got, const char *what) {
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!expected->output[o]) continue;
    test_shape shape = test_output_shape(call, (test_output)o);
    if (!got->output[o]) {
      faults_fail("%s: no %s", what, test_output_name((test_output)o));
    } else if (test_compare_bits(test_output_name((test_output)o), shape, expected->output[o], got->output[o], &difference)) {
      faults_fail("%s: %s", what, difference.report);
    }
  }
}
