/* What the small operations refuse; what they compute is tested with the backends. */
#include "objects.h"

#include "unit.h"

enum { B = 2, N = 3, H = 2, D = 4, COUNT = B * N * H * D };

static sattn_context *context, *other;
static sattn_permutation *permutation, *other_permutation, *shorter, *per_head, *per_batch;
static sattn_buffer *buffer[8], *foreign;

static sattn_permutation *make(sattn_context *from, int64_t length, sattn_sharing sharing) {
  sattn_permutation_options options;
  sattn_permutation_options_init(&options);
  options.length = length;
  options.sharing = sharing;
  options.batch = 3;
  options.kv_heads = 3;
  sattn_permutation *made = NULL;
  sattn_error error = {0};
  unit_ok(sattn_permutation_create(from, &options, &made, &error), &error);
  return made;
}

static int open_objects(void **state) {
  (void)state;
  context = unit_context();
  other = unit_context();
  permutation = make(context, N, SATTN_SHARED);
  other_permutation = make(other, N, SATTN_SHARED);
  shorter = make(context, N - 1, SATTN_SHARED);
  per_head = make(context, N, SATTN_PER_HEAD);
  per_batch = make(context, N, SATTN_PER_BATCH);
  static const float zeros[2 * COUNT];
  for (int i = 0; i < 8; ++i) {
    assert_int_equal(sattn_buffer_create(context, sizeof zeros, &buffer[i], NULL), SATTN_OK);
    assert_int_equal(sattn_buffer_write(buffer[i], 0, zeros, sizeof zeros, NULL), SATTN_OK);
  }
  assert_int_equal(sattn_buffer_create(other, sizeof zeros, &foreign, NULL), SATTN_OK);
  return 0;
}

static int close_objects(void **state) {
  (void)state;
  for (int i = 0; i < 8; ++i) sattn_buffer_destroy(&buffer[i]);
  sattn_buffer_destroy(&foreign);
  sattn_permutation *all[] = {permutation, other_permutation, shorter, per_head, per_batch};
  for (size_t i = 0; i < 5; ++i) sattn_permutation_destroy(&all[i]);
  sattn_context_destroy(&context);
  sattn_context_destroy(&other);
  return 0;
}

static sattn_rows_args rows(void) {
  sattn_rows_args args;
  sattn_rows_args_init(&args);
  args.batch = B;
  args.tokens = N;
  args.heads = H;
  args.head_dim = D;
  args.permutation = permutation;
  args.source.buffer = buffer[0];
  args.target.buffer = buffer[1];
  return args;
}

static void check_rows(const sattn_rows_args *args, const char *word, const char *value) {
  const sattn_queue queue = {NULL};
  for (int inverse = 0; inverse < 2; ++inverse) {
    sattn_error error = {0};
    sattn_event event = {NULL};
    sattn_status status = inverse ? sattn_scatter_rows(context, args, queue, NULL, 0, &event, &error)
                                  : sattn_gather_rows(context, args, queue, NULL, 0, &event, &error);
    if (word == NULL) {
      unit_ok(status, &error);
    } else {
      unit_refused(status, SATTN_INVALID_ARGUMENT, &error, word, value);
    }
    sattn_event_release(context, &event);
  }
}

