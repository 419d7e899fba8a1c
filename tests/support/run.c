#include "run.h"

#include <stdio.h>
#include <string.h>

#include "half.h"
#include "memory.h"

#define POISON              0xff
#define WORKSPACE_ALIGNMENT 256

/* ---- layouts ---- */

/* Elements from the first to one past the last. */
static int64_t extent(const sattn_tensor *tensor, test_shape shape) {
  if (test_shape_count(shape) == 0) return 0;
  return (shape.size[0] - 1) * tensor->stride_batch + (shape.size[1] - 1) * tensor->stride_token +
         (shape.size[2] - 1) * tensor->stride_head + shape.size[3];
}

/* [B, tokens, heads, width] with real strides. */
static sattn_tensor strides(test_layout layout, test_shape shape) {
  int64_t n = shape.size[1];
  int64_t heads = shape.size[2];
  int64_t width = shape.size[3];
  sattn_tensor tensor = {NULL, 0, n * heads * width, heads * width, width};
  if (layout == TEST_BHND) {
    tensor.stride_token = width;
    tensor.stride_head = n * width;
  } else if (layout == TEST_GAPS) {
    tensor.stride_head = width + 3;
    tensor.stride_token = heads * (width + 3) + 5;
    tensor.stride_batch = n * tensor.stride_token + 7;
  }
  return tensor;
}

typedef struct mover {
  unsigned char *image;
  sattn_tensor tensor;
  test_shape shape;
  sattn_dtype dtype;
} mover;

static unsigned char *row_at(const mover *m, int64_t b, int64_t t, int64_t h) {
  int64_t at = m->tensor.offset + b * m->tensor.stride_batch + t * m->tensor.stride_token + h * m->tensor.stride_head;
  return m->image + (size_t)at * sattn_dtype_size(m->dtype);
}

/* Packed values into an image. */
static void put(const mover *m, const float *values) {
  size_t width = (size_t)m->shape.size[3];
  for (int64_t b = 0; b < m->shape.size[0]; ++b)
    for (int64_t t = 0; t < m->shape.size[1]; ++t)
      for (int64_t h = 0; h < m->shape.size[2]; ++h, values += width) test_store(m->dtype, values, width, row_at(m, b, t, h));
}

/* Values out of an image; their places become poison, so that what is left over shows. */
static void take(const mover *m, float *values) {
  size_t width = (size_t)m->shape.size[3];
  for (int64_t b = 0; b < m->shape.size[0]; ++b) {
    for (int64_t t = 0; t < m->shape.size[1]; ++t) {
      for (int64_t h = 0; h < m->shape.size[2]; ++h, values += width) {
        test_load(m->dtype, row_at(m, b, t, h), width, values);
        memset(row_at(m, b, t, h), POISON, width * sattn_dtype_size(m->dtype));
      }
    }
  }
}

/* ---- blocks ---- */

static sattn_status open_block(test_run *run, int64_t elements, size_t element_size, int is_output, int *out_index, sattn_error *error) {
  *out_index = run->blocks++;
  run->is_output[*out_index] = is_output;
  return test_guard_open(run->context, (size_t)(elements + run->call->offset) * element_size, run->call->wrap, &run->block[*out_index],
                         error);
}

/* The first element of a block's contents. */
static int64_t first_element(const test_run *run, size_t element_size) {
  return (int64_t)(TEST_GUARD_MARGIN / element_size) + run->call->offset;
}

static sattn_status place_tensor(test_run *run, test_shape shape, sattn_dtype dtype, test_layout layout, int is_output, int *out_block,
                                 sattn_tensor *out_tensor, sattn_error *error) {
  sattn_tensor tensor = strides(layout, shape);
  sattn_status status = open_block(run, extent(&tensor, shape), sattn_dtype_size(dtype), is_output, out_block, error);
  if (status) return status;
  tensor.buffer = run->block[*out_block].buffer;
  tensor.offset = first_element(run, sattn_dtype_size(dtype));
  *out_tensor = tensor;
  return SATTN_OK;
}

