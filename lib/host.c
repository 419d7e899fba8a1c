/* The one-call form. Everything that can be refused is refused before the first pass is enqueued, so that outputs stay as they were. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <sattn/host.h>

#include "calls.h"
#include "host_arrays.h"

/* Places of the arrays of a call. */
typedef struct places {
  const sattn_host_array *query, *key, *value, *gate_sa, *gate_swa, *lengths, *query_start, *sink_logits;
  const sattn_host_array *out, *lse, *lse_sa, *lse_swa;
  const sattn_host_array *grad_out, *grad_lse, *grad_lse_sa, *grad_lse_swa;
  const sattn_host_array *grad_query, *grad_key, *grad_value, *grad_gate_sa, *grad_gate_swa, *grad_sink_logits;
} places;

enum { OWN_CAPACITY = 8 };

/* One call under way. */
typedef struct work {
  sattn_host_call call;
  sattn_problem problem;
  sattn_sizes sizes;
  bool backward;
  sattn_host_arrays arrays;
  places at;
  sattn_context *own_context;
  sattn_context *context;
  sattn_plan *plan;
  sattn_permutation *permutation;
  size_t own_count;
  sattn_buffer *own[OWN_CAPACITY]; /* workspaces and what forward saves, where the caller does not want it */
  sattn_saved saved;
  sattn_forward_args forward;
  sattn_backward_args gradient;
} work;

void sattn_host_call_init(sattn_host_call *call) {
  if (call == NULL) return;
  memset(call, 0, sizeof *call);
  call->struct_size = sizeof *call;
  sattn_attention_init(&call->attention);
}

static sattn_status read_call(work *w, const sattn_host_call *call, sattn_error *error) {
  sattn_host_call_init(&w->call);
  sattn_status status = sattn_copy_struct("call", call, sizeof w->call, &w->call, error);
  if (status != SATTN_OK) return status;
  sattn_attention *attention = &w->call.attention;
  attention->has_lengths = w->call.lengths != NULL;
  attention->has_query_start = w->call.query_start != NULL;
  attention->has_sink_logits = w->call.sink_logits != NULL;
  w->sizes = (sattn_sizes){w->call.batch, w->call.queries, w->call.keys};
  w->backward =
      w->call.grad_out.data != NULL || w->call.grad_query.data != NULL || w->call.grad_key.data != NULL || w->call.grad_value.data != NULL;
  status = sattn_problem_resolve(attention, &w->problem, error);
  return status == SATTN_OK ? sattn_sizes_validate("call", &w->sizes, &w->problem, error) : status;
}

static sattn_status check_values(const char *name, const int32_t *values, int64_t count, int64_t most, sattn_error *error) {
  for (int64_t b = 0; values != NULL && b < count; ++b) {
    if (values[b] >= 0 && values[b] <= most) continue;
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s[%" PRId64 "] is %" PRId32 ": it must be 0 to %" PRId64, name, b, values[b],
                      most);
  }
  return SATTN_OK;
}

static sattn_status check_order(const work *w, sattn_error *error) {
  const sattn_host_call *call = &w->call;
  if (call->order == NULL) {
    if (call->order_count == 0 && call->order_size == 0) return SATTN_OK;
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order",
                      "order is NULL: order_count %" PRId64 " and order_size %" PRId64 " belong to an order", call->order_count,
                      call->order_size);
  }
  const sattn_problem *p = &w->problem;
  if (!p->uses_sa) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order", "order is given: mode %s has no permutation", sattn_mode_name(p->mode));
  }
  int64_t size = p->order_length > 0 ? p->order_length : w->sizes.keys;
  if (call->order_size != size) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order_size", "order_size is %" PRId64 ": an order must hold %s, %" PRId64 " tokens",
                      call->order_size, p->order_length > 0 ? "order_length" : "as many tokens as there are keys", size);
  }
  bool per_head = p->sharing == SATTN_PER_HEAD || p->sharing == SATTN_PER_BATCH_AND_HEAD;
  bool per_batch = p->sharing == SATTN_PER_BATCH || p->sharing == SATTN_PER_BATCH_AND_HEAD;
  int64_t count = (per_batch ? w->sizes.batch : 1) * (per_head ? p->kv_heads : 1);
  if (call->order_count == count) return SATTN_OK;
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order_count", "order_count is %" PRId64 ": sharing asks for %" PRId64 " order(s)",
                    call->order_count, count);
}

