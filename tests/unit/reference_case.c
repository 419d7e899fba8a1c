#include "reference_case.h"

#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "memory.h"
#include "oracle.h"
#include "reference/reference_array.h"

size_t reference_case_count(const test_call *call, test_input input) {
  return test_shape_count(test_input_shape(call, input));
}

static sattn_buffer *wrap(reference_case *c, void *memory) {
  sattn_buffer *buffer = &c->buffer[c->buffers++];
  *buffer = (sattn_buffer){.context = &c->context, .impl = memory};
  return memory ? buffer : NULL;
}

static void resolve(const test_call *call, reference_case *c) {
  sattn_attention attention = call->attention;
  attention.has_lengths = call->lengths != NULL;
  attention.has_query_start = call->query_start != NULL;
  attention.has_sink_logits = call->input[TEST_SINK_LOGITS] != NULL;
  sattn_error error = {0};
  if (sattn_problem_resolve(&attention, &c->plan.problem, &error) != SATTN_OK) {
    abort(); /* the test is wrong */
  }
  c->plan.problem.dtype = SATTN_REFERENCE_FP64;
  c->plan.problem.gate_dtype = SATTN_REFERENCE_FP64;
  c->plan.context = &c->context;
}

/* Orders of the call, drawn the test's own way unless it brings them. */
static void draw(const test_call *call, reference_case *c) {
  sattn_problem *problem = &c->plan.problem;
  sattn_permutation *p = &c->permutation;
  int per_batch = problem->sharing == SATTN_PER_BATCH || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
  int per_head = problem->sharing == SATTN_PER_HEAD || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
  p->length = problem->order_length > 0 ? problem->order_length : call->sizes.keys;
  p->sharing = problem->sharing;
  p->batch = per_batch ? call->sizes.batch : 1;
  p->kv_heads = per_head ? problem->kv_heads : 1;
  p->count = p->batch * p->kv_heads;
  p->order = test_memory((size_t)(p->count * p->length) * sizeof *p->order);
  for (int64_t index = 0; index < p->count; ++index) {
    sattn_permutation_key key = call->key;
    key.substream += (uint32_t)index;
    uint32_t *order = p->order + index * p->length;
    if (call->order) {
      memcpy(order, call->order + index * p->length, (size_t)p->length * sizeof *order);
    } else {
      test_oracle_order(p->length, &key, order);
    }
  }
}

void reference_case_open(const test_call *call, reference_case *c) {
  memset(c, 0, sizeof *c);
  c->call = call;
  resolve(call, c);
  if (c->plan.problem.uses_sa) draw(call, c);
  for (int input = 0; input < TEST_INPUTS; ++input) {
    if (!call->input[input]) continue;
    size_t count = reference_case_count(call, (test_input)input);
    c->input[input] = test_memory(count * sizeof(double));
    for (size_t e = 0; e < count; ++e) c->input[input][e] = call->input[input][e];
  }
  for (int output = 0; output < TEST_OUTPUTS; ++output) {
    if (!test_call_has_output(call, (test_output)output)) continue;
    c->output[output] = test_memory(test_shape_count(test_output_shape(call, (test_output)output)) * sizeof(double));
  }
  size_t rows = (size_t)(call->sizes.batch * call->sizes.queries * c->plan.problem.heads);
  c->y_sa = test_memory(rows * (size_t)c->plan.problem.head_dim * sizeof(double));
  c->y_swa = test_memory(rows * (size_t)c->plan.problem.head_dim * sizeof(double));
  c->selected = test_memory((rows * (size_t)c->plan.problem.topk + 1) * sizeof *c->selected);
  sattn_plan_info info = {0};
  sattn_reference_backend.plan_query(&c->context, &c->plan.problem, &call->sizes, SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD, &info, NULL);
  size_t bytes = info.forward_workspace > info.backward_workspace ? info.forward_workspace : info.backward_workspace;
  c->workspace = test_memory(bytes);
}

static sattn_tensor tensor(reference_case *c, double *memory, int64_t tokens, int64_t heads, int64_t width) {
  return (sattn_tensor){wrap(c, memory), 0, tokens * heads * width, heads * width, width};
}

static sattn_array array(reference_case *c, void *memory) {
  return (sattn_array){wrap(c, memory), 0};
}

