/* What a description may say: one table of refusals, and what a valid one resolves to. */
#include <float.h>
#include <math.h>

#include "problem.h"

#include "unit.h"

static sattn_attention valid(sattn_mode mode) {
  sattn_attention a;
  sattn_attention_init(&a);
  a.mode = mode;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 64;
  if (mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED) a.window_sa = sattn_window_width(3);
  if (mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION || mode == SATTN_GATED) a.window_swa = sattn_window_width(5);
  if (mode == SATTN_MOBA) a.block = a.topk = 2;
  return a;
}

static void every_mode_has_a_valid_form(void **state) {
  (void)state;
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    sattn_attention a = valid((sattn_mode)mode);
    sattn_error error = {0};
    unit_ok(sattn_attention_validate(&a, &error), &error);
    assert_int_equal(sattn_attention_validate(&a, NULL), SATTN_OK);
  }
}

/* One change to a valid description of a mode, as a statement on `a`. */
#define CASE(label, mode, change, word, value) \
  static void label(sattn_attention *a) {      \
    change;                                    \
  }
#include "validate_cases.h"
#undef CASE

static const struct {
  const char *label;
  sattn_mode mode;
  void (*change)(sattn_attention *a);
  const char *word, *value;
} cases[] = {
#define CASE(label, mode, change, word, value) {#label, mode, label, word, value},
#include "validate_cases.h"
#undef CASE
};

static void refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sattn_attention a = valid(cases[i].mode);
    cases[i].change(&a);
    sattn_error error = {0};
    sattn_problem problem;
    memset(&problem, 0x55, sizeof problem);
    const sattn_problem before = problem;
    sattn_status status = sattn_attention_validate(&a, &error);
    if (status == SATTN_OK) fail_msg("%s was accepted", cases[i].label);
    unit_refused(status, SATTN_INVALID_ARGUMENT, &error, cases[i].word, cases[i].value);
    assert_true(error.argument[0] != '\0');
    assert_int_equal(sattn_problem_resolve(&a, &problem, NULL), SATTN_INVALID_ARGUMENT);
    assert_memory_equal(&problem, &before, sizeof problem);
  }
}

static void zero_and_negative_widths_in_every_mode(void **state) {
  (void)state;
  const int64_t widths[] = {0, -1, INT32_MIN, INT64_MIN};
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; ++i) {
      sattn_error error = {0};
      sattn_attention a = valid((sattn_mode)mode);
      a.window_sa = sattn_window_width(widths[i]);
      unit_refused(sattn_attention_validate(&a, &error), SATTN_INVALID_ARGUMENT, &error, "window_sa", NULL);
      a = valid((sattn_mode)mode);
      a.window_swa = sattn_window_width(widths[i]);
      unit_refused(sattn_attention_validate(&a, &error), SATTN_INVALID_ARGUMENT, &error, "window_swa", NULL);
    }
  }
}

static sattn_problem resolve(const sattn_attention *a) {
  sattn_problem problem;
  sattn_error error = {0};
  memset(&problem, 0x55, sizeof problem);
  unit_ok(sattn_problem_resolve(a, &problem, &error), &error);
  return problem;
}

static void defaults_are_applied(void **state) {
  (void)state;
  sattn_attention a = valid(SATTN_GATED);
  a.kv_heads = 0;
  sattn_problem p = resolve(&a);
  assert_int_equal(p.kv_heads, 4);
  assert_int_equal(p.group, 1);
  assert_true(p.scale == 0.125f);
  assert_true(p.softcap == 0.0f);
  assert_true(p.causal && p.uses_sa && p.uses_swa && !p.wrap);
  assert_int_equal(p.left_sa, 2);
  assert_int_equal(p.right_sa, 2);
  assert_int_equal(p.left_swa, 4);
  assert_int_equal(p.right_swa, 0);
  assert_int_equal(p.order_length, 0);
  assert_int_equal(p.sink_tokens, 0);
  a.kv_heads = 2;
  assert_int_equal(resolve(&a).group, 2);
}