/* Three arrays as slices of one [B, n, H + 2 H_kv, d] buffer. */
static sattn_status place_packed(test_run *run, int is_output, int *out_block, sattn_tensor *const tensors[3], sattn_error *error) {
  const test_call *call = run->call;
  test_shape query = test_input_shape(call, TEST_QUERY);
  test_shape key = test_input_shape(call, TEST_KEY);
  int64_t d = query.size[3];
  int64_t row = (query.size[2] + 2 * key.size[2]) * d;
  size_t element_size = sattn_dtype_size(call->attention.dtype);
  sattn_status status = open_block(run, query.size[0] * query.size[1] * row, element_size, is_output, out_block, error);
  if (status) return status;
  int64_t first[3] = {0, query.size[2] * d, (query.size[2] + key.size[2]) * d};
  for (int i = 0; i < 3; ++i) {
    sattn_tensor tensor = {run->block[*out_block].buffer, first_element(run, element_size) + first[i], query.size[1] * row, row, d};
    *tensors[i] = tensor;
  }
  return SATTN_OK;
}

/* What the library is given: packed tensors go as zero strides, so that the default is tested as well. */
static sattn_tensor as_argument(sattn_tensor tensor, test_layout layout) {
  if (layout == TEST_BNHD) tensor.stride_batch = tensor.stride_token = tensor.stride_head = 0;
  return tensor;
}

static sattn_array as_array(sattn_tensor tensor) {
  sattn_array array = {tensor.buffer, tensor.offset};
  return array;
}

/* ---- inputs ---- */

static test_layout input_layout(const test_call *call, test_input input) {
  if (input == TEST_KEY) return call->layout[1];
  if (input == TEST_VALUE) return call->layout[2];
  if (input == TEST_QUERY) return call->layout[0];
  /* Gates follow the query; a packed buffer has no room for dO and gates. */
  if (input == TEST_GRAD_OUT || input == TEST_GATE_SA || input == TEST_GATE_SWA)
    return call->layout[0] == TEST_QKV ? TEST_BNHD : call->layout[0];
  return TEST_BNHD;
}

static sattn_status place_inputs(test_run *run, sattn_tensor tensor[TEST_INPUTS], sattn_error *error) {
  const test_call *call = run->call;
  int packed = call->layout[0] == TEST_QKV;
  for (int i = 0; i < TEST_INPUTS; ++i) {
    int block = 0;
    sattn_status status = SATTN_OK;
    test_input input = (test_input)i;
    if (!call->input[i]) continue;
    if (packed && i == TEST_QUERY) {
      sattn_tensor *const three[3] = {&tensor[TEST_QUERY], &tensor[TEST_KEY], &tensor[TEST_VALUE]};
      status = place_packed(run, 0, &block, three, error);
    } else if (!(packed && (i == TEST_KEY || i == TEST_VALUE))) {
      status = place_tensor(run, test_input_shape(call, input), test_input_dtype(call, input), input_layout(call, input), 0, &block,
                            &tensor[i], error);
    }
    if (status) return status;
    for (int b = 0; b < run->blocks; ++b) {
      if (run->block[b].buffer != tensor[i].buffer) continue;
      mover m = {run->block[b].image, tensor[i], test_input_shape(call, input), test_input_dtype(call, input)};
      put(&m, call->input[i]);
    }
  }
  return SATTN_OK;
}

static sattn_status place_integers(test_run *run, const int32_t *values, sattn_array *out_array, sattn_error *error) {
  int block;
  if (!values) return SATTN_OK;
  int64_t count = run->call->sizes.batch;
  sattn_status status = open_block(run, count, sizeof *values, 0, &block, error);
  if (status) return status;
  out_array->buffer = run->block[block].buffer;
  out_array->offset = first_element(run, sizeof *values);
  memcpy(run->block[block].image + (size_t)out_array->offset * sizeof *values, values, (size_t)count * sizeof *values);
  return SATTN_OK;
}

/* ---- outputs ---- */

static test_layout output_layout(const test_call *call, test_output output) {
  if (output == TEST_GRAD_KEY) return call->layout[1];
  if (output == TEST_GRAD_VALUE) return call->layout[2];
  if (output == TEST_GRAD_QUERY) return call->layout[0];
  if (output == TEST_OUT || output == TEST_GRAD_GATE_SA || output == TEST_GRAD_GATE_SWA)
    return call->layout[0] == TEST_QKV ? TEST_BNHD : call->layout[0];
  return TEST_BNHD;
}

