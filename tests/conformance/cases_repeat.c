/* The same bits every time, whatever else happens: field faults P-D1 to P-D10, P-S11, P-S12. */
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

static void same_call_twice(test_env *env) {
  for (int other = 0; other <= 1; ++other) {
    test_call call;
    test_result first;
    test_result again;
    test_call_init(&call, env->mode, 2, 150, 150, 4, 2, 64);
    call.attention.dtype = test_case_dtype(env, other);
    test_call_fill(&call, &env->random, 1.0);
    if (!test_call_ok(env, &call, "first", &first)) return;
    for (int i = 0; i < 3; ++i) {
      if (test_call_ok(env, &call, "again", &again)) test_check_same(env, &call, "again", &first, &again);
    }
  }
}

/* One batch entry of a result, as a call and a result of its own. */
static void cut_entry(const test_call *all, const test_result *of_all, int64_t b, test_call *one, test_result *of_one) {
  *one = *all;
  one->sizes.batch = 1;
  for (int i = 0; i < TEST_INPUTS; ++i) {
    if (!all->input[i] || i == TEST_SINK_LOGITS) continue;
    one->input[i] = all->input[i] + (size_t)b * test_shape_count(test_input_shape(one, (test_input)i));
  }
  if (all->lengths) one->lengths = all->lengths + b;
  if (all->query_start) one->query_start = all->query_start + b;
  memset(of_one, 0, sizeof *of_one);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (of_all->output[o]) of_one->output[o] = of_all->output[o] + (size_t)b * test_shape_count(test_output_shape(one, (test_output)o));
  }
}

/* What is computed for a batch entry, backward too, depends neither on B nor on the others. */
static void entry_alone(test_env *env) {
  static const int32_t lengths[3] = {70, 33, 61};
  for (int with_lengths = 0; with_lengths <= 1; ++with_lengths) {
    test_call all;
    test_result of_all;
    test_call_init(&all, env->mode, 3, 70, 70, 4, 2, 64);
    all.attention.has_lengths = with_lengths;
    if (with_lengths) all.lengths = lengths;
    test_call_fill(&all, &env->random, 1.0);
    if (with_lengths) test_call_fill_gradients(&all, &env->random, 1);
    if (!test_call_ok(env, &all, "batch", &of_all)) return;
    for (int64_t b = 0; b < 3; ++b) {
      test_call one;
      test_result expected;
      test_result alone;
      char label[32];
      cut_entry(&all, &of_all, b, &one, &expected);
      snprintf(label, sizeof label, "entry %lld", (long long)b);
      if (test_call_ok(env, &one, label, &alone)) test_check_same(env, &one, label, &expected, &alone);
    }
  }
}

