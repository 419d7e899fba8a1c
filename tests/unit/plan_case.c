#include "plan_case.h"

sattn_buffer *plan_case_buffer(plan_case *c) {
  static unsigned char pattern[CASE_BYTES];
  memset(pattern, CASE_PATTERN, sizeof pattern);
  assert_true(c->buffers < CASE_BUFFERS);
  sattn_buffer *buffer = NULL;
  sattn_error error = {0};
  unit_ok(sattn_buffer_create(c->context, CASE_BYTES, &buffer, &error), &error);
  unit_ok(sattn_buffer_write(buffer, 0, pattern, sizeof pattern, &error), &error);
  c->buffer[c->buffers++] = buffer;
  return buffer;
}

void plan_case_untouched(const sattn_buffer *buffer) {
  unsigned char bytes[CASE_BYTES];
  assert_int_equal(sattn_buffer_read((sattn_buffer *)buffer, 0, bytes, sizeof bytes, NULL), SATTN_OK);
  for (int i = 0; i < CASE_BYTES; ++i) assert_int_equal(bytes[i], CASE_PATTERN);
}

/* Zeros are valid numbers of every kind: tensors, lengths, positions. */
static sattn_tensor input(plan_case *c) {
  static const unsigned char zeros[CASE_BYTES];
  sattn_buffer *buffer = plan_case_buffer(c);
  assert_int_equal(sattn_buffer_write(buffer, 0, zeros, sizeof zeros, NULL), SATTN_OK);
  return (sattn_tensor){buffer, 0, 0, 0, 0};
}
static sattn_array input_array(plan_case *c) {
  return (sattn_array){input(c).buffer, 0};
}
static sattn_tensor output(plan_case *c) {
  return (sattn_tensor){plan_case_buffer(c), 0, 0, 0, 0};
}
static sattn_array output_array(plan_case *c) {
  return (sattn_array){plan_case_buffer(c), 0};
}

static void describe(plan_case *c, sattn_mode mode, bool options) {
  sattn_attention *a = &c->attention;
  sattn_attention_init(a);
  a->mode = mode;
  a->heads = CASE_HEADS;
  a->kv_heads = 1;
  a->head_dim = CASE_DIM;
  bool sa = mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED;
  if (sa) a->window_sa = sattn_window_width(2);
  if (mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION || mode == SATTN_GATED) a->window_swa = sattn_window_width(2);
  if (mode == SATTN_MOBA) a->block = a->topk = 2;
  a->has_lengths = a->has_query_start = a->has_sink_logits = options;
}

static void make_objects(plan_case *c) {
  sattn_error error = {0};
  const sattn_sizes maxima = {CASE_BATCH, CASE_QUERIES, CASE_KEYS};
  uint32_t passes = SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD;
  c->context = unit_context();
  c->other_context = unit_context();
  unit_ok(sattn_plan_create(c->context, &c->attention, &maxima, passes, &c->plan, &error), &error);
  unit_ok(sattn_plan_create(c->context, &c->attention, &maxima, passes, &c->other_plan, &error), &error);
  unit_ok(sattn_buffer_create(c->other_context, CASE_BYTES, &c->foreign, &error), &error);
  uint64_t forward = sattn_plan_workspace(c->plan, SATTN_PASS_FORWARD), backward = sattn_plan_workspace(c->plan, SATTN_PASS_BACKWARD);
  unit_ok(sattn_buffer_create(c->context, (forward > backward ? forward : backward) + 256, &c->workspace, &error), &error);
  if (c->attention.window_sa.kind == SATTN_WINDOW_NONE) return;
  sattn_permutation_options options;
  sattn_permutation_options_init(&options);
  options.length = CASE_KEYS;
  unit_ok(sattn_permutation_create(c->context, &options, &c->permutation, &error), &error);
}

static void fill_forward(plan_case *c, bool gated, bool options) {
  sattn_forward_args *f = &c->forward;
  sattn_forward_args_init(f);
  sattn_saved_init(&c->saved);
  f->sizes = (sattn_sizes){CASE_BATCH, CASE_QUERIES, CASE_KEYS};
  f->query = input(c);
  f->key = input(c);
  f->value = input(c);
  f->permutation = c->permutation;
  if (gated) {
    f->gate_sa = input(c);
    f->gate_swa = input(c);
    f->lse_sa = output_array(c);
    f->lse_swa = output_array(c);
    c->saved.y_sa = output_array(c);
    c->saved.y_swa = output_array(c);
  } else {
    f->lse = output_array(c);
  }
  if (options) {
    f->lengths = input_array(c);
    f->query_start = input_array(c);
    f->sink_logits = input_array(c);
  }
  if (c->attention.mode == SATTN_MOBA) c->saved.selected = output_array(c);
  f->out = output(c);
  f->workspace = c->workspace;
  f->saved = &c->saved;
}

static void fill_backward(plan_case *c, bool gated, bool options) {
  sattn_backward_args *g = &c->backward;
  const sattn_forward_args *f = &c->forward;
  sattn_backward_args_init(g);
  g->saved = &c->saved;
  g->query = f->query;
  g->key = f->key;
  g->value = f->value;
  g->gate_sa = f->gate_sa;
  g->gate_swa = f->gate_swa;
  g->lengths = f->lengths;
  g->query_start = f->query_start;
  g->sink_logits = f->sink_logits;
  g->grad_out = input(c);
  g->grad_query = output(c);
  g->grad_key = output(c);
  g->grad_value = output(c);
  if (gated) {
    g->grad_gate_sa = output(c);
    g->grad_gate_swa = output(c);
  }
  if (options) g->grad_sink_logits = output_array(c);
  g->workspace = c->workspace;
}

void plan_case_open(plan_case *c, sattn_mode mode, bool options) {
  memset(c, 0, sizeof *c);
  describe(c, mode, options);
  make_objects(c);
  fill_forward(c, mode == SATTN_GATED, options);
  fill_backward(c, mode == SATTN_GATED, options);
}

void plan_case_close(plan_case *c) {
  for (int i = 0; i < c->buffers; ++i) sattn_buffer_destroy(&c->buffer[i]);
  sattn_buffer_destroy(&c->workspace);
  sattn_buffer_destroy(&c->foreign);
  sattn_permutation_destroy(&c->permutation);
  sattn_plan_destroy(&c->plan);
  sattn_plan_destroy(&c->other_plan);
  sattn_context_destroy(&c->context);
  sattn_context_destroy(&c->other_context);
}
