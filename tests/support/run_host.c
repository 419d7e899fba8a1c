/* The one-call form on host arrays. */
#include <string.h>

#include "half.h"
#include "memory.h"
#include "run.h"

static const void *stored(const test_call *call, test_input input) {
  if (!call->input[input]) return NULL;
  size_t count = test_shape_count(test_input_shape(call, input));
  sattn_dtype dtype = test_input_dtype(call, input);
  void *storage = test_memory(count * sattn_dtype_size(dtype));
  test_store(dtype, call->input[input], count, storage);
  return storage;
}

static void set_inputs(const test_call *call, sattn_host_call *host) {
  host->attention = call->attention;
  host->batch = call->sizes.batch;
  host->queries = call->sizes.queries;
  host->keys = call->sizes.keys;
  host->query.data = stored(call, TEST_QUERY);
  host->key.data = stored(call, TEST_KEY);
  host->value.data = stored(call, TEST_VALUE);
  host->gate_sa.data = stored(call, TEST_GATE_SA);
  host->gate_swa.data = stored(call, TEST_GATE_SWA);
  host->lengths = call->lengths;
  host->query_start = call->query_start;
  host->sink_logits = call->input[TEST_SINK_LOGITS];
  host->permutation_key = call->key;
  host->order = call->order;
  host->order_count = call->order ? call->order_count : 0;
  host->order_size = call->order ? call->order_size : 0;
  if (!call->backward) return;
  host->grad_out.data = stored(call, TEST_GRAD_OUT);
  host->grad_lse = call->input[TEST_GRAD_LSE];
  host->grad_lse_sa = call->input[TEST_GRAD_LSE_SA];
  host->grad_lse_swa = call->input[TEST_GRAD_LSE_SWA];
}

static void set_outputs(sattn_host_call *host, void *const storage[TEST_OUTPUTS]) {
  host->out.data = storage[TEST_OUT];
  host->lse = storage[TEST_LSE];
  host->lse_sa = storage[TEST_LSE_SA];
  host->lse_swa = storage[TEST_LSE_SWA];
  host->grad_query.data = storage[TEST_GRAD_QUERY];
  host->grad_key.data = storage[TEST_GRAD_KEY];
  host->grad_value.data = storage[TEST_GRAD_VALUE];
  host->grad_gate_sa.data = storage[TEST_GRAD_GATE_SA];
  host->grad_gate_swa.data = storage[TEST_GRAD_GATE_SWA];
  host->grad_sink_logits = storage[TEST_GRAD_SINK_LOGITS];
}

sattn_status test_run_host(sattn_context *context, const test_call *call, test_result *out_result, sattn_error *error) {
  sattn_host_call host;
  void *storage[TEST_OUTPUTS] = {NULL};
  memset(out_result, 0, sizeof *out_result);
  sattn_host_call_init(&host);
  host.context = context;
  set_inputs(call, &host);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (!test_call_has_output(call, (test_output)o)) continue;
    size_t bytes = test_shape_count(test_output_shape(call, (test_output)o)) * sattn_dtype_size(test_output_dtype(call, (test_output)o));
    storage[o] = test_memory(bytes);
    memset(storage[o], 0xff, bytes);
  }
  set_outputs(&host, storage);
  sattn_status status = sattn_attention_host(&host, error);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (!storage[o]) continue;
    size_t count = test_shape_count(test_output_shape(call, (test_output)o));
    out_result->output[o] = test_memory(count * sizeof(float));
    test_load(test_output_dtype(call, (test_output)o), storage[o], count, out_result->output[o]);
  }
  return status;
}