/* P-S12: equal content in every batch and head gives equal bits in every batch and head, not zeros. */
static void equal_entries(test_env *env) {
  test_call call;
  test_result result;
  test_call_init(&call, env->mode, 3, 50, 50, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  for (int i = TEST_QUERY; i <= TEST_GATE_SWA; ++i) {
    if (!call.input[i]) continue;
    float *values = test_call_edit(&call, (test_input)i);
    int64_t width = test_input_shape(&call, (test_input)i).size[3];
    for (int64_t row = 0; row < 3 * 50 * 2; ++row)
      memcpy(values + row * width, values + row / 2 % 50 * 2 * width, (size_t)width * sizeof *values);
  }
  if (!test_call_ok(env, &call, "equal", &result)) return;
  const float *out = result.output[TEST_OUT];
  int nonzero = 0;
  for (int64_t row = 0; row < 3 * 50 * 2; ++row) {
    if (memcmp(out + row * 64, out + row / 2 % 50 * 2 * 64, 64 * sizeof *out) != 0)
      test_fail(env->suite, "row %lld differs", (long long)row);
    nonzero |= out[row * 64] != 0;
  }
  if (!nonzero) test_fail(env->suite, "everything is zero");
}

/* A plan for more than is used gives the same bits as one for exactly that: what is chosen depends on the call, not on the load. */
static void one_plan_many_sizes(test_env *env) {
  sattn_plan *plan = NULL;
  sattn_error error;
  test_call call;
  sattn_sizes maxima = {3, 90, 120};
  test_call_init(&call, env->mode, 3, 90, 120, 2, 2, 64);
  if (sattn_plan_create(env->context, &call.attention, &maxima, SATTN_PASS_FORWARD, &plan, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  static const sattn_sizes sizes[] = {{1, 1, 1}, {3, 90, 120}, {2, 7, 120}, {1, 60, 61}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    test_run run;
    test_result result;
    sattn_queue queue = {NULL};
    call.sizes = sizes[i];
    test_call_fill(&call, &env->random, 1.0);
    if (test_run_open(env->context, &call, plan, &run, &error)) {
      test_fail(env->suite, "%s", error.message);
      break;
    }
    if (test_run_send(&run, &error) || test_run_enqueue(&run, queue, NULL, 0, NULL, &error) ||
        sattn_queue_finish(env->context, queue, &error)) {
      test_fail(env->suite, "%s", error.message);
    } else {
      const char *fault = test_run_fetch(&run, &result, &error);
      if (fault) test_fail(env->suite, "%s", fault);
      test_check_result(env, &call, "size", &result);
    }
    test_run_close(&run);
  }
  sattn_plan_destroy(&plan);
}

/* P-D3: the caller's random numbers are the caller's. */
static void callers_random_numbers(test_env *env) {
  test_call call;
  test_result first;
  test_result again;
  int expected[10];
  test_call_init(&call, env->mode, 1, 40, 40, 2, 2, 64);
  test_call_fill(&call, &env->random, 1.0);
  srand(17);
  for (int i = 0; i < 10; ++i) expected[i] = rand();
  srand(17);
  if (!test_call_ok(env, &call, "first", &first)) return;
  for (int i = 0; i < 10; ++i) {
    if (rand() != expected[i]) {
      test_fail(env->suite, "rand() was disturbed");
      break;
    }
  }
  srand(99);
  if (test_call_ok(env, &call, "again", &again)) test_check_same(env, &call, "after srand", &first, &again);
}

/* ---- permutations of the device ---- */

static void check_permutation(test_env *env, int64_t length, const sattn_permutation_key *key) {
  sattn_permutation_options options;
  sattn_permutation *permutation = NULL;
  sattn_error error;
  sattn_permutation_options_init(&options);
  options.length = length;
  options.key = *key;
  options.sharing = SATTN_PER_HEAD;
  options.kv_heads = 2;
  if (sattn_permutation_create(env->context, &options, &permutation, &error)) {
    test_fail(env->suite, "length %lld: %s", (long long)length, error.message);
    return;
  }
  uint32_t *expected = test_memory((size_t)length * sizeof *expected);
  for (int64_t index = 0; index < 2; ++index) {
    sattn_permutation_key shifted = *key;
    shifted.substream += (uint32_t)index;
    test_oracle_order(length, &shifted, expected);
    const uint32_t *order = sattn_permutation_order(permutation, index);
    if (!order || memcmp(order, expected, (size_t)length * sizeof *expected) != 0)
      test_fail(env->suite, "length %lld, order %lld differs from the format's", (long long)length, (long long)index);
  }
  sattn_permutation_destroy(&permutation);
}

/* P-D2, P-D5: the same on every backend. */
static void permutations(test_env *env) {
  static const int64_t lengths[] = {0, 1, 2, 3, 5, 64, 257, 1000, 65537};
  static const uint64_t seeds[] = {0, 1, UINT64_C(1) << 31, (UINT64_C(1) << 32) + 1, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    sattn_permutation_key key = {seeds[i % 5], (uint32_t)i, i % 2 ? UINT32_MAX : 5, (uint32_t)(3 * i)};
    check_permutation(env, lengths[i], &key);
  }
}

/* Drawing anew into the same object is as good as a new object. */
static void redraw(test_env *env) {
  test_call call;
  test_run run;
  test_result result;
  sattn_error error;
  sattn_queue queue = {NULL};
  test_call_init(&call, SATTN_STOCHASTIC, 1, 50, 50, 1, 1, 64);
  test_call_fill(&call, &env->random, 1.0);
  if (test_run_open(env->context, &call, NULL, &run, &error)) {
    test_fail(env->suite, "%s", error.message);
    return;
  }
  uint64_t before = sattn_permutation_hash(run.permutation);
  call.key.step = 77;
  if (sattn_permutation_redraw(run.permutation, &call.key, &error) || test_run_send(&run, &error) ||
      test_run_enqueue(&run, queue, NULL, 0, NULL, &error) || sattn_queue_finish(env->context, queue, &error)) {
    test_fail(env->suite, "%s", error.message);
  } else {
    if (sattn_permutation_hash(run.permutation) == before) test_fail(env->suite, "the hash did not change");
    const char *fault = test_run_fetch(&run, &result, &error);
    if (fault) test_fail(env->suite, "%s", fault);
    test_check_result(env, &call, "redrawn", &result);
  }
  test_run_close(&run);
}

void cases_repeat(test_suite *suite) {
  test_case_modes(suite, "same-call-twice", MODES_ALL, same_call_twice);
  test_case_modes(suite, "entry-alone", MODES_ALL, entry_alone);
  test_case_modes(suite, "equal-entries", MODES_ALL, equal_entries);
  test_case_modes(suite, "one-plan-many-sizes", MODES_ALL, one_plan_many_sizes);
  test_case_modes(suite, "callers-random-numbers", MODES_ALL, callers_random_numbers);
  test_case_run(suite, "permutations", permutations);
  test_case_run(suite, "redraw", redraw);
}