static sattn_status place_outputs(test_run *run, sattn_error *error) {
  const test_call *call = run->call;
  int packed = call->layout[0] == TEST_QKV;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_output output = (test_output)o;
    sattn_status status = SATTN_OK;
    if (!test_call_has_output(call, output)) continue;
    if (packed && o == TEST_GRAD_QUERY) {
      sattn_tensor *const three[3] = {&run->output_tensor[TEST_GRAD_QUERY], &run->output_tensor[TEST_GRAD_KEY],
                                      &run->output_tensor[TEST_GRAD_VALUE]};
      status = place_packed(run, 1, &run->output_block[o], three, error);
      run->output_block[TEST_GRAD_KEY] = run->output_block[TEST_GRAD_VALUE] = run->output_block[o];
    } else if (!(packed && (o == TEST_GRAD_KEY || o == TEST_GRAD_VALUE))) {
      status = place_tensor(run, test_output_shape(call, output), test_output_dtype(call, output), output_layout(call, output), 1,
                            &run->output_block[o], &run->output_tensor[o], error);
    }
    if (status) return status;
  }
  return SATTN_OK;
}

static sattn_status place_scratch(test_run *run, int64_t elements, size_t element_size, sattn_array *out_array, sattn_error *error) {
  int block;
  sattn_status status = open_block(run, elements, element_size, 2, &block, error);
  if (status) return status;
  out_array->buffer = run->block[block].buffer;
  out_array->offset = first_element(run, element_size);
  return SATTN_OK;
}

static sattn_status place_saved(test_run *run, sattn_error *error) {
  const test_call *call = run->call;
  const sattn_attention *a = &call->attention;
  int64_t rows = call->sizes.batch * call->sizes.queries * a->heads;
  sattn_status status = SATTN_OK;
  sattn_saved_init(&run->saved);
  if (a->mode == SATTN_GATED) {
    status = place_scratch(run, rows * a->head_dim, sattn_dtype_size(a->dtype), &run->saved.y_sa, error);
    if (!status) status = place_scratch(run, rows * a->head_dim, sattn_dtype_size(a->dtype), &run->saved.y_swa, error);
  }
  if (a->mode == SATTN_MOBA) status = place_scratch(run, rows * a->topk, sizeof(uint32_t), &run->saved.selected, error);
  run->forward.saved = &run->saved;
  return status;
}

/* Exactly as many bytes as the plan asks for, and poison after them. */
static sattn_status place_workspace(test_run *run, sattn_pass pass, sattn_buffer **out_buffer, int64_t *out_offset, sattn_error *error) {
  int64_t bytes = (int64_t)sattn_plan_workspace(run->plan, pass);
  int index = run->blocks++;
  run->is_output[index] = 2;
  sattn_status status = test_guard_open(run->context, (size_t)bytes, run->call->wrap, &run->block[index], error);
  *out_buffer = run->block[index].buffer;
  *out_offset = WORKSPACE_ALIGNMENT;
  return status;
}

/* ---- arguments ---- */

static void fill_forward(test_run *run, const sattn_tensor tensor[TEST_INPUTS]) {
  const test_call *call = run->call;
  sattn_forward_args *args = &run->forward;
  args->sizes = call->sizes;
  args->query = as_argument(tensor[TEST_QUERY], input_layout(call, TEST_QUERY));
  args->key = as_argument(tensor[TEST_KEY], input_layout(call, TEST_KEY));
  args->value = as_argument(tensor[TEST_VALUE], input_layout(call, TEST_VALUE));
  args->gate_sa = as_argument(tensor[TEST_GATE_SA], input_layout(call, TEST_GATE_SA));
  args->gate_swa = as_argument(tensor[TEST_GATE_SWA], input_layout(call, TEST_GATE_SWA));
  args->sink_logits = as_array(tensor[TEST_SINK_LOGITS]);
  args->permutation = run->permutation;
  args->out = as_argument(run->output_tensor[TEST_OUT], output_layout(call, TEST_OUT));
  args->lse = as_array(run->output_tensor[TEST_LSE]);
  args->lse_sa = as_array(run->output_tensor[TEST_LSE_SA]);
  args->lse_swa = as_array(run->output_tensor[TEST_LSE_SWA]);
}