/* ---- collecting the arrays ---- */

typedef struct collector {
  work *w;
  sattn_region_set set;
} collector;

static sattn_presence needed(bool condition) {
  return condition ? SATTN_REQUIRED : SATTN_ABSENT;
}
static sattn_presence allowed(bool condition) {
  return condition ? SATTN_OPTIONAL : SATTN_ABSENT;
}

/* [B, tokens, heads, width], strided. */
static void input(collector *c, const char *name, sattn_presence presence, size_t element, int64_t tokens, int64_t heads, int64_t width,
                  sattn_host_input array, const sattn_host_array **place) {
  const sattn_extent extent = {name, presence, false, element, c->w->sizes.batch, tokens, heads, width};
  sattn_host_arrays_add(&c->w->arrays, &c->set, &extent, array.data, array.stride_batch, array.stride_token, array.stride_head, place);
}

static void output(collector *c, const char *name, sattn_presence presence, size_t element, int64_t tokens, int64_t heads, int64_t width,
                   sattn_host_output array, const sattn_host_array **place) {
  const sattn_extent extent = {name, presence, true, element, c->w->sizes.batch, tokens, heads, width};
  sattn_host_arrays_add(&c->w->arrays, &c->set, &extent, array.data, array.stride_batch, array.stride_token, array.stride_head, place);
}

/* A contiguous array of 4-byte elements. */
static void flat(collector *c, const char *name, sattn_presence presence, bool is_output, int64_t count, const void *data,
                 const sattn_host_array **place) {
  const sattn_extent extent = {name, presence, is_output, 4, 1, 1, 1, count};
  sattn_host_arrays_add(&c->w->arrays, &c->set, &extent, data, 0, 0, 0, place);
}

static void collect_forward(collector *c) {
  work *w = c->w;
  const sattn_problem *p = &w->problem;
  const sattn_host_call *call = &w->call;
  size_t element = sattn_dtype_size(p->dtype), gate = sattn_dtype_size(p->gate_dtype);
  int64_t queries = w->sizes.queries, keys = w->sizes.keys, d = p->head_dim, rows = w->sizes.batch * queries * p->heads;
  bool gated = p->mode == SATTN_GATED;
  input(c, "query", SATTN_REQUIRED, element, queries, p->heads, d, call->query, &w->at.query);
  input(c, "key", SATTN_REQUIRED, element, keys, p->kv_heads, d, call->key, &w->at.key);
  input(c, "value", SATTN_REQUIRED, element, keys, p->kv_heads, d, call->value, &w->at.value);
  input(c, "gate_sa", needed(gated), gate, queries, p->heads, sattn_gate_width(p, p->gate_sa_shape), call->gate_sa, &w->at.gate_sa);
  input(c, "gate_swa", needed(gated), gate, queries, p->heads, sattn_gate_width(p, p->gate_swa_shape), call->gate_swa, &w->at.gate_swa);
  flat(c, "lengths", SATTN_OPTIONAL, false, w->sizes.batch, call->lengths, &w->at.lengths);
  flat(c, "query_start", SATTN_OPTIONAL, false, w->sizes.batch, call->query_start, &w->at.query_start);
  flat(c, "sink_logits", SATTN_OPTIONAL, false, p->heads, call->sink_logits, &w->at.sink_logits);
  output(c, "out", SATTN_REQUIRED, element, queries, p->heads, d, call->out, &w->at.out);
  flat(c, "lse", allowed(!gated), true, rows, call->lse, &w->at.lse);
  flat(c, "lse_sa", allowed(gated), true, rows, call->lse_sa, &w->at.lse_sa);
  flat(c, "lse_swa", allowed(gated), true, rows, call->lse_swa, &w->at.lse_swa);
}

