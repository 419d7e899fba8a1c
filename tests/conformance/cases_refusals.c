/* Bad input: a status, a message that names argument, value and rule, outputs untouched, the library usable afterwards. */
#include <math.h>

#include "conformance.h"

/* ---- descriptions ---- */

typedef struct bad_description {
  const char *label;
  const char *argument;
  sattn_mode mode;
  void (*spoil)(sattn_attention *a);
} bad_description;

#define SPOIL(name, body)                \
  static void name(sattn_attention *a) { \
    body;                                \
  }

SPOIL(mode_unknown, a->mode = (sattn_mode)77)
SPOIL(mode_zero, a->mode = (sattn_mode)0)
SPOIL(dtype_unknown, a->dtype = (sattn_dtype)9)
SPOIL(heads_zero, a->heads = 0)
SPOIL(heads_negative, a->heads = -2)
SPOIL(heads_uneven, a->heads = 3)
SPOIL(heads_fewer, (a->heads = 2, a->kv_heads = 4))
SPOIL(kv_heads_negative, a->kv_heads = -1)
SPOIL(head_dim_zero, a->head_dim = 0)
SPOIL(head_dim_large, a->head_dim = 257)
SPOIL(value_head_dim_other, a->value_head_dim = 32)
SPOIL(causal_two, a->causal = 2)
SPOIL(width_zero, a->window_swa = sattn_window_width(0))
SPOIL(width_negative, a->window_swa = sattn_window_width(-1))
SPOIL(width_smallest, a->window_swa = sattn_window_width(INT64_MIN))
SPOIL(left_negative, a->window_swa = sattn_window_sides(-1, 3))
SPOIL(right_negative, a->window_swa = sattn_window_sides(3, -5))
SPOIL(width_and_left, a->window_swa.left = 2)
SPOIL(sides_and_width, (a->window_swa = sattn_window_sides(1, 1), a->window_swa.width = 3))
SPOIL(kind_unknown, a->window_swa.kind = (sattn_window_kind)5)
SPOIL(swa_missing, a->window_swa.kind = SATTN_WINDOW_NONE; a->window_swa.width = 0)
SPOIL(sa_missing, a->window_sa.kind = SATTN_WINDOW_NONE; a->window_sa.width = 0)
SPOIL(sa_superfluous, a->window_sa = sattn_window_width(3))
SPOIL(swa_superfluous, a->window_swa = sattn_window_width(3))
SPOIL(wrap_given, a->wrap = 1)
SPOIL(wrap_two, a->wrap = 2)
SPOIL(order_length_negative, a->order_length = -1)
SPOIL(order_length_short, a->order_length = 5)
SPOIL(order_length_given, a->order_length = 100)
SPOIL(sharing_unknown, a->sharing = (sattn_sharing)4)
SPOIL(sharing_given, a->sharing = SATTN_PER_HEAD)
SPOIL(sinks_negative, a->sink_tokens = -1)
SPOIL(sinks_given, a->sink_tokens = 2)
SPOIL(block_zero, a->block = 0)
SPOIL(block_negative, a->block = -8)
SPOIL(topk_zero, a->topk = 0)
SPOIL(block_given, a->block = 8)
SPOIL(topk_given, a->topk = 2)
SPOIL(scale_nan, a->scale = (double)NAN)
SPOIL(scale_infinite, a->scale = (double)INFINITY)
SPOIL(softcap_negative, a->softcap = -1)
SPOIL(softcap_nan, a->softcap = (double)NAN)
SPOIL(softcap_infinite, a->softcap = (double)INFINITY)
SPOIL(gate_dtype_other, (a->dtype = SATTN_FP16, a->gate_dtype = SATTN_BF16))
SPOIL(gate_shape_unknown, a->gate_sa_shape = (sattn_gate_shape)3)
SPOIL(lengths_two, a->has_lengths = 2)
SPOIL(size_zero, a->struct_size = 0)
SPOIL(size_large, a->struct_size = sizeof *a + 8)