static sattn_tensor gate(reference_case *c, double *memory, sattn_gate_shape shape) {
  const sattn_problem *p = &c->plan.problem;
  return tensor(c, memory, c->call->sizes.queries, p->heads, shape == SATTN_GATE_PER_ELEMENT ? p->head_dim : 1);
}

void reference_case_forward(reference_case *c) {
  const sattn_problem *p = &c->plan.problem;
  sattn_sizes sizes = c->call->sizes;
  sattn_forward_args args = {.sizes = sizes};
  c->buffers = 0;
  args.query = tensor(c, c->input[TEST_QUERY], sizes.queries, p->heads, p->head_dim);
  args.key = tensor(c, c->input[TEST_KEY], sizes.keys, p->kv_heads, p->head_dim);
  args.value = tensor(c, c->input[TEST_VALUE], sizes.keys, p->kv_heads, p->head_dim);
  args.gate_sa = gate(c, c->input[TEST_GATE_SA], p->gate_sa_shape);
  args.gate_swa = gate(c, c->input[TEST_GATE_SWA], p->gate_swa_shape);
  args.sink_logits = array(c, c->input[TEST_SINK_LOGITS]);
  args.lengths = array(c, (void *)c->call->lengths);
  args.query_start = array(c, (void *)c->call->query_start);
  args.permutation = p->uses_sa ? &c->permutation : NULL;
  args.out = tensor(c, c->output[TEST_OUT], sizes.queries, p->heads, p->head_dim);
  args.lse = array(c, c->output[TEST_LSE]);
  args.lse_sa = array(c, c->output[TEST_LSE_SA]);
  args.lse_swa = array(c, c->output[TEST_LSE_SWA]);
  args.workspace = wrap(c, c->workspace);
  c->saved = (sattn_saved){.sizes = sizes, .permutation = args.permutation};
  c->saved.y_sa = array(c, c->y_sa);
  c->saved.y_swa = array(c, c->y_swa);
  c->saved.selected = array(c, c->selected);
  args.saved = &c->saved;
  sattn_submission submission = {0};
  sattn_reference_backend.forward(&c->plan, &args, &submission, NULL);
}

void reference_case_backward(reference_case *c) {
  const sattn_problem *p = &c->plan.problem;
  sattn_sizes sizes = c->call->sizes;
  sattn_backward_args args = {.saved = &c->saved};
  c->buffers = 0;
  c->saved.sizes = sizes;
  c->saved.selected = array(c, c->selected);
  args.query = tensor(c, c->input[TEST_QUERY], sizes.queries, p->heads, p->head_dim);
  args.key = tensor(c, c->input[TEST_KEY], sizes.keys, p->kv_heads, p->head_dim);
  args.value = tensor(c, c->input[TEST_VALUE], sizes.keys, p->kv_heads, p->head_dim);
  args.gate_sa = gate(c, c->input[TEST_GATE_SA], p->gate_sa_shape);
  args.gate_swa = gate(c, c->input[TEST_GATE_SWA], p->gate_swa_shape);
  args.sink_logits = array(c, c->input[TEST_SINK_LOGITS]);
  args.lengths = array(c, (void *)c->call->lengths);
  args.query_start = array(c, (void *)c->call->query_start);
  args.grad_out = tensor(c, c->input[TEST_GRAD_OUT], sizes.queries, p->heads, p->head_dim);
  args.grad_lse = array(c, c->input[TEST_GRAD_LSE]);
  args.grad_lse_sa = array(c, c->input[TEST_GRAD_LSE_SA]);
  args.grad_lse_swa = array(c, c->input[TEST_GRAD_LSE_SWA]);
  args.grad_query = tensor(c, c->output[TEST_GRAD_QUERY], sizes.queries, p->heads, p->head_dim);
  args.grad_key = tensor(c, c->output[TEST_GRAD_KEY], sizes.keys, p->kv_heads, p->head_dim);
  args.grad_value = tensor(c, c->output[TEST_GRAD_VALUE], sizes.keys, p->kv_heads, p->head_dim);
  args.grad_gate_sa = gate(c, c->output[TEST_GRAD_GATE_SA], p->gate_sa_shape);
  args.grad_gate_swa = gate(c, c->output[TEST_GRAD_GATE_SWA], p->gate_swa_shape);
  args.grad_sink_logits = array(c, c->output[TEST_GRAD_SINK_LOGITS]);
  args.workspace = wrap(c, c->workspace);
  sattn_submission submission = {0};
  sattn_reference_backend.backward(&c->plan, &args, &submission, NULL);
}
