/* What the plan calls refuse, with every output as it was before. */
#include "plan_case.h"

static sattn_status forward(plan_case *c, sattn_error *error) {
  return sattn_forward(c->plan, &c->forward, (sattn_queue){NULL}, NULL, 0, NULL, error);
}

static sattn_status backward(plan_case *c, sattn_error *error) {
  return sattn_backward(c->plan, &c->backward, (sattn_queue){NULL}, NULL, 0, NULL, error);
}

static void valid_calls_run_in_every_mode(void **state) {
  (void)state;
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    for (int options = 0; options < 2; ++options) {
      plan_case c;
      plan_case_open(&c, (sattn_mode)mode, options != 0);
      sattn_error error = {0};
      unit_ok(forward(&c, &error), &error);
      assert_true(c.saved.plan_id == c.plan->id);
      assert_true(c.saved.sizes.keys == CASE_KEYS && c.saved.out.buffer == c.forward.out.buffer);
      assert_ptr_equal(c.saved.permutation, c.permutation);
      unit_ok(backward(&c, &error), &error);
      plan_case_close(&c);
    }
  }
}

static void prepare_nothing(plan_case *c) {
  (void)c;
}
static void prepare_backward(plan_case *c) {
  sattn_error error = {0};
  unit_ok(forward(c, &error), &error);
  /* Backward must not touch these either. */
  static unsigned char pattern[CASE_BYTES];
  memset(pattern, CASE_PATTERN, sizeof pattern);
  sattn_buffer *outputs[] = {c->forward.out.buffer, c->forward.lse.buffer, c->forward.lse_sa.buffer, c->forward.lse_swa.buffer};
  for (size_t i = 0; i < 4; ++i) {
    if (outputs[i] != NULL) unit_ok(sattn_buffer_write(outputs[i], 0, pattern, sizeof pattern, &error), &error);
  }
}

/* One change to a valid call. */
#define FORWARD(label, mode, options, change, word, value) \
  static void label(plan_case *c) {                        \
    change;                                                \
  }
#define BACKWARD(label, mode, options, change, status, word, value) FORWARD(label, mode, options, change, word, value)
#include "plan_cases.h"
#undef FORWARD
#undef BACKWARD

typedef struct refusal {
  const char *label;
  sattn_mode mode;
  bool options;
  void (*change)(plan_case *c);
  sattn_status status;
  const char *word, *value;
  void (*prepare)(plan_case *c);
  sattn_status (*run)(plan_case *c, sattn_error *error);
} refusal;

static const refusal refusals[] = {
#define FORWARD(label, mode, options, change, word, value) \
  {#label, mode, options, label, SATTN_INVALID_ARGUMENT, word, value, prepare_nothing, forward},
#define BACKWARD(label, mode, options, change, status, word, value) \
  {#label, mode, options, label, status, word, value, prepare_backward, backward},
#include "plan_cases.h"
#undef FORWARD
#undef BACKWARD
};

static void check_untouched(const plan_case *c) {
  const sattn_buffer *const outputs[] = {
      c->forward.out.buffer,
      c->forward.lse.buffer,
      c->forward.lse_sa.buffer,
      c->forward.lse_swa.buffer,
      c->backward.grad_query.buffer,
      c->backward.grad_key.buffer,
      c->backward.grad_value.buffer,
      c->backward.grad_gate_sa.buffer,
      c->backward.grad_gate_swa.buffer,
      c->backward.grad_sink_logits.buffer,
  };
  const sattn_buffer *const inputs[] = {c->forward.query.buffer, c->forward.key.buffer, c->forward.value.buffer, c->foreign, c->workspace};
  for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; ++i) {
    bool skip = outputs[i] == NULL;
    for (size_t j = 0; j < sizeof inputs / sizeof inputs[0]; ++j) skip = skip || outputs[i] == inputs[j];
    if (!skip && sattn_buffer_size(outputs[i]) == CASE_BYTES) plan_case_untouched(outputs[i]);
  }
}

static void refused_calls_change_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; ++i) {
    const refusal *r = &refusals[i];
    plan_case c;
    plan_case_open(&c, r->mode, r->options);
    r->prepare(&c);
    r->change(&c);
    const sattn_saved before = c.saved;
    sattn_error error = {0};
    sattn_status status = r->run(&c, &error);
    if (status != r->status) print_error("%s\n", r->label);
    unit_refused(status, r->status, &error, r->word, r->value);
    assert_memory_equal(&c.saved, &before, sizeof before);
    check_untouched(&c);
    assert_int_equal(r->run(&c, NULL), r->status);
    plan_case_close(&c);
  }
}

