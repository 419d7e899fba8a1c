/* The sizes of workspaces, and what becomes of those that do not fit in 64 bits. */
#include "backend.h"
#include "dispatch.h"
#include "kernel_args.h"
#include "unit.h"

static void arrays_stand_at_multiples_of_256(void **state) {
  (void)state;
  uint64_t end = 0;
  assert_true(sattn_carve(&end, 3, 5, 4) == 0 && end == 60);
  assert_true(sattn_carve(&end, 1, 1, 8) == 256 && end == 264);
  assert_true(sattn_carve(&end, 0, 7, 4) == 512 && end == 512);
  end = 4096; /* a workspace_offset */
  assert_true(sattn_carve(&end, 2, 1, 1) == 4096 && end == 4098);
}

static void too_much_never_looks_small(void **state) {
  (void)state;
  static const struct {
    uint64_t end, rows, entries, element;
  } cases[] = {
      {0, UINT64_MAX, 2, 1},
      {0, 2, UINT64_MAX, 1},
      {0, UINT64_C(1) << 32, UINT64_C(1) << 31, 4},
      {0, UINT64_C(1) << 31, UINT64_C(1) << 31, 8},
      {512, UINT64_MAX - 300, 1, 1},
      {UINT64_MAX - 100, 1, 1, 1},
      {UINT64_MAX, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    uint64_t end = cases[i].end;
    (void)sattn_carve(&end, cases[i].rows, cases[i].entries, cases[i].element);
    if (end != UINT64_MAX) fail_msg("case %zu ends at %llu", i, (unsigned long long)end);
    (void)sattn_carve(&end, 1, 1, 1);
    assert_true(end == UINT64_MAX);
  }
}

/* Arrays below 2^63 bytes, block means beyond 2^64: blocks of one key are padded to sixteen. */
static void means_of_many_heads(void **state) {
  (void)state;
  sattn_attention a;
  sattn_attention_init(&a);
  a.mode = SATTN_MOBA;
  a.heads = a.kv_heads = 1 << 21;
  a.head_dim = 256;
  a.block = a.topk = 1;
  const sattn_sizes sizes = {INT32_MAX, 1, 1};
  sattn_problem problem;
  sattn_error error = {0};
  unit_ok(sattn_problem_resolve(&a, &problem, &error), &error);
  unit_ok(sattn_sizes_validate("maxima", &sizes, &problem, &error), &error);
  uint64_t end = 0;
  (void)sattn_select_carve(&problem, &sizes, &end);
  assert_true(end == UINT64_MAX);
}

static sattn_status query_of_too_much(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                      sattn_plan_info *info, sattn_error *error) {
  (void)context;
  (void)problem;
  (void)maxima;
  (void)error;
  if (passes & SATTN_PASS_FORWARD) info->forward_workspace = UINT64_MAX;
  if (passes & SATTN_PASS_BACKWARD) info->backward_workspace = UINT64_MAX;
  return SATTN_OK;
}

/* Also by a device that does not say how much it allows. */
static void no_plan_accepts_it(void **state) {
  (void)state;
  sattn_context *context = unit_context();
  const sattn_backend_ops *own = context->ops;
  sattn_backend_ops ops = *own;
  ops.plan_query = query_of_too_much;
  context->ops = &ops;
  sattn_attention a;
  sattn_attention_init(&a);
  a.mode = SATTN_FULL;
  a.heads = 1;
  a.head_dim = 64;
  const sattn_sizes maxima = {1, 8, 8};
  for (int unknown = 0; unknown < 2; ++unknown) {
    if (unknown) context->device.max_allocation_bytes = 0;
    for (uint32_t pass = SATTN_PASS_FORWARD; pass <= SATTN_PASS_BACKWARD; ++pass) {
      sattn_plan_info info;
      sattn_error error = {0};
      sattn_plan_info_init(&info);
      unit_refused(sattn_plan_query(context, &a, &maxima, pass, &info, &error), SATTN_OUT_OF_MEMORY, &error,
                   pass == SATTN_PASS_FORWARD ? "forward workspace" : "backward workspace", "18446744073709551615");
    }
  }
  context->ops = own;
  sattn_context_destroy(&context);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(arrays_stand_at_multiples_of_256),
    cmocka_unit_test(too_much_never_looks_small),
    cmocka_unit_test(means_of_many_heads),
    cmocka_unit_test(no_plan_accepts_it),
};
UNIT_MAIN(tests)