static void rows_arguments(void **state) {
  (void)state;
  sattn_error error = {0};
  unit_ok(sattn_rows_prepare(context, &error), &error);
  unit_refused(sattn_rows_prepare(NULL, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  sattn_rows_args args = rows();
  check_rows(&args, NULL, NULL);
  check_rows(NULL, "args is NULL", NULL);
#define REFUSED(change, word, value) args = rows(), change, check_rows(&args, word, value)
  REFUSED(args.struct_size = 0, "struct_size", NULL);
  REFUSED(args.dtype = (sattn_dtype)9, "dtype is 9", NULL);
  REFUSED(args.batch = -1, "batch is -1", NULL);
  REFUSED(args.tokens = -1, "tokens is -1", NULL);
  REFUSED(args.heads = 0, "heads is 0", NULL);
  REFUSED(args.head_dim = 0, "head_dim is 0", NULL);
  REFUSED((args.batch = args.tokens = args.heads = INT32_MAX), "tokens is 2147483647", "2^63");
  REFUSED(args.permutation = NULL, "permutation is missing", NULL);
  REFUSED(args.permutation = shorter, "permutation has length 2", "3");
  REFUSED(args.permutation = other_permutation, "permutation", "another context");
  REFUSED(args.permutation = per_head, "permutation has kv_heads 3", "2");
  REFUSED(args.permutation = per_batch, "permutation has batch 3", "2");
  REFUSED(args.source.buffer = NULL, "source is missing", NULL);
  REFUSED(args.target.buffer = NULL, "target is missing", NULL);
  REFUSED(args.target.buffer = foreign, "target", "another context");
  REFUSED(args.target.offset = 2 * COUNT - COUNT + 1, "target", "bytes");
  REFUSED(args.target = args.source, "target overlaps source", NULL);
  REFUSED((args.target.stride_batch = 24, args.target.stride_token = 8), "target overlaps itself", NULL);
#undef REFUSED
  args = rows();
  args.batch = 0;
  check_rows(&args, NULL, NULL);
}

static sattn_merge_args merge(void) {
  sattn_merge_args args;
  sattn_merge_args_init(&args);
  args.batch = B;
  args.queries = N;
  args.heads = H;
  args.head_dim = D;
  args.out_a.buffer = buffer[0];
  args.lse_a.buffer = buffer[1];
  args.out_b.buffer = buffer[2];
  args.lse_b.buffer = buffer[3];
  args.out.buffer = buffer[4];
  args.lse.buffer = buffer[5];
  return args;
}

static void check_merge(const sattn_merge_args *args, const char *word, const char *value) {
  sattn_error error = {0};
  sattn_status status = sattn_merge(context, args, (sattn_queue){NULL}, NULL, 0, NULL, &error);
  if (word == NULL) {
    unit_ok(status, &error);
  } else {
    unit_refused(status, SATTN_INVALID_ARGUMENT, &error, word, value);
  }
}

static void merge_arguments(void **state) {
  (void)state;
  sattn_merge_args args = merge();
#define ACCEPTED(change) args = merge(), change, check_merge(&args, NULL, NULL)
  ACCEPTED(args.dtype = SATTN_FP32);
  ACCEPTED(args.lse.buffer = NULL);
  ACCEPTED(args.out = args.out_a);
  ACCEPTED((args.out = args.out_b, args.lse = args.lse_b));
  ACCEPTED((args.out = args.out_a, args.lse = args.lse_a));
  ACCEPTED(args.batch = 0);
#undef ACCEPTED
#define REFUSED(change, word, value) args = merge(), change, check_merge(&args, word, value)
  REFUSED(args.struct_size = 0, "struct_size", NULL);
  REFUSED(args.queries = -1, "queries is -1", NULL);
  REFUSED(args.out_a.buffer = NULL, "out_a is missing", NULL);
  REFUSED(args.lse_b.buffer = NULL, "lse_b is missing", NULL);
  REFUSED(args.out.buffer = NULL, "out is missing", NULL);
  REFUSED((args.out = args.out_a, args.out.offset = 1), "out overlaps out_a", NULL);
  REFUSED((args.lse = args.lse_a, args.lse.offset = 1), "lse overlaps lse_a", NULL);
  REFUSED(args.lse.buffer = args.out.buffer, "lse overlaps out", NULL);
  REFUSED(args.lse.buffer = foreign, "lse", "another context");
  /* Of one element, arrays that have nothing to do with one another lie alike. */
#define ONE_ELEMENT args.batch = args.queries = args.heads = args.head_dim = 1
  REFUSED((ONE_ELEMENT, args.lse = args.lse_b, args.out.buffer = args.lse_a.buffer), "out overlaps lse_a", NULL);
  REFUSED((ONE_ELEMENT, args.out = args.out_b, args.lse.buffer = args.out_a.buffer), "lse overlaps out_a", NULL);
#undef ONE_ELEMENT
#undef REFUSED
  sattn_error error = {0};
  unit_refused(sattn_merge(NULL, &args, (sattn_queue){NULL}, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_gather_rows(NULL, NULL, (sattn_queue){NULL}, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  sattn_rows_args_init(NULL);
  sattn_merge_args_init(NULL);
}

static void gate_options(void **state) {
  (void)state;
  sattn_error error = {0};
  sattn_gate_options options;
  sattn_gate_plan *plan = NULL;
#define REFUSED(change, word)                                                \
  sattn_gate_options_init(&options),                                         \
      options.max_rows = 4, options.inputs = 3, options.outputs = 2, change, \
      unit_refused(sattn_gate_plan_create(context, &options, &plan, &error), SATTN_INVALID_ARGUMENT, &error, word, NULL)
  REFUSED(options.max_rows = -1, "max_rows is -1");
  REFUSED(options.inputs = 0, "inputs is 0");
  REFUSED(options.outputs = 0, "outputs is 0");
  REFUSED(options.has_bias = 2, "has_bias is 2");
  REFUSED(options.struct_size = 0, "struct_size");
#undef REFUSED
  unit_refused(sattn_gate_plan_create(NULL, &options, &plan, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_gate_plan_create(context, NULL, &plan, &error), SATTN_INVALID_ARGUMENT, &error, "options", NULL);
  unit_refused(sattn_gate_forward(NULL, NULL, (sattn_queue){NULL}, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "plan", NULL);
  assert_true(sattn_gate_plan_workspace(NULL) == 0);
  sattn_gate_plan_destroy(&plan);
  sattn_gate_plan_destroy(NULL);
}

static void gate_arguments(void **state) {
  (void)state;
  sattn_error error = {0};
  sattn_gate_options options;
  sattn_gate_options_init(&options);
  options.max_rows = 4;
  options.inputs = 3;
  options.outputs = 2;
  sattn_gate_plan *plan = NULL;
  sattn_status status = sattn_gate_plan_create(context, &options, &plan, &error);
  if (status == SATTN_UNAVAILABLE) skip(); /* no CBLAS here: the message is checked by the backend's test */
  unit_ok(status, &error);
  const sattn_queue queue = {NULL};
  sattn_gate_args good, args;
  sattn_gate_args_init(&good);
  good.rows = 4;
  good.input.buffer = buffer[0];
  good.weight.buffer = buffer[1];
  good.bias.buffer = buffer[2];
  good.logits.buffer = buffer[3];
  good.grad_logits.buffer = buffer[4];
  good.grad_input.buffer = buffer[5];
  good.grad_weight.buffer = buffer[6];
  good.grad_bias.buffer = buffer[7];
  unit_ok(sattn_gate_forward(plan, &good, queue, NULL, 0, NULL, &error), &error);
  unit_ok(sattn_gate_backward(plan, &good, queue, NULL, 0, NULL, &error), &error);
#define REFUSED(pass, change, word) \
  args = good, change,              \
  unit_refused(sattn_gate_##pass(plan, &args, queue, NULL, 0, NULL, &error), SATTN_INVALID_ARGUMENT, &error, word, NULL)
  REFUSED(forward, args.rows = 5, "rows is 5");
  REFUSED(forward, args.rows = -1, "rows is -1");
  REFUSED(forward, args.input.buffer = NULL, "input is missing");
  REFUSED(forward, args.bias.buffer = NULL, "bias is missing");
  REFUSED(forward, args.logits = args.input, "logits overlaps input");
  REFUSED(forward, args.logits.offset = 1000, "logits");
  REFUSED(backward, args.grad_logits.buffer = NULL, "grad_logits is missing");
  REFUSED(backward, args.weight.buffer = NULL, "weight is missing");
  REFUSED(backward, args.grad_weight = args.grad_input, "overlaps");
#undef REFUSED
  args = good;
  args.rows = 0;
  unit_ok(sattn_gate_forward(plan, &args, queue, NULL, 0, NULL, &error), &error);
  unit_ok(sattn_gate_backward(plan, &args, queue, NULL, 0, NULL, &error), &error);
  float bias[2] = {1, 1};
  unit_ok(sattn_buffer_read(buffer[7], 0, bias, sizeof bias, &error), &error);
  assert_true(bias[0] == 0.0f && bias[1] == 0.0f);
  sattn_gate_plan_destroy(&plan);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_arguments),
    cmocka_unit_test(merge_arguments),
    cmocka_unit_test(gate_options),
    cmocka_unit_test(gate_arguments),
};
UNIT_MAIN_WITH(tests, open_objects, close_objects)