static const bad_description descriptions[] = {
    {"mode 77", "mode", SATTN_FULL, mode_unknown},
    {"mode 0", "mode", SATTN_FULL, mode_zero},
    {"dtype 9", "dtype", SATTN_FULL, dtype_unknown},
    {"heads 0", "heads", SATTN_FULL, heads_zero},
    {"heads -2", "heads", SATTN_FULL, heads_negative},
    {"heads 3/2", "heads", SATTN_FULL, heads_uneven},
    {"heads 2/4", "heads", SATTN_FULL, heads_fewer},
    {"kv_heads -1", "kv_heads", SATTN_FULL, kv_heads_negative},
    {"head_dim 0", "head_dim", SATTN_FULL, head_dim_zero},
    {"head_dim 257", "head_dim", SATTN_FULL, head_dim_large},
    {"value_head_dim", "value_head_dim", SATTN_FULL, value_head_dim_other},
    {"causal 2", "causal", SATTN_FULL, causal_two},
    {"width 0", "window_swa", SATTN_SLIDING_WINDOW, width_zero},
    {"width -1", "window_swa", SATTN_SLIDING_WINDOW, width_negative},
    {"width INT64_MIN", "window_swa", SATTN_SLIDING_WINDOW, width_smallest},
    {"left -1", "window_swa.left", SATTN_SLIDING_WINDOW, left_negative},
    {"right -5", "window_swa.right", SATTN_SLIDING_WINDOW, right_negative},
    {"width and left", "window_swa", SATTN_SLIDING_WINDOW, width_and_left},
    {"sides and width", "window_swa", SATTN_SLIDING_WINDOW, sides_and_width},
    {"window kind 5", "window_swa", SATTN_SLIDING_WINDOW, kind_unknown},
    {"no window", "window_swa", SATTN_SLIDING_WINDOW, swa_missing},
    {"no SA window", "window_sa", SATTN_UNION, sa_missing},
    {"no SWA window", "window_swa", SATTN_GATED, swa_missing},
    {"an SA window in SWA", "window_sa", SATTN_SLIDING_WINDOW, sa_superfluous},
    {"an SWA window in SA", "window_swa", SATTN_STOCHASTIC, swa_superfluous},
    {"a window in FULL", "window_swa", SATTN_FULL, swa_superfluous},
    {"a window in MOBA", "window_sa", SATTN_MOBA, sa_superfluous},
    {"wrap in SWA", "wrap", SATTN_SLIDING_WINDOW, wrap_given},
    {"wrap 2", "wrap", SATTN_STOCHASTIC, wrap_two},
    {"order_length -1", "order_length", SATTN_STOCHASTIC, order_length_negative},
    {"order_length 5", "order_length", SATTN_STOCHASTIC, order_length_short},
    {"order_length in MOBA", "order_length", SATTN_MOBA, order_length_given},
    {"sharing 4", "sharing", SATTN_STOCHASTIC, sharing_unknown},
    {"sharing in FULL", "sharing", SATTN_FULL, sharing_given},
    {"sink_tokens -1", "sink_tokens", SATTN_STOCHASTIC, sinks_negative},
    {"sink_tokens in FULL", "sink_tokens", SATTN_FULL, sinks_given},
    {"block 0", "block", SATTN_MOBA, block_zero},
    {"block -8", "block", SATTN_MOBA, block_negative},
    {"topk 0", "topk", SATTN_MOBA, topk_zero},
    {"block in FULL", "block", SATTN_FULL, block_given},
    {"topk in SA", "topk", SATTN_STOCHASTIC, topk_given},
    {"scale NaN", "scale", SATTN_FULL, scale_nan},
    {"scale infinite", "scale", SATTN_FULL, scale_infinite},
    {"softcap -1", "softcap", SATTN_FULL, softcap_negative},
    {"softcap NaN", "softcap", SATTN_FULL, softcap_nan},
    {"softcap infinite", "softcap", SATTN_FULL, softcap_infinite},
    {"gate_dtype", "gate_dtype", SATTN_GATED, gate_dtype_other},
    {"gate shape 3", "gate_sa_shape", SATTN_GATED, gate_shape_unknown},
    {"has_lengths 2", "has_lengths", SATTN_FULL, lengths_two},
    {"struct_size 0", "", SATTN_FULL, size_zero},
    {"struct_size too large", "", SATTN_FULL, size_large},
};

static void bad_descriptions(test_env *env) {
  for (size_t i = 0; i < sizeof descriptions / sizeof descriptions[0]; ++i) {
    const bad_description *bad = &descriptions[i];
    test_call call;
    sattn_error error;
    sattn_error of_query;
    sattn_plan *plan = NULL;
    sattn_plan_info info;
    test_call_init(&call, bad->mode, 1, 8, 8, 2, 2, 16);
    bad->spoil(&call.attention);
    sattn_plan_info_init(&info);
    sattn_plan_info before = info;
    sattn_status status = sattn_plan_create(env->context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &plan, &error);
    test_check_refusal(env, bad->label, status, SATTN_INVALID_ARGUMENT, &error, bad->argument);
    if (plan) test_fail(env->suite, "%s: out_plan was written", bad->label);
    sattn_plan_destroy(&plan);
    status = sattn_plan_query(env->context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &info, &of_query);
    if (status != SATTN_INVALID_ARGUMENT || strcmp(of_query.message, error.message) != 0)
      test_fail(env->suite, "%s: the support query says something else: %s", bad->label, of_query.message);
    if (memcmp(&before, &info, sizeof info) != 0) test_fail(env->suite, "%s: out_info was written", bad->label);
    /* Without an error struct the answer is the same. */
    if (sattn_plan_create(env->context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &plan, NULL) != SATTN_INVALID_ARGUMENT)
      test_fail(env->suite, "%s: another status without an error struct", bad->label);
  }
}

