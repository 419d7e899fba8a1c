/* A test_call on a device: every array in guarded memory, outputs poisoned, margins and inputs compared afterwards. */
#ifndef TEST_RUN_H
#define TEST_RUN_H

#include "call.h"
#include "guard.h"

#define TEST_BLOCKS (TEST_INPUTS + TEST_OUTPUTS + 8)

typedef struct test_run {
  const test_call *call;
  sattn_context *context;
  sattn_plan *plan;
  int owns_plan;
  sattn_permutation *permutation;
  test_guard block[TEST_BLOCKS];
  int is_output[TEST_BLOCKS]; /* 1: the call may write where an output says; 2: scratch, anything inside the margins */
  int blocks;
  sattn_forward_args forward;
  sattn_backward_args backward;
  sattn_saved saved;
  /* Where outputs lie: block and tensor (arrays use the offset only). */
  int output_block[TEST_OUTPUTS];
  sattn_tensor output_tensor[TEST_OUTPUTS];
} test_run;

/* Makes plan (unless given), permutation, buffers and arguments. On failure everything is closed again. */
sattn_status test_run_open(sattn_context *context, const test_call *call, sattn_plan *plan, test_run *out_run, sattn_error *error);
void test_run_close(test_run *run);

/* Inputs and poison to the device; before every enqueue. */
sattn_status test_run_send(test_run *run, sattn_error *error);

/* Enqueues forward and, if the call says so, backward after it. out_event may be NULL. Uses no test_memory: safe in threads. */
sattn_status test_run_enqueue(test_run *run, sattn_queue queue, const sattn_event *wait_list, size_t wait_count, sattn_event *out_event,
                              sattn_error *error);

/* Reads the outputs (test_memory). Returns NULL, or what was written that should not have been. The calls must be complete. */
const char *test_run_fetch(test_run *run, test_result *out_result, sattn_error *error);

/* Whether every output is still poison, as it must be after a refusal. */
int test_run_untouched(test_run *run, sattn_error *error);

/* All of the above with the context's own queue. out_fault: NULL, or a sentence about writes that should not have been. */
sattn_status test_run_call(sattn_context *context, const test_call *call, test_result *out_result, const char **out_fault,
                           sattn_error *error);

/* The same through the one-call form on host arrays, without guards. */
sattn_status test_run_host(sattn_context *context, const test_call *call, test_result *out_result, sattn_error *error);

#endif