static void collect_backward(collector *c) {
  work *w = c->w;
  const sattn_problem *p = &w->problem;
  const sattn_host_call *call = &w->call;
  size_t element = sattn_dtype_size(p->dtype), gate = sattn_dtype_size(p->gate_dtype);
  int64_t queries = w->sizes.queries, keys = w->sizes.keys, d = p->head_dim, rows = w->sizes.batch * queries * p->heads;
  bool gated = p->mode == SATTN_GATED, on = w->backward;
  sattn_presence gates = needed(on && gated);
  input(c, "grad_out", needed(on), element, queries, p->heads, d, call->grad_out, &w->at.grad_out);
  flat(c, "grad_lse", allowed(on && !gated), false, rows, call->grad_lse, &w->at.grad_lse);
  flat(c, "grad_lse_sa", allowed(on && gated), false, rows, call->grad_lse_sa, &w->at.grad_lse_sa);
  flat(c, "grad_lse_swa", allowed(on && gated), false, rows, call->grad_lse_swa, &w->at.grad_lse_swa);
  output(c, "grad_query", needed(on), element, queries, p->heads, d, call->grad_query, &w->at.grad_query);
  output(c, "grad_key", needed(on), element, keys, p->kv_heads, d, call->grad_key, &w->at.grad_key);
  output(c, "grad_value", needed(on), element, keys, p->kv_heads, d, call->grad_value, &w->at.grad_value);
  output(c, "grad_gate_sa", gates, gate, queries, p->heads, sattn_gate_width(p, p->gate_sa_shape), call->grad_gate_sa, &w->at.grad_gate_sa);
  output(c, "grad_gate_swa", gates, gate, queries, p->heads, sattn_gate_width(p, p->gate_swa_shape), call->grad_gate_swa,
         &w->at.grad_gate_swa);
  flat(c, "grad_sink_logits", needed(on && p->has_sink_logits), true, p->heads, call->grad_sink_logits, &w->at.grad_sink_logits);
}

static sattn_status collect(work *w, sattn_error *error) {
  collector c = {w, {0}};
  sattn_region_begin(&c.set, NULL, "this call", error);
  collect_forward(&c);
  collect_backward(&c);
  return sattn_region_end(&c.set);
}

/* ---- making what the plan calls need ---- */

static sattn_status own_buffer(work *w, uint64_t bytes, sattn_buffer **out_buffer, sattn_error *error) {
  sattn_status status = sattn_buffer_create(w->context, bytes, out_buffer, error);
  if (status == SATTN_OK) w->own[w->own_count++] = *out_buffer;
  return status;
}

static sattn_array array_at(const sattn_host_array *place) {
  return (sattn_array){place->tensor.buffer, place->tensor.offset};
}

static sattn_status make_objects(work *w, sattn_error *error) {
  const sattn_problem *p = &w->problem;
  const sattn_host_call *call = &w->call;
  sattn_status status = SATTN_OK;
  w->context = call->context;
  if (w->context == NULL) {
    status = sattn_context_create(call->device_id, NULL, &w->own_context, error);
    if (status != SATTN_OK) return status;
    w->context = w->own_context;
  }
  uint32_t passes = SATTN_PASS_FORWARD | (w->backward ? (uint32_t)SATTN_PASS_BACKWARD : 0u);
  status = sattn_plan_create(w->context, &call->attention, &w->sizes, passes, &w->plan, error);
  if (status != SATTN_OK || !p->uses_sa) return status;
  sattn_permutation_options options;
  sattn_permutation_options_init(&options);
  options.length = p->order_length > 0 ? p->order_length : w->sizes.keys;
  options.sharing = p->sharing;
  options.batch = w->sizes.batch;
  options.kv_heads = p->kv_heads;
  options.key = call->permutation_key;
  options.order = call->order;
  return sattn_permutation_create(w->context, &options, &w->permutation, error);
}