static void objects_stay_usable_after_a_refusal(void **state) {
  (void)state;
  plan_case c;
  plan_case_open(&c, SATTN_STOCHASTIC, false);
  sattn_error error = {0};
  sattn_tensor out = c.forward.out;
  c.forward.out.buffer = NULL;
  assert_int_equal(forward(&c, NULL), SATTN_INVALID_ARGUMENT);
  c.forward.out = out;
  unit_ok(forward(&c, &error), &error);
  plan_case_close(&c);
}

static void redrawn_permutations_no_longer_match(void **state) {
  (void)state;
  plan_case c;
  plan_case_open(&c, SATTN_GATED, true);
  sattn_error error = {0};
  unit_ok(forward(&c, &error), &error);
  const sattn_permutation_key other = {99, 0, 0, 0}, same = {0, 0, 0, 0};
  unit_ok(sattn_permutation_redraw(c.permutation, &other, &error), &error);
  unit_refused(backward(&c, &error), SATTN_MISMATCH, &error, "permutation_hash", "redrawn");
  plan_case_untouched(c.backward.grad_query.buffer);
  unit_ok(sattn_permutation_redraw(c.permutation, &same, &error), &error);
  unit_ok(backward(&c, &error), &error);
  plan_case_close(&c);
}

static void permutations_must_fit_sharing(void **state) {
  (void)state;
  sattn_error error = {0};
  plan_case c;
  plan_case_open(&c, SATTN_STOCHASTIC, false);
  const struct {
    sattn_sharing plan, made;
    int64_t batch, kv_heads;
    const char *word;
  } cases[] = {
      {SATTN_PER_HEAD, SATTN_PER_HEAD, 1, 1, NULL},       {SATTN_PER_HEAD, SATTN_PER_HEAD, 1, 2, "kv_heads 2"},
      {SATTN_PER_BATCH, SATTN_PER_BATCH, 2, 1, NULL},     {SATTN_PER_BATCH, SATTN_PER_BATCH, 3, 1, "batch 3"},
      {SATTN_PER_BATCH, SATTN_SHARED, 1, 1, "sharing 0"}, {SATTN_PER_BATCH_AND_HEAD, SATTN_PER_BATCH_AND_HEAD, 2, 1, NULL},
      {SATTN_SHARED, SATTN_PER_BATCH, 2, 1, "sharing 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sattn_plan *plan = NULL;
    sattn_permutation *permutation = NULL;
    c.attention.sharing = cases[i].plan;
    unit_ok(sattn_plan_create(c.context, &c.attention, &c.forward.sizes, 3, &plan, &error), &error);
    sattn_permutation_options options;
    sattn_permutation_options_init(&options);
    options.length = CASE_KEYS;
    options.sharing = cases[i].made;
    options.batch = cases[i].batch;
    options.kv_heads = cases[i].kv_heads;
    unit_ok(sattn_permutation_create(c.context, &options, &permutation, &error), &error);
    c.forward.permutation = permutation;
    sattn_status status = sattn_forward(plan, &c.forward, (sattn_queue){NULL}, NULL, 0, NULL, &error);
    if (cases[i].word == NULL) {
      unit_ok(status, &error);
    } else {
      unit_refused(status, SATTN_INVALID_ARGUMENT, &error, "permutation", cases[i].word);
    }
    sattn_permutation_destroy(&permutation);
    sattn_plan_destroy(&plan);
  }
  plan_case_close(&c);
}

static void check_zero(const sattn_buffer *buffer, size_t count) {
  float values[64];
  assert_true(count <= 64);
  assert_int_equal(sattn_buffer_read((sattn_buffer *)buffer, 0, values, count * sizeof values[0], NULL), SATTN_OK);
  for (size_t i = 0; i < count; ++i) assert_true(values[i] == 0.0f);
}

static void empty_calls(void **state) {
  (void)state;
  const sattn_sizes empty[] = {{0, CASE_QUERIES, CASE_KEYS}, {CASE_BATCH, 0, CASE_KEYS}, {0, 0, 0}, {CASE_BATCH, 0, 0}};
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    for (size_t i = 0; i < 4; ++i) {
      plan_case c;
      plan_case_open(&c, (sattn_mode)mode, true);
      sattn_error error = {0};
      c.forward.sizes = empty[i];
      if (empty[i].keys == 0) c.forward.permutation = NULL;
      sattn_event event = {&c};
      unit_ok(sattn_forward(c.plan, &c.forward, (sattn_queue){NULL}, NULL, 0, &event, &error), &error);
      assert_null(event.native);
      plan_case_untouched(c.forward.out.buffer);
      unit_ok(backward(&c, &error), &error);
      check_zero(c.backward.grad_sink_logits.buffer, CASE_HEADS);
      if (empty[i].batch > 0 && empty[i].keys > 0) {
        check_zero(c.backward.grad_key.buffer, CASE_BATCH * CASE_KEYS * CASE_DIM);
        check_zero(c.backward.grad_value.buffer, CASE_BATCH * CASE_KEYS * CASE_DIM);
      } else {
        plan_case_untouched(c.backward.grad_key.buffer);
      }
      plan_case_untouched(c.backward.grad_query.buffer);
      plan_case_close(&c);
    }
  }
}