static void fill_backward(test_run *run, const sattn_tensor tensor[TEST_INPUTS]) {
  const test_call *call = run->call;
  const sattn_forward_args *forward = &run->forward;
  sattn_backward_args *args = &run->backward;
  args->saved = &run->saved;
  args->query = forward->query;
  args->key = forward->key;
  args->value = forward->value;
  args->gate_sa = forward->gate_sa;
  args->gate_swa = forward->gate_swa;
  args->lengths = forward->lengths;
  args->query_start = forward->query_start;
  args->sink_logits = forward->sink_logits;
  args->grad_out = as_argument(tensor[TEST_GRAD_OUT], input_layout(call, TEST_GRAD_OUT));
  args->grad_lse = as_array(tensor[TEST_GRAD_LSE]);
  args->grad_lse_sa = as_array(tensor[TEST_GRAD_LSE_SA]);
  args->grad_lse_swa = as_array(tensor[TEST_GRAD_LSE_SWA]);
  args->grad_query = as_argument(run->output_tensor[TEST_GRAD_QUERY], output_layout(call, TEST_GRAD_QUERY));
  args->grad_key = as_argument(run->output_tensor[TEST_GRAD_KEY], output_layout(call, TEST_GRAD_KEY));
  args->grad_value = as_argument(run->output_tensor[TEST_GRAD_VALUE], output_layout(call, TEST_GRAD_VALUE));
  args->grad_gate_sa = as_argument(run->output_tensor[TEST_GRAD_GATE_SA], output_layout(call, TEST_GRAD_GATE_SA));
  args->grad_gate_swa = as_argument(run->output_tensor[TEST_GRAD_GATE_SWA], output_layout(call, TEST_GRAD_GATE_SWA));
  args->grad_sink_logits = as_array(run->output_tensor[TEST_GRAD_SINK_LOGITS]);
}

static sattn_status open_plan(test_run *run, sattn_error *error) {
  const test_call *call = run->call;
  sattn_sizes maxima = call->maxima;
  if (maxima.batch == 0 && maxima.queries == 0 && maxima.keys == 0) maxima = call->sizes;
  uint32_t passes = SATTN_PASS_FORWARD | (call->backward ? SATTN_PASS_BACKWARD : 0);
  run->owns_plan = 1;
  return sattn_plan_create(run->context, &call->attention, &maxima, passes, &run->plan, error);
}

static sattn_status open_permutation(test_run *run, sattn_error *error) {
  const test_call *call = run->call;
  const sattn_attention *a = &call->attention;
  sattn_permutation_options options;
  if (!test_mode_uses_sa(a->mode)) return SATTN_OK;
  sattn_permutation_options_init(&options);
  options.length = a->order_length ? a->order_length : call->sizes.keys;
  options.sharing = a->sharing;
  options.batch = call->sizes.batch;
  options.kv_heads = a->kv_heads ? a->kv_heads : a->heads;
  options.key = call->key;
  options.order = call->order;
  return sattn_permutation_create(run->context, &options, &run->permutation, error);
}

static sattn_status open_parts(test_run *run, sattn_error *error) {
  const test_call *call = run->call;
  sattn_tensor tensor[TEST_INPUTS];
  memset(tensor, 0, sizeof tensor);
  sattn_status status = run->plan ? SATTN_OK : open_plan(run, error);
  if (!status) status = open_permutation(run, error);
  if (!status) status = place_inputs(run, tensor, error);
  if (!status) status = place_integers(run, call->lengths, &run->forward.lengths, error);
  if (!status) status = place_integers(run, call->query_start, &run->forward.query_start, error);
  if (!status) status = place_outputs(run, error);
  if (!status) status = place_workspace(run, SATTN_PASS_FORWARD, &run->forward.workspace, &run->forward.workspace_offset, error);
  if (!status && call->backward) status = place_saved(run, error);
  if (!status && call->backward)
    status = place_workspace(run, SATTN_PASS_BACKWARD, &run->backward.workspace, &run->backward.workspace_offset, error);
  if (status) return status;
  fill_forward(run, tensor);
  fill_backward(run, tensor);
  return SATTN_OK;
}

/* ---- the whole ---- */

sattn_status test_run_open(sattn_context *context, const test_call *call, sattn_plan *plan, test_run *out_run, sattn_error *error) {
  memset(out_run, 0, sizeof *out_run);
  out_run->call = call;
  out_run->context = context;
  out_run->plan = plan;
  sattn_forward_args_init(&out_run->forward);
  sattn_backward_args_init(&out_run->backward);
  sattn_status status = open_parts(out_run, error);
  if (status) test_run_close(out_run);
  return status;
}