static void set_forward(work *w) {
  sattn_forward_args_init(&w->forward);
  w->forward.sizes = w->sizes;
  w->forward.query = w->at.query->tensor;
  w->forward.key = w->at.key->tensor;
  w->forward.value = w->at.value->tensor;
  w->forward.permutation = w->permutation;
  w->forward.gate_sa = w->at.gate_sa->tensor;
  w->forward.gate_swa = w->at.gate_swa->tensor;
  w->forward.lengths = array_at(w->at.lengths);
  w->forward.query_start = array_at(w->at.query_start);
  w->forward.sink_logits = array_at(w->at.sink_logits);
  w->forward.out = w->at.out->tensor;
  w->forward.lse = array_at(w->at.lse);
  w->forward.lse_sa = array_at(w->at.lse_sa);
  w->forward.lse_swa = array_at(w->at.lse_swa);
}

static void set_backward(work *w) {
  sattn_backward_args_init(&w->gradient);
  w->gradient.saved = &w->saved;
  w->gradient.query = w->at.query->tensor;
  w->gradient.key = w->at.key->tensor;
  w->gradient.value = w->at.value->tensor;
  w->gradient.gate_sa = w->at.gate_sa->tensor;
  w->gradient.gate_swa = w->at.gate_swa->tensor;
  w->gradient.lengths = array_at(w->at.lengths);
  w->gradient.query_start = array_at(w->at.query_start);
  w->gradient.sink_logits = array_at(w->at.sink_logits);
  w->gradient.grad_out = w->at.grad_out->tensor;
  w->gradient.grad_lse = array_at(w->at.grad_lse);
  w->gradient.grad_lse_sa = array_at(w->at.grad_lse_sa);
  w->gradient.grad_lse_swa = array_at(w->at.grad_lse_swa);
  w->gradient.grad_query = w->at.grad_query->tensor;
  w->gradient.grad_key = w->at.grad_key->tensor;
  w->gradient.grad_value = w->at.grad_value->tensor;
  w->gradient.grad_gate_sa = w->at.grad_gate_sa->tensor;
  w->gradient.grad_gate_swa = w->at.grad_gate_swa->tensor;
  w->gradient.grad_sink_logits = array_at(w->at.grad_sink_logits);
}

/* What backward needs of forward and the caller did not ask for. */
static sattn_status make_saved(work *w, sattn_error *error) {
  const sattn_problem *p = &w->problem;
  uint64_t rows = (uint64_t)w->sizes.batch * (uint64_t)w->sizes.queries * (uint64_t)p->heads;
  uint64_t branch = rows * (uint64_t)p->head_dim * sattn_dtype_size(p->dtype);
  bool gated = p->mode == SATTN_GATED;
  const struct {
    bool wanted;
    sattn_array *array;
    uint64_t bytes;
  } wants[] = {
      {!gated, &w->forward.lse, rows * sizeof(float)},
      {gated, &w->forward.lse_sa, rows * sizeof(float)},
      {gated, &w->forward.lse_swa, rows * sizeof(float)},
      {gated, &w->saved.y_sa, branch},
      {gated, &w->saved.y_swa, branch},
      {p->mode == SATTN_MOBA, &w->saved.selected, rows * (uint64_t)p->topk * sizeof(uint32_t)},
  };
  sattn_status status = SATTN_OK;
  for (size_t i = 0; i < sizeof wants / sizeof wants[0] && status == SATTN_OK; ++i) {
    if (wants[i].wanted && wants[i].array->buffer == NULL) status = own_buffer(w, wants[i].bytes, &wants[i].array->buffer, error);
  }
  w->forward.saved = &w->saved;
  return status;
}