static void bad_sizes(test_env *env) {
  static const sattn_sizes sizes[] = {{-1, 4, 4}, {1, -1, 4}, {1, 4, -1}, {1, 5, 4}, {1, 1, INT64_C(1) << 31}, {INT64_MAX, 4, INT32_MAX}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    test_call call;
    sattn_error error;
    sattn_plan *plan = NULL;
    test_call_init(&call, SATTN_FULL, 1, 4, 4, 2, 2, 16);
    sattn_status status = sattn_plan_create(env->context, &call.attention, &sizes[i], SATTN_PASS_FORWARD, &plan, &error);
    test_check_refusal(env, "sizes", status, SATTN_INVALID_ARGUMENT, &error, "");
  }
  test_call call;
  sattn_error error;
  sattn_plan *plan = NULL;
  test_call_init(&call, SATTN_FULL, 1, 4, 4, 2, 2, 16);
  for (uint32_t passes = 0; passes <= 8; passes += 4) {
    sattn_status status = sattn_plan_create(env->context, &call.attention, &call.sizes, passes, &plan, &error);
    test_check_refusal(env, "passes", status, SATTN_INVALID_ARGUMENT, &error, "passes");
  }
}

/* ---- calls ---- */

typedef struct bad_call {
  const char *label;
  const char *argument;
  sattn_mode mode;
  void (*spoil)(test_run *run, sattn_forward_args *a);
} bad_call;

#define SPOIL_CALL(name, body)                             \
  static void name(test_run *run, sattn_forward_args *a) { \
    (void)run;                                             \
    body;                                                  \
  }

SPOIL_CALL(no_query, a->query.buffer = NULL)
SPOIL_CALL(no_out, a->out.buffer = NULL)
SPOIL_CALL(offset_negative, a->key.offset = -1)
SPOIL_CALL(offset_beyond, a->key.offset = 1 << 20)
SPOIL_CALL(stride_beyond, (a->value.stride_token = 1 << 16, a->value.stride_head = 16))
SPOIL_CALL(stride_negative, (a->query.stride_token = -32, a->query.stride_head = 16))
SPOIL_CALL(stride_overflow, (a->query.stride_token = INT64_MAX / 2, a->query.stride_head = INT64_MAX / 2))
SPOIL_CALL(out_overlaps_itself, (a->out.stride_batch = 256, a->out.stride_token = 32, a->out.stride_head = 0))
SPOIL_CALL(out_rows_overlap, (a->out.stride_batch = 256, a->out.stride_token = 16, a->out.stride_head = 8))
SPOIL_CALL(out_is_query, a->out = a->query)
SPOIL_CALL(lse_is_out, (a->lse.buffer = a->out.buffer, a->lse.offset = a->out.offset))
SPOIL_CALL(too_many_keys, a->sizes.keys = 9)
SPOIL_CALL(too_many_batches, a->sizes.batch = 3)
SPOIL_CALL(queries_beyond_keys, (a->sizes.queries = 8, a->sizes.keys = 7))
SPOIL_CALL(size_negative, a->sizes.queries = -1)
SPOIL_CALL(no_permutation, a->permutation = NULL)
SPOIL_CALL(permutation_too_long, (a->sizes.keys = 7, a->sizes.queries = 7))
SPOIL_CALL(lengths_given, (a->lengths.buffer = a->lse.buffer, a->lengths.offset = 0))
SPOIL_CALL(sinks_missing, a->sink_logits.buffer = NULL)
SPOIL_CALL(gates_missing, a->gate_swa.buffer = NULL)
SPOIL_CALL(gates_given, a->gate_sa = a->query)
SPOIL_CALL(lse_in_gated, a->lse = a->lse_sa)
SPOIL_CALL(lse_sa_given, (a->lse_sa = a->lse, a->lse.buffer = NULL))
SPOIL_CALL(workspace_odd, a->workspace_offset = 100)
SPOIL_CALL(workspace_negative, a->workspace_offset = -256)
SPOIL_CALL(args_size_zero, a->struct_size = 0)
SPOIL_CALL(args_size_large, a->struct_size = sizeof *a + 16)