static void large_counts_are_clamped(void **state) {
  (void)state;
  sattn_attention a = valid(SATTN_UNION);
  a.window_sa = sattn_window_sides(SATTN_UNBOUNDED, INT64_C(1) << 31);
  a.window_swa = sattn_window_width(INT64_MAX);
  a.sink_tokens = INT64_MAX;
  sattn_problem p = resolve(&a);
  assert_int_equal(p.left_sa, INT32_MAX);
  assert_int_equal(p.right_sa, INT32_MAX);
  assert_int_equal(p.left_swa, INT32_MAX);
  assert_int_equal(p.right_swa, 0);
  assert_int_equal(p.sink_tokens, INT32_MAX);
  a = valid(SATTN_MOBA);
  a.block = a.topk = INT64_MAX;
  p = resolve(&a);
  assert_int_equal(p.block, INT32_MAX);
  assert_int_equal(p.topk, INT32_MAX);
}

static void scale_and_softcap_never_change_meaning(void **state) {
  (void)state;
  sattn_attention a = valid(SATTN_FULL);
  a.scale = -2.5;
  a.softcap = 30;
  assert_true(resolve(&a).scale == -2.5f);
  assert_true(resolve(&a).softcap == 30.0f);
  a.scale = 1e-300;
  a.softcap = 1e-300;
  assert_true(resolve(&a).scale > 0 && resolve(&a).scale <= FLT_MIN);
  assert_true(resolve(&a).softcap > 0 && resolve(&a).softcap <= FLT_MIN);
  a.scale = -1e-300;
  a.softcap = 1e300;
  assert_true(resolve(&a).scale < 0 && resolve(&a).scale >= -FLT_MIN);
  assert_true(isfinite(resolve(&a).softcap) && resolve(&a).softcap > 1e20f);
}

static void older_structs_are_accepted(void **state) {
  (void)state;
  sattn_attention a = valid(SATTN_FULL);
  a.struct_size = offsetof(sattn_attention, softcap);
  a.softcap = 77; /* beyond what the caller says that it has */
  assert_true(resolve(&a).softcap == 0);
}

static sattn_sizes sizes_of(int64_t batch, int64_t queries, int64_t keys) {
  return (sattn_sizes){batch, queries, keys};
}

static void check_sizes(const sattn_problem *p, sattn_sizes sizes, const char *word, const char *value) {
  sattn_error error = {0};
  sattn_status status = sattn_sizes_validate("maxima", &sizes, p, &error);
  if (word == NULL) {
    unit_ok(status, &error);
  } else {
    unit_refused(status, SATTN_INVALID_ARGUMENT, &error, word, value);
  }
}

static void sizes(void **state) {
  (void)state;
  sattn_attention a = valid(SATTN_STOCHASTIC);
  sattn_problem p = resolve(&a);
  check_sizes(&p, sizes_of(0, 0, 0), NULL, NULL);
  check_sizes(&p, sizes_of(3, 0, 7), NULL, NULL);
  check_sizes(&p, sizes_of(3, 7, 7), NULL, NULL);
  check_sizes(&p, sizes_of(1, 1, INT32_MAX), NULL, NULL);
  check_sizes(&p, sizes_of(-1, 1, 1), "batch", "-1");
  check_sizes(&p, sizes_of(1, -1, 1), "queries", "-1");
  check_sizes(&p, sizes_of(1, 1, -1), "keys", "-1");
  check_sizes(&p, sizes_of(1, 4, 2), "queries", "4");
  check_sizes(&p, sizes_of(1, 3, 0), "queries", "0");
  check_sizes(&p, sizes_of(1, 1, (int64_t)INT32_MAX + 1), "keys", "2147483648");
  check_sizes(&p, sizes_of(INT32_MAX, INT32_MAX, INT32_MAX), "2^63", NULL);
  sattn_error error = {0};
  unit_refused(sattn_sizes_validate("maxima", NULL, &p, &error), SATTN_INVALID_ARGUMENT, &error, "maxima", NULL);
  a.order_length = 8;
  p = resolve(&a);
  check_sizes(&p, sizes_of(1, 1, 8), NULL, NULL);
  check_sizes(&p, sizes_of(1, 1, 9), "order_length", "9");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_mode_has_a_valid_form),
    cmocka_unit_test(refusals),
    cmocka_unit_test(zero_and_negative_widths_in_every_mode),
    cmocka_unit_test(defaults_are_applied),
    cmocka_unit_test(large_counts_are_clamped),
    cmocka_unit_test(scale_and_softcap_never_change_meaning),
    cmocka_unit_test(older_structs_are_accepted),
    cmocka_unit_test(sizes),
};
UNIT_MAIN(tests)