void test_run_close(test_run *run) {
  for (int i = 0; i < run->blocks; ++i) test_guard_close(&run->block[i]);
  run->blocks = 0;
  sattn_permutation_destroy(&run->permutation);
  if (run->owns_plan) sattn_plan_destroy(&run->plan);
}

sattn_status test_run_send(test_run *run, sattn_error *error) {
  for (int i = 0; i < run->blocks; ++i) {
    sattn_status status = test_guard_send(&run->block[i], error);
    if (status) return status;
  }
  return SATTN_OK;
}

sattn_status test_run_enqueue(test_run *run, sattn_queue queue, const sattn_event *wait_list, size_t wait_count, sattn_event *out_event,
                              sattn_error *error) {
  if (!run->call->backward) return sattn_forward(run->plan, &run->forward, queue, wait_list, wait_count, out_event, error);
  sattn_event between = {NULL};
  sattn_status status = sattn_forward(run->plan, &run->forward, queue, wait_list, wait_count, &between, error);
  if (status) return status;
  status = sattn_backward(run->plan, &run->backward, queue, &between, 1, out_event, error);
  sattn_event_release(run->context, &between);
  return status;
}

static const char *fault(const test_run *run, int block, int64_t at) {
  const test_guard *guard = &run->block[block];
  char *text = test_memory(160);
  int64_t end = (int64_t)guard->bytes - TEST_GUARD_MARGIN;
  const char *kind = run->is_output[block] == 0 ? "input" : run->is_output[block] == 1 ? "output" : "scratch";
  const char *where = at < TEST_GUARD_MARGIN ? "before its start" : at >= end ? "after its end" : "inside, where nothing was to be written";
  snprintf(text, 160, "%s array in block %d was written %s (byte %lld of %lld)", kind, block, where, (long long)(at - TEST_GUARD_MARGIN),
           (long long)(end - TEST_GUARD_MARGIN));
  return text;
}

static const char *compare_guards(test_run *run) {
  for (int i = 0; i < run->blocks; ++i) {
    test_guard *guard = &run->block[i];
    if (run->is_output[i] == 2) memset(guard->now + TEST_GUARD_MARGIN, POISON, guard->bytes - 2 * TEST_GUARD_MARGIN);
    int64_t at = test_guard_first_change(guard);
    if (at >= 0) return fault(run, i, at);
  }
  return NULL;
}

static sattn_status fetch_all(test_run *run, sattn_error *error) {
  for (int i = 0; i < run->blocks; ++i) {
    sattn_status status = test_guard_fetch(&run->block[i], error);
    if (status) return status;
  }
  return SATTN_OK;
}

const char *test_run_fetch(test_run *run, test_result *out_result, sattn_error *error) {
  const test_call *call = run->call;
  memset(out_result, 0, sizeof *out_result);
  if (fetch_all(run, error)) return error->message;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_output output = (test_output)o;
    if (!test_call_has_output(call, output)) continue;
    test_shape shape = test_output_shape(call, output);
    mover m = {run->block[run->output_block[o]].now, run->output_tensor[o], shape, test_output_dtype(call, output)};
    out_result->output[o] = test_memory(test_shape_count(shape) * sizeof(float));
    take(&m, out_result->output[o]);
  }
  return compare_guards(run);
}

int test_run_untouched(test_run *run, sattn_error *error) {
  return !fetch_all(run, error) && compare_guards(run) == NULL;
}

sattn_status test_run_call(sattn_context *context, const test_call *call, test_result *out_result, const char **out_fault,
                           sattn_error *error) {
  test_run run;
  sattn_queue queue = {NULL};
  sattn_event event = {NULL};
  *out_fault = NULL;
  sattn_status status = test_run_open(context, call, NULL, &run, error);
  if (status) return status;
  status = test_run_send(&run, error);
  if (!status) status = test_run_enqueue(&run, queue, NULL, 0, &event, error);
  if (!status) {
    status = sattn_event_wait(context, event, error);
    sattn_event_release(context, &event);
  }
  if (!status) *out_fault = test_run_fetch(&run, out_result, error);
  test_run_close(&run);
  return status;
}