static const bad_call calls[] = {
    {"no query", "query", SATTN_FULL, no_query},
    {"no out", "out", SATTN_FULL, no_out},
    {"key offset -1", "key", SATTN_FULL, offset_negative},
    {"key offset beyond the buffer", "key", SATTN_FULL, offset_beyond},
    {"value stride beyond the buffer", "value", SATTN_FULL, stride_beyond},
    {"negative stride", "query", SATTN_FULL, stride_negative},
    {"strides whose product overflows", "query", SATTN_FULL, stride_overflow},
    {"out with a zero stride", "out", SATTN_FULL, out_overlaps_itself},
    {"out with rows that overlap", "out", SATTN_FULL, out_rows_overlap},
    {"out on top of query", "", SATTN_FULL, out_is_query},
    {"lse on top of out", "", SATTN_FULL, lse_is_out},
    {"9 keys of at most 8", "keys", SATTN_FULL, too_many_keys},
    {"3 batches of at most 2", "batch", SATTN_FULL, too_many_batches},
    {"8 queries on 7 keys", "queries", SATTN_FULL, queries_beyond_keys},
    {"-1 queries", "queries", SATTN_FULL, size_negative},
    {"no permutation", "permutation", SATTN_STOCHASTIC, no_permutation},
    {"permutation of 8 for 7 keys", "permutation", SATTN_STOCHASTIC, permutation_too_long},
    {"lengths not announced", "lengths", SATTN_FULL, lengths_given},
    {"sink logits missing", "sink_logits", SATTN_MOBA, sinks_missing},
    {"a gate missing", "gate_swa", SATTN_GATED, gates_missing},
    {"a gate in UNION", "gate_sa", SATTN_UNION, gates_given},
    {"lse in GATED", "lse", SATTN_GATED, lse_in_gated},
    {"lse_sa in FULL", "lse_sa", SATTN_FULL, lse_sa_given},
    {"workspace_offset 100", "workspace_offset", SATTN_STOCHASTIC, workspace_odd},
    {"workspace_offset -256", "workspace_offset", SATTN_STOCHASTIC, workspace_negative},
    {"struct_size 0", "", SATTN_FULL, args_size_zero},
    {"struct_size too large", "", SATTN_FULL, args_size_large},
};

static void check_bad_call(test_env *env, const bad_call *bad) {
  test_call call;
  test_run run;
  sattn_error error;
  sattn_queue queue = {NULL};
  sattn_event event = {&call}; /* any value: it must stay */
  test_call_init(&call, bad->mode, 2, 8, 8, 2, 2, 16);
  call.attention.has_sink_logits = bad->mode == SATTN_MOBA;
  test_call_fill(&call, &env->random, 1.0);
  if (test_run_open(env->context, &call, NULL, &run, &error) || test_run_send(&run, &error)) {
    test_fail(env->suite, "%s: %s", bad->label, error.message);
    return;
  }
  sattn_forward_args good = run.forward;
  bad->spoil(&run, &run.forward);
  sattn_status status = sattn_forward(run.plan, &run.forward, queue, NULL, 0, &event, &error);
  test_check_refusal(env, bad->label, status, SATTN_INVALID_ARGUMENT, &error, bad->argument);
  if (event.native != &call) test_fail(env->suite, "%s: out_event was written", bad->label);
  sattn_queue_finish(env->context, queue, &error);
  if (!test_run_untouched(&run, &error)) test_fail(env->suite, "%s: an array was written", bad->label);
  /* The same objects go on to work. */
  run.forward = good;
  test_result result;
  if (sattn_forward(run.plan, &run.forward, queue, NULL, 0, NULL, &error) || sattn_queue_finish(env->context, queue, &error)) {
    test_fail(env->suite, "after '%s': %s", bad->label, error.message);
  } else {
    test_run_fetch(&run, &result, &error);
    test_check_result(env, &call, bad->label, &result);
  }
  test_run_close(&run);
}

static void bad_calls(test_env *env) {
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) check_bad_call(env, &calls[i]);
}

/* ---- permutations, buffers, contexts ---- */

static void bad_permutations(test_env *env) {
  static const uint32_t duplicate[6] = {0, 1, 2, 2, 4, 5};
  static const uint32_t outside[6] = {0, 1, 2, 3, 4, 6};
  for (int i = 0; i < 5; ++i) {
    sattn_permutation_options options;
    sattn_permutation *permutation = NULL;
    sattn_error error;
    sattn_permutation_options_init(&options);
    options.length = i == 2 ? -1 : i == 3 ? INT64_C(1) << 31 : 6;
    options.order = i == 0 ? duplicate : i == 1 ? outside : NULL;
    options.sharing = i == 4 ? (sattn_sharing)9 : SATTN_SHARED;
    sattn_status status = sattn_permutation_create(env->context, &options, &permutation, &error);
    test_check_refusal(env, "permutation", status, SATTN_INVALID_ARGUMENT, &error, i < 2 ? "order" : i < 4 ? "length" : "sharing");
    if (permutation) test_fail(env->suite, "out_permutation was written");
  }
}