static void arrays_without_elements_need_no_buffer(void **state) {
  (void)state;
  plan_case c;
  plan_case_open(&c, SATTN_FULL, false);
  sattn_forward_args args;
  sattn_forward_args_init(&args);
  args.sizes = (sattn_sizes){0, 0, 0};
  sattn_error error = {0};
  unit_ok(sattn_forward(c.plan, &args, (sattn_queue){NULL}, NULL, 0, NULL, &error), &error);
  plan_case_close(&c);
}

static void gradients_may_be_slices_of_one_buffer(void **state) {
  (void)state;
  plan_case c;
  plan_case_open(&c, SATTN_FULL, false);
  sattn_error error = {0};
  unit_ok(forward(&c, &error), &error);
  /* [B, n, H + 2 H_kv, d]; the batch stride is that of the longer sequence. */
  sattn_buffer *packed = plan_case_buffer(&c);
  int64_t token = (CASE_HEADS + 2) * CASE_DIM, batch = CASE_KEYS * token;
  c.backward.grad_query = (sattn_tensor){packed, 0, batch, token, CASE_DIM};
  c.backward.grad_key = (sattn_tensor){packed, CASE_HEADS * CASE_DIM, batch, token, CASE_DIM};
  c.backward.grad_value = (sattn_tensor){packed, (CASE_HEADS + 1) * CASE_DIM, batch, token, CASE_DIM};
  unit_ok(backward(&c, &error), &error);
  c.backward.grad_value.offset -= 1;
  unit_refused(backward(&c, &error), SATTN_INVALID_ARGUMENT, &error, "grad_value overlaps grad_key", NULL);
  plan_case_close(&c);
}