/* Workspaces, and a rehearsal of both checks. The two passes run one after the other and share one workspace. */
static sattn_status prepare_calls(work *w, sattn_error *error) {
  set_forward(w);
  sattn_saved_init(&w->saved);
  sattn_status status = w->backward ? make_saved(w, error) : SATTN_OK;
  uint64_t bytes = sattn_plan_workspace(w->plan, SATTN_PASS_FORWARD), more = sattn_plan_workspace(w->plan, SATTN_PASS_BACKWARD);
  if (more > bytes) bytes = more;
  if (status == SATTN_OK && bytes > 0) status = own_buffer(w, bytes, &w->forward.workspace, error);
  sattn_forward_call forward;
  if (status == SATTN_OK) status = sattn_forward_check(w->plan, &w->forward, &forward, error);
  if (status != SATTN_OK || !w->backward) return status;
  sattn_saved_fill(w->plan, &forward.args, &w->saved);
  set_backward(w);
  w->gradient.workspace = w->forward.workspace;
  sattn_backward_call backward;
  return sattn_backward_check(w->plan, &w->gradient, &backward, error);
}

/* NaN or +infinity in the denominator has no meaning that all arithmetic agrees on; -infinity is no sink at all. */
static sattn_status check_sink_logits(const work *w, sattn_error *error) {
  for (int64_t h = 0; w->call.sink_logits != NULL && h < w->call.attention.heads; ++h) {
    float logit = w->call.sink_logits[h];
    if (!(logit < INFINITY)) {
      return sattn_fail(error, SATTN_INVALID_ARGUMENT, "sink_logits", "sink_logits[%" PRId64 "] is %g: it must be finite or -infinity", h,
                        (double)logit);
    }
  }
  return SATTN_OK;
}

static sattn_status run(work *w, sattn_error *error) {
  const sattn_queue queue = {NULL};
  sattn_event event = {NULL};
  sattn_status status = sattn_forward(w->plan, &w->forward, queue, NULL, 0, &event, error);
  if (status == SATTN_OK && w->backward) {
    sattn_event first = event;
    event.native = NULL;
    status = sattn_backward(w->plan, &w->gradient, queue, &first, first.native != NULL ? 1 : 0, &event, error);
    sattn_status waited = sattn_event_wait(w->context, first, status == SATTN_OK ? error : NULL);
    sattn_event_release(w->context, &first);
    if (status == SATTN_OK) status = waited;
  }
  /* A pass that the driver failed may have enqueued a part of itself, which runs on memory that is about to be freed. */
  if (status != SATTN_OK) (void)sattn_queue_finish(w->context, queue, NULL);
  sattn_status waited = sattn_event_wait(w->context, event, status == SATTN_OK ? error : NULL);
  sattn_event_release(w->context, &event);
  return status != SATTN_OK ? status : waited;
}

static void release(work *w) {
  for (size_t i = 0; i < w->own_count; ++i) sattn_buffer_destroy(&w->own[i]);
  sattn_host_arrays_release(&w->arrays);
  sattn_permutation_destroy(&w->permutation);
  sattn_plan_destroy(&w->plan);
  sattn_context_destroy(&w->own_context);
}

sattn_status sattn_attention_host(const sattn_host_call *call, sattn_error *out_error) {
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  work w;
  memset(&w, 0, sizeof w);
  sattn_status status = read_call(&w, call, error);
  if (status == SATTN_OK) status = check_values("lengths", w.call.lengths, w.sizes.batch, w.sizes.keys, error);
  if (status == SATTN_OK) status = check_values("query_start", w.call.query_start, w.sizes.batch, w.sizes.keys - w.sizes.queries, error);
  if (status == SATTN_OK) status = check_sink_logits(&w, error);
  if (status == SATTN_OK) status = check_order(&w, error);
  if (status == SATTN_OK) status = collect(&w, error);
  if (status == SATTN_OK) status = make_objects(&w, error);
  if (status == SATTN_OK) status = sattn_host_arrays_send(&w.arrays, w.context, error);
  if (status == SATTN_OK) status = prepare_calls(&w, error);
  if (status == SATTN_OK) status = run(&w, error);
  if (status == SATTN_OK) status = sattn_host_arrays_receive(&w.arrays, error);
  release(&w);
  return status;
}