/* P-F1: the first bad entry is named. */
static void first_bad_entry_is_named(test_env *env) {
  uint32_t order[20];
  sattn_permutation_options options;
  sattn_permutation *permutation = NULL;
  sattn_error error;
  for (uint32_t i = 0; i < 20; ++i) order[i] = i;
  order[13] = 7;
  order[17] = 99;
  sattn_permutation_options_init(&options);
  options.length = 20;
  options.order = order;
  sattn_status status = sattn_permutation_create(env->context, &options, &permutation, &error);
  test_check_refusal(env, "order", status, SATTN_INVALID_ARGUMENT, &error, "order");
  if (status && (!strstr(error.message, "13") || !strstr(error.message, "7"))) test_fail(env->suite, "message: %s", error.message);
}

static void bad_buffers(test_env *env) {
  sattn_error error;
  sattn_buffer *buffer = NULL;
  char bytes[32] = {0};
  if (sattn_buffer_create(env->context, 0, &buffer, &error)) test_fail(env->suite, "0 bytes: %s", error.message);
  sattn_buffer_destroy(&buffer);
  sattn_buffer_destroy(&buffer);
  if (sattn_buffer_create(env->context, 16, &buffer, &error)) {
    test_fail(env->suite, "16 bytes: %s", error.message);
    return;
  }
  if (sattn_buffer_size(buffer) != 16) test_fail(env->suite, "size");
  test_check_refusal(env, "write beyond", sattn_buffer_write(buffer, 8, bytes, 9, &error), SATTN_INVALID_ARGUMENT, &error, "");
  test_check_refusal(env, "read beyond", sattn_buffer_read(buffer, 17, bytes, 0, &error), SATTN_INVALID_ARGUMENT, &error, "");
  test_check_refusal(env, "overflow", sattn_buffer_read(buffer, UINT64_MAX, bytes, 8, &error), SATTN_INVALID_ARGUMENT, &error, "");
  if (sattn_buffer_write(buffer, 16, bytes, 0, &error)) test_fail(env->suite, "nothing at the end: %s", error.message);
  sattn_buffer_destroy(&buffer);
  sattn_status status = sattn_buffer_create(env->context, UINT64_C(1) << 60, &buffer, &error);
  test_check_refusal(env, "2^60 bytes", status, SATTN_OUT_OF_MEMORY, &error, "");
  if (status && !strstr(error.message, "1152921504606846976")) test_fail(env->suite, "the needed size is not named: %s", error.message);
  if (buffer) test_fail(env->suite, "out_buffer was written");
}

static void bad_contexts(test_env *env) {
  static const char *const ids[] = {"opencl:9999", "reference:1", "nonsense", "cuda:-1", "opencl:x", "reference:0x", "reference:00", ""};
  for (size_t i = 0; i < sizeof ids / sizeof ids[0]; ++i) {
    sattn_context *context = NULL;
    sattn_error error;
    sattn_status status = sattn_context_create(ids[i], NULL, &context, &error);
    if (status == SATTN_OK || context) test_fail(env->suite, "'%s' gave a context", ids[i]);
    if (status && error.message[0] == '\0') test_fail(env->suite, "'%s': no message", ids[i]);
    sattn_context_destroy(&context);
  }
  sattn_context_options options;
  sattn_context *context = NULL;
  sattn_error error;
  sattn_context_options_init(&options);
  options.kernels = (sattn_kernel_family)9;
  sattn_status status = sattn_context_create(env->suite->info.id, &options, &context, &error);
  test_check_refusal(env, "kernel family 9", status, SATTN_INVALID_ARGUMENT, &error, "kernels");
}

void cases_refusals(test_suite *suite) {
  test_case_run(suite, "bad-descriptions", bad_descriptions);
  test_case_run(suite, "bad-sizes", bad_sizes);
  test_case_run(suite, "bad-calls", bad_calls);
  test_case_run(suite, "bad-permutations", bad_permutations);
  test_case_run(suite, "first-bad-entry-is-named", first_bad_entry_is_named);
  test_case_run(suite, "bad-buffers", bad_buffers);
  test_case_run(suite, "bad-contexts", bad_contexts);
}