static void create_and_query_agree(void **state) {
  (void)state;
  sattn_context *context = unit_context();
  sattn_attention good;
  sattn_attention_init(&good);
  good.mode = SATTN_FULL;
  good.heads = 2;
  good.head_dim = 8;
  sattn_attention bad = good;
  bad.head_dim = 257;
  const sattn_sizes fine = {1, 2, 3}, more_queries = {1, 4, 2};
  const struct {
    const sattn_attention *attention;
    const sattn_sizes *maxima;
    uint32_t passes;
    const char *word;
  } cases[] = {{&good, &fine, 1, NULL},           {&good, &fine, 2, NULL},
               {&good, &fine, 3, NULL},           {&bad, &fine, 1, "257"},
               {&good, &more_queries, 1, "quer"}, {&good, &fine, 0, "passes is 0"},
               {&good, &fine, 4, "passes is 4"},  {NULL, &fine, 1, "attention is NULL"},
               {&good, NULL, 1, "maxima"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sattn_plan_info asked, got;
    sattn_plan_info_init(&asked);
    sattn_plan_info_init(&got);
    sattn_error error = {0}, second = {0};
    sattn_plan *plan = NULL;
    sattn_status status = sattn_plan_query(context, cases[i].attention, cases[i].maxima, cases[i].passes, &asked, &error);
    assert_int_equal(sattn_plan_create(context, cases[i].attention, cases[i].maxima, cases[i].passes, &plan, &second), status);
    if (cases[i].word == NULL) {
      unit_ok(status, &error);
      unit_ok(sattn_plan_get_info(plan, &got, &error), &error);
      assert_memory_equal(&asked, &got, sizeof asked);
      assert_int_equal(got.forward_path != 0, (cases[i].passes & SATTN_PASS_FORWARD) != 0);
      assert_int_equal(got.backward_path != 0, (cases[i].passes & SATTN_PASS_BACKWARD) != 0);
      assert_true(sattn_plan_workspace(plan, SATTN_PASS_FORWARD) == got.forward_workspace);
      assert_true(sattn_plan_workspace(plan, SATTN_PASS_BACKWARD) == got.backward_workspace);
    } else {
      unit_refused(status, SATTN_INVALID_ARGUMENT, &error, cases[i].word, NULL);
      assert_string_equal(error.message, second.message);
      assert_null(plan);
    }
    sattn_plan_destroy(&plan);
  }
  sattn_context_destroy(&context);
}

static void limits_of_the_device_are_kept(void **state) {
  (void)state;
  sattn_context *context = unit_context();
  sattn_attention attention;
  sattn_attention_init(&attention);
  attention.mode = SATTN_FULL;
  attention.heads = 4;
  attention.kv_heads = 1;
  attention.head_dim = 8;
  sattn_plan_info info;
  sattn_plan_info_init(&info);
  sattn_error error = {0};
  sattn_sizes sizes = {64, 32, 128};
  context->device.max_allocation_bytes = 262144;
  unit_ok(sattn_plan_query(context, &attention, &sizes, SATTN_PASS_FORWARD, &info, &error), &error);
  sizes.queries = 33;
  unit_refused(sattn_plan_query(context, &attention, &sizes, SATTN_PASS_FORWARD, &info, &error), SATTN_OUT_OF_MEMORY, &error, "270336",
               "262144");
  sizes = (sattn_sizes){64, 32, 129};
  unit_refused(sattn_plan_query(context, &attention, &sizes, SATTN_PASS_FORWARD, &info, &error), SATTN_OUT_OF_MEMORY, &error, "264192",
               "262144");
  sattn_context_destroy(&context);
}

static void null_handles(void **state) {
  (void)state;
  sattn_error error = {0};
  sattn_plan_info info;
  sattn_plan_info_init(&info);
  sattn_plan *plan = NULL;
  const sattn_sizes sizes = {1, 1, 1};
  unit_refused(sattn_plan_query(NULL, NULL, &sizes, 1, &info, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_plan_create(NULL, NULL, &sizes, 1, &plan, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_plan_get_info(NULL, &info, &error), SATTN_INVALID_ARGUMENT, &error, "plan", NULL);
  const sattn_queue queue = {NULL};
  unit_refused(sattn_forward(NULL, NULL, queue, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "plan", NULL);
  unit_refused(sattn_backward(NULL, NULL, queue, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "plan", NULL);
  assert_true(sattn_plan_workspace(NULL, SATTN_PASS_FORWARD) == 0);
  sattn_plan_set_profiling(NULL, 1);
  sattn_plan_get_profile(NULL, NULL);
  sattn_plan_destroy(&plan);
  sattn_plan_destroy(NULL);
  sattn_forward_args_init(NULL);
  sattn_backward_args_init(NULL);
  sattn_saved_init(NULL);
  sattn_profile_init(NULL);
  sattn_plan_info_init(NULL);
  plan_case c;
  plan_case_open(&c, SATTN_FULL, false);
  unit_refused(sattn_forward(c.plan, NULL, queue, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "args is NULL", NULL);
  unit_refused(sattn_backward(c.plan, NULL, queue, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "args is NULL", NULL);
  unit_refused(sattn_forward(c.plan, &c.forward, queue, NULL, 2, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "wait_list", "2");
  plan_case_close(&c);
}

static void profiles(void **state) {
  (void)state;
  plan_case c;
  plan_case_open(&c, SATTN_STOCHASTIC, false);
  sattn_error error = {0};
  sattn_profile profile;
  sattn_profile_init(&profile);
  sattn_plan_set_profiling(c.plan, 1);
  unit_ok(forward(&c, &error), &error);
  sattn_plan_get_profile(c.plan, &profile);
  assert_true(profile.permute_seconds >= 0 && profile.attend_seconds >= 0 && profile.attend_seconds < 10);
  plan_case_close(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(valid_calls_run_in_every_mode),
    cmocka_unit_test(refused_calls_change_nothing),
    cmocka_unit_test(objects_stay_usable_after_a_refusal),
    cmocka_unit_test(redrawn_permutations_no_longer_match),
    cmocka_unit_test(permutations_must_fit_sharing),
    cmocka_unit_test(empty_calls),
    cmocka_unit_test(arrays_without_elements_need_no_buffer),
    cmocka_unit_test(gradients_may_be_slices_of_one_buffer),
    cmocka_unit_test(create_and_query_agree),
    cmocka_unit_test(limits_of_the_device_are_kept),
    cmocka_unit_test(null_handles),
    cmocka_unit_test(profiles),
};
UNIT_MAIN(tests)
