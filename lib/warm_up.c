/* One small call of every pass of a plan, in memory made for it: what drivers put off until the first real launch is done afterwards. */
#include <stdlib.h>
#include <string.h>

#include "calls.h"

#define KEYS     256 /* enough for several tiles and blocks of every kernel */
#define CAPACITY 32

typedef struct warm_up {
  const sattn_plan *plan;
  sattn_sizes sizes;
  sattn_permutation *permutation;
  sattn_buffer *buffer[CAPACITY];
  size_t count;
  sattn_status status;
  sattn_error *error;
  sattn_saved saved;
  sattn_forward_args forward;
  sattn_backward_args backward;
} warm_up;

/* A zeroed buffer; NULL where it is not wanted or something failed before. */
static sattn_buffer *zeros(warm_up *w, bool wanted, uint64_t bytes) {
  if (!wanted || w->status != SATTN_OK) return NULL;
  sattn_buffer *buffer = NULL;
  void *memory = calloc(1, (size_t)bytes + 1);
  if (memory == NULL) {
    w->status = sattn_fail(w->error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for warming up");
    return NULL;
  }
  w->status = sattn_buffer_create(w->plan->context, bytes, &buffer, w->error);
  if (w->status == SATTN_OK) {
    w->buffer[w->count++] = buffer;
    w->status = sattn_buffer_write(buffer, 0, memory, bytes, w->error);
  }
  free(memory);
  return buffer;
}

static sattn_tensor rows(warm_up *w, bool wanted, sattn_dtype dtype, int64_t tokens, int64_t heads, int64_t width) {
  sattn_tensor tensor = {NULL, 0, 0, 0, 0};
  tensor.buffer = zeros(w, wanted, (uint64_t)w->sizes.batch * (uint64_t)(tokens * heads * width) * sattn_dtype_size(dtype));
  return tensor;
}

static sattn_array flat(warm_up *w, bool wanted, int64_t count) {
  return (sattn_array){zeros(w, wanted, (uint64_t)count * sizeof(float)), 0};
}

static void make_permutation(warm_up *w) {
  const sattn_problem *p = &w->plan->problem;
  if (!p->uses_sa || w->status != SATTN_OK) return;
  sattn_permutation_options options;
  sattn_permutation_options_init(&options);
  options.length = p->order_length > 0 ? p->order_length : w->sizes.keys;
  options.sharing = p->sharing;
  options.batch = w->sizes.batch;
  options.kv_heads = p->kv_heads;
  w->status = sattn_permutation_create(w->plan->context, &options, &w->permutation, w->error);
}

static void make_forward(warm_up *w) {
  const sattn_problem *p = &w->plan->problem;
  const bool gated = p->mode == SATTN_GATED, backward = (w->plan->passes & SATTN_PASS_BACKWARD) != 0;
  const int64_t queries = w->sizes.queries, keys = w->sizes.keys, d = p->head_dim, lines = w->sizes.batch * p->heads * queries;
  sattn_forward_args *args = &w->forward;
  sattn_forward_args_init(args);
  args->sizes = w->sizes;
  args->query = rows(w, true, p->dtype, queries, p->heads, d);
  args->key = rows(w, true, p->dtype, keys, p->kv_heads, d);
  args->value = rows(w, true, p->dtype, keys, p->kv_heads, d);
  args->out = rows(w, true, p->dtype, queries, p->heads, d);
  args->gate_sa = rows(w, gated, p->gate_dtype, queries, p->heads, sattn_gate_width(p, p->gate_sa_shape));
  args->gate_swa = rows(w, gated, p->gate_dtype, queries, p->heads, sattn_gate_width(p, p->gate_swa_shape));
  args->lengths = flat(w, p->has_lengths, w->sizes.batch);
  args->query_start = flat(w, p->has_query_start, w->sizes.batch);
  args->sink_logits = flat(w, p->has_sink_logits, p->heads);
  args->lse = flat(w, !gated, lines);
  args->lse_sa = flat(w, gated, lines);
  args->lse_swa = flat(w, gated, lines);
  args->permutation = w->permutation;
  sattn_saved_init(&w->saved);
  if (!backward) return;
  args->saved = &w->saved;
  w->saved.y_sa.buffer = rows(w, gated, p->dtype, queries, p->heads, d).buffer;
  w->saved.y_swa.buffer = rows(w, gated, p->dtype, queries, p->heads, d).buffer;
  w->saved.selected = flat(w, p->mode == SATTN_MOBA, lines * p->topk);
}

static void make_backward(warm_up *w) {
  const sattn_problem *p = &w->plan->problem;
  const bool gated = p->mode == SATTN_GATED;
  const int64_t queries = w->sizes.queries, keys = w->sizes.keys, d = p->head_dim;
  sattn_backward_args *args = &w->backward;
  sattn_backward_args_init(args);
  args->saved = &w->saved;
  args->query = w->forward.query;
  args->key = w->forward.key;
  args->value = w->forward.value;
  args->gate_sa = w->forward.gate_sa;
  args->gate_swa = w->forward.gate_swa;
  args->lengths = w->forward.lengths;
  args->query_start = w->forward.query_start;
  args->sink_logits = w->forward.sink_logits;
  args->grad_out = rows(w, true, p->dtype, queries, p->heads, d);
  args->grad_query = rows(w, true, p->dtype, queries, p->heads, d);
  args->grad_key = rows(w, true, p->dtype, keys, p->kv_heads, d);
  args->grad_value = rows(w, true, p->dtype, keys, p->kv_heads, d);
  args->grad_gate_sa = rows(w, gated, p->gate_dtype, queries, p->heads, sattn_gate_width(p, p->gate_sa_shape));
  args->grad_gate_swa = rows(w, gated, p->gate_dtype, queries, p->heads, sattn_gate_width(p, p->gate_swa_shape));
  args->grad_sink_logits = flat(w, p->has_sink_logits, p->heads);
}

/* Enqueues both passes on the context's own queue, which is in order, and waits. */
static void run(warm_up *w) {
  const sattn_queue queue = {NULL};
  const bool forward = (w->plan->passes & SATTN_PASS_FORWARD) != 0, backward = (w->plan->passes & SATTN_PASS_BACKWARD) != 0;
  if (w->status == SATTN_OK && forward) w->status = sattn_forward(w->plan, &w->forward, queue, NULL, 0, NULL, w->error);
  if (w->status == SATTN_OK && forward && backward) w->status = sattn_backward(w->plan, &w->backward, queue, NULL, 0, NULL, w->error);
  sattn_status finished = sattn_queue_finish(w->plan->context, queue, w->status == SATTN_OK ? w->error : NULL);
  if (w->status == SATTN_OK) w->status = finished;
}

sattn_status sattn_plan_warm_up(const sattn_plan *plan, sattn_error *out_error) {
  if (plan == NULL) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "plan", "plan is NULL");
  warm_up w;
  memset(&w, 0, sizeof w);
  w.plan = plan;
  w.error = out_error;
  w.sizes = plan->maxima;
  if (w.sizes.batch > 1) w.sizes.batch = 1;
  if (w.sizes.keys > KEYS) w.sizes.keys = KEYS;
  if (w.sizes.queries > w.sizes.keys) w.sizes.queries = w.sizes.keys;
  if (w.sizes.batch == 0 || w.sizes.queries == 0) return SATTN_OK;
  make_permutation(&w);
  make_forward(&w);
  if (plan->passes & SATTN_PASS_BACKWARD) make_backward(&w);
  uint64_t bytes = sattn_plan_workspace(plan, SATTN_PASS_FORWARD), more = sattn_plan_workspace(plan, SATTN_PASS_BACKWARD);
  if (more > bytes) bytes = more;
  if (w.status == SATTN_OK && bytes > 0) {
    w.status = sattn_buffer_create(plan->context, bytes, &w.forward.workspace, out_error);
    if (w.status == SATTN_OK) w.buffer[w.count++] = w.forward.workspace;
  }
  w.backward.workspace = w.forward.workspace;
  run(&w);
  for (size_t i = 0; i < w.count; ++i) sattn_buffer_destroy(&w.buffer[i]);
  sattn_permutation_destroy(&w.permutation);
  return w.status;
}
