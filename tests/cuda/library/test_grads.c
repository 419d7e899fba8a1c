/* Small problems for the gradients on tensor cores; each has what a kernel could get wrong: tails, tiles of both kinds, sinks, gaps, groups
 * of heads, garbage that only some rows see. Every launch is under the engine's checks, and there must be no bank conflict.
 *
 *     cuda_library_grads [PROBLEM]...
 *
 * exact-...     probabilities times integers: every entry of dQ, dK, dV is the number of pairs that it stands for, and an exact zero where
 *               there is none, so a pair too much or too few shows whatever the tolerance
 * orders-...    the same bits in every order of execution
 * the others    random numbers against the oracle; where inputs are not finite, against the general kernel
 *
 * The mutation tests run this program on kernels with one mistake in them and expect it to fail.
 */
#include <math.h>
#include <stdlib.h>

#include "common.h"
#include "oracle.h"

typedef struct problem {
  const char *name;
  sattn_mode mode;
  sattn_dtype dtype;
  int64_t batch, queries, keys, heads, kv_heads, head_dim, window;
  void (*adjust)(test_call *call); /* before the inputs are drawn; may be NULL */
  void (*garble)(test_call *call); /* afterwards; may be NULL: the oracle tells what is right, else the general kernel */
} problem;

/* ---- what is special ---- */

static void two_way(test_call *call) {
  call->attention.causal = 0;
}

static void sinks(test_call *call) {
  call->attention.sink_tokens = 3;
  call->attention.has_sink_logits = 1;
}

static void cap(test_call *call) {
  sinks(call);
  call->attention.softcap = 2;
}

static void many_sinks(test_call *call) {
  call->attention.sink_tokens = 70;
  call->attention.scale = -0.2;
}

/* The second entry is shorter, so that the order has gaps, and begins early, so that there are keys that nobody sees. */
static void gaps(test_call *call) {
  static const int32_t lengths[2] = {160, 90};
  static const int32_t start[2] = {10, 0};
  call->attention.has_lengths = call->attention.has_query_start = 1;
  call->lengths = lengths;
  call->query_start = start;
  call->attention.sharing = SATTN_PER_HEAD;
}

/* Two-way, so that every query sees all of the keys beside those that do not exist. */
static void missing_keys(test_call *call) {
  static const int32_t lengths[2] = {65, 37};
  two_way(call);
  call->attention.has_lengths = 1;
  call->lengths = lengths;
}

static void long_order(test_call *call) {
  call->attention.order_length = call->sizes.keys + 60;
  call->attention.sharing = SATTN_PER_BATCH;
  call->attention.causal = 0;
}

static void poison(test_call *call, test_input input, int64_t token, int64_t heads, float value) {
  float *array = test_call_edit(call, input);
  int64_t width = heads * call->attention.head_dim;
  /* Half of the elements: the other half stays finite where that is so. */
  for (int64_t c = 0; c < width; c += 2) array[token * width + c] = value;
}

static void bad_keys(test_call *call) {
  poison(call, TEST_KEY, 70, call->attention.kv_heads, NAN);
  poison(call, TEST_VALUE, 99, call->attention.kv_heads, INFINITY);
}

static void bad_queries(test_call *call) {
  poison(call, TEST_QUERY, 40, call->attention.heads, NAN);
  poison(call, TEST_GRAD_OUT, 64, call->attention.heads, INFINITY);
}

static const problem problems[] = {
    {"sa", SATTN_STOCHASTIC, SATTN_FP16, 1, 200, 200, 4, 2, 64, 48, NULL, NULL},
    {"sa-bf16", SATTN_STOCHASTIC, SATTN_BF16, 2, 110, 130, 2, 2, 64, 40, long_order, NULL},
    {"full", SATTN_FULL, SATTN_FP16, 1, 140, 170, 6, 2, 64, 0, NULL, NULL},
    {"union", SATTN_UNION, SATTN_FP16, 1, 150, 150, 2, 1, 64, 24, sinks, NULL},
    {"union-two-way", SATTN_UNION, SATTN_BF16, 1, 100, 100, 2, 1, 80, 24, two_way, NULL},
    {"gated", SATTN_GATED, SATTN_FP16, 1, 130, 130, 2, 1, 64, 24, cap, NULL},
    {"lengths", SATTN_STOCHASTIC, SATTN_FP16, 2, 150, 180, 2, 2, 64, 32, gaps, NULL},
    {"missing-keys", SATTN_FULL, SATTN_FP16, 2, 82, 82, 1, 1, 64, 0, missing_keys, NULL},
    {"many-sinks", SATTN_STOCHASTIC, SATTN_BF16, 1, 140, 140, 1, 1, 64, 16, many_sinks, NULL},
    {"swa", SATTN_SLIDING_WINDOW, SATTN_BF16, 1, 140, 150, 3, 1, 128, 40, sinks, NULL},
    {"sa-80", SATTN_STOCHASTIC, SATTN_FP16, 1, 140, 140, 1, 1, 80, 40, NULL, NULL},
    {"sa-96", SATTN_STOCHASTIC, SATTN_BF16, 1, 140, 140, 1, 1, 96, 40, NULL, NULL},
    {"sa-128", SATTN_STOCHASTIC, SATTN_FP16, 1, 140, 140, 2, 1, 128, 40, NULL, NULL},
    {"sa-256", SATTN_STOCHASTIC, SATTN_BF16, 1, 100, 100, 2, 1, 256, 40, NULL, NULL},
    {"gated-256", SATTN_GATED, SATTN_FP16, 1, 70, 70, 1, 1, 256, 40, two_way, NULL},
    {"bad-keys", SATTN_STOCHASTIC, SATTN_FP16, 1, 130, 130, 1, 1, 64, 32, NULL, bad_keys},
    {"bad-queries", SATTN_UNION, SATTN_BF16, 1, 130, 130, 2, 1, 64, 16, NULL, bad_queries},
    {"bad-full", SATTN_FULL, SATTN_FP16, 1, 100, 100, 1, 1, 64, 0, NULL, bad_queries},
};

/* ---- what is right ---- */

static void compare(const char *name, const test_call *call, const test_result *result) {
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_oracle(call, TEST_EXACT, &exact);
  test_oracle_tolerances(call, &exact, tolerance);
  for (int o = TEST_GRAD_QUERY; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!exact.output[o]) continue;
    test_shape shape = test_output_shape(call, (test_output)o);
    if (test_compare(test_output_name((test_output)o), shape, exact.output[o], result->output[o], tolerance[o], &difference))
      fail(__FILE__, __LINE__, "%s: %s", name, difference.report);
  }
}

/* Finite where the general kernel's result is, and close to it; not finite elsewhere. */
static void compare_to_general(const char *name, const test_call *call, const test_result *result) {
  test_result general;
  const char *fault = NULL;
  sattn_error error;
  setenv("SATTN_KERNELS", "general", 1);
  OK(run_alone("cuda:0", call, &general, &fault, &error));
  unsetenv("SATTN_KERNELS");
  for (int o = TEST_GRAD_QUERY; o <= TEST_GRAD_VALUE; ++o) {
    size_t count = test_shape_count(test_output_shape(call, (test_output)o)), wrong = 0, bad = 0;
    for (size_t i = 0; i < count; ++i) {
      float expected = general.output[o][i], got = result->output[o][i];
      bad += !isfinite(expected);
      wrong += isfinite(expected) ? !(fabsf(got - expected) <= 0.03f * (1 + fabsf(expected))) : isfinite(got);
    }
    const char *output = test_output_name((test_output)o);
    CHECK(!wrong, "%s: %zu of %zu elements of %s are not as the general kernel's, of which %zu are not finite", name, wrong, count, output,
          bad);
    CHECK(bad < count, "%s: nothing of %s is finite, so nothing is compared", name, output);
  }
}

/* ---- exact problems: scores are 0, so a query that sees m keys has P = 1 / m ---- */

/* One 1 a row, in element `token` modulo d, times `factor` of the row (NULL: 1). */
static void one_hot(test_call *call, test_input input, int64_t tokens, int64_t heads, const int64_t *factor) {
  float *array = test_call_edit(call, input);
  int64_t d = call->attention.head_dim;
  memset(array, 0, sizeof *array * (size_t)(tokens * heads * d));
  for (int64_t i = 0; i < tokens; ++i)
    for (int64_t h = 0; h < heads; ++h) array[(i * heads + h) * d + i % d] = factor ? (float)factor[i * heads + h] : 1;
}

static void zero(test_call *call, test_input input) {
  float *array = test_call_edit(call, input);
  memset(array, 0, sizeof *array * test_shape_count(test_input_shape(call, input)));
}

/* dLSE = m, and P = 1 / m: dS is 1 for each visible pair. */
static void count_pairs(test_call *call, int64_t *count) {
  int64_t heads = call->attention.heads, queries = call->sizes.queries;
  unsigned char *seen = test_memory((size_t)call->sizes.keys);
  float *grad_lse = test_call_edit(call, TEST_GRAD_LSE);
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t h = 0; h < heads; ++h) {
      count[i * heads + h] = test_oracle_visible(call, SATTN_BAND_SA, 0, h, i, seen);
      grad_lse[h * queries + i] = (float)count[i * heads + h];
    }
  }
}

/* Counts times `unit`, up to the rounding of P to the dtype. */
static void compare_counts(const char *name, const test_call *call, const test_result *result, const test_oracle_result *exact,
                           test_output output, double unit) {
  size_t count = test_shape_count(test_output_shape(call, output)), wrong = 0, pairs = 0;
  for (size_t i = 0; i < count; ++i) {
    double expected = rint(exact->output[output][i] / unit), got = (double)result->output[output][i] / unit;
    pairs += expected != 0;
    wrong += expected == 0 ? got != 0 : !(fabs(got - expected) <= 0.01 * expected);
  }
  CHECK(pairs > 0, "%s: %s counts nothing", name, test_output_name(output));
  CHECK(!wrong, "%s: %zu of %zu counts of %s are wrong", name, wrong, count, test_output_name(output));
}

/* First Q = 0 and K one-hot: dQ tells which keys a query sees. Then K = 0, Q and dO one-hot: dK and dV tell which queries see a key. */
static void exact(const char *name, sattn_mode mode, int64_t n, int64_t heads, void (*adjust)(test_call *call)) {
  sattn_error error;
  for (int turn = 0; turn < 2; ++turn) {
    test_random random = test_random_open(test_seed(), name);
    test_call call;
    test_result result;
    test_oracle_result right;
    const char *fault = NULL;
    test_call_init(&call, mode, 1, n, n, heads, 1, 64);
    call.attention.dtype = SATTN_FP16;
    if (adjust) adjust(&call);
    test_call_fill(&call, &random, 1.0);
    test_call_fill_gradients(&call, &random, 1);
    zero(&call, TEST_VALUE);
    zero(&call, turn ? TEST_KEY : TEST_QUERY);
    zero(&call, TEST_GRAD_OUT);
    int64_t *count = test_memory(sizeof *count * (size_t)(n * heads));
    count_pairs(&call, count);
    if (turn) one_hot(&call, TEST_QUERY, n, heads, NULL);
    if (turn) one_hot(&call, TEST_GRAD_OUT, n, heads, count);
    if (!turn) one_hot(&call, TEST_KEY, n, 1, NULL);
    test_oracle(&call, TEST_EXACT, &right);
    if (run_alone("cuda:0", &call, &result, &fault, &error) != SATTN_OK) {
      fail(__FILE__, __LINE__, "%s: %s", name, error.message);
      break;
    }
    CHECK(!fault, "%s: %s", name, fault);
    if (!turn) compare_counts(name, &call, &result, &right, TEST_GRAD_QUERY, 0.125);
    if (turn) compare_counts(name, &call, &result, &right, TEST_GRAD_KEY, 0.125);
    if (turn) compare_counts(name, &call, &result, &right, TEST_GRAD_VALUE, 1);
  }
  test_memory_release();
}

static void few_sinks(test_call *call) {
  call->attention.sink_tokens = 2;
}

static void short_window(test_call *call) {
  few_sinks(call);
  call->attention.window_swa = sattn_window_width(20);
}

static void union_bands(test_call *call) {
  few_sinks(call);
  call->attention.window_sa = sattn_window_sides(9, 20);
  call->attention.window_swa = sattn_window_sides(13, 4);
  two_way(call);
}

/* The last key of a tile is seen by the first query of the next one alone. */
static void narrow(test_call *call) {
  call->attention.window_sa = sattn_window_sides(1, 0);
  two_way(call);
}

static void exact_full(const char *name) {
  exact(name, SATTN_FULL, 150, 1, NULL);
}

static void exact_swa(const char *name) {
  exact(name, SATTN_SLIDING_WINDOW, 160, 3, short_window);
}

static void exact_sa(const char *name) {
  exact(name, SATTN_STOCHASTIC, 140, 2, few_sinks);
}

static void exact_narrow(const char *name) {
  exact(name, SATTN_STOCHASTIC, 140, 1, narrow);
}

static void exact_union(const char *name) {
  exact(name, SATTN_UNION, 140, 1, union_bands);
}

/* A row that sees one key: dV = dO to the bit, dQ = dK = 0. */
static void exact_one(const char *name) {
  sattn_error error;
  test_random random = test_random_open(test_seed(), name);
  test_call call;
  test_result result;
  test_difference difference;
  const char *fault = NULL;
  test_call_init(&call, SATTN_STOCHASTIC, 1, 70, 70, 2, 2, 64);
  call.attention.dtype = SATTN_BF16;
  call.attention.window_sa = sattn_window_width(1);
  test_call_fill(&call, &random, 3.0);
  test_call_fill_gradients(&call, &random, 0);
  float *nothing = test_memory(sizeof *nothing * 70 * 2 * 64);
  memset(nothing, 0, sizeof *nothing * 70 * 2 * 64);
  OK(run_alone("cuda:0", &call, &result, &fault, &error));
  CHECK(!fault, "%s: %s", name, fault);
  const float *expected[3] = {nothing, nothing, call.input[TEST_GRAD_OUT]};
  for (int o = 0; o < 3 && !failures; ++o) {
    test_output output = (test_output)(TEST_GRAD_QUERY + o);
    test_shape shape = test_output_shape(&call, output);
    if (test_compare_exact(test_output_name(output), shape, expected[o], result.output[output], &difference))
      fail(__FILE__, __LINE__, "%s: %s", name, difference.report);
  }
  test_memory_release();
}

/* ---- the same bits in every order of threads, warps and blocks, and whenever copies arrive ---- */

static void in_orders(const char *name, sattn_mode mode, sattn_dtype dtype, int64_t head_dim, int times) {
  static const char *const schedules[4] = {"fifo", "reverse", "lifo", NULL};
  sattn_error error;
  test_random random = test_random_open(test_seed(), name);
  test_call call;
  test_result first;
  test_call_init(&call, mode, 2, 90, 90, 2, 1, head_dim);
  call.attention.dtype = dtype;
  test_call_fill(&call, &random, 1.0);
  test_call_fill_gradients(&call, &random, 1);
  for (int i = 0; i < times; ++i) {
    test_result result;
    const char *fault = NULL;
    char other[32];
    snprintf(other, sizeof other, "random:%d", i);
    const char *schedule = schedules[i % 4] ? schedules[i % 4] : other;
    setenv("SATTN_SIM_SCHEDULE", schedule, 1);
    setenv("SATTN_SIM_COPIES", i / 4 % 2 ? "early" : "late", 1);
    OK(run_alone("cuda:0", &call, &result, &fault, &error));
    CHECK(!fault, "%s: %s", name, fault);
    if (failures) break;
    if (i == 0) first = result;
    if (!same_bits(&call, &first, &result, schedule)) break;
  }
  unsetenv("SATTN_SIM_SCHEDULE");
  unsetenv("SATTN_SIM_COPIES");
  test_memory_release();
}

static void orders_sa(const char *name) {
  in_orders(name, SATTN_STOCHASTIC, SATTN_FP16, 64, 30);
}

static void orders_union(const char *name) {
  in_orders(name, SATTN_UNION, SATTN_BF16, 128, 8);
}

static void orders_gated(const char *name) {
  in_orders(name, SATTN_GATED, SATTN_FP16, 80, 8);
}

/* ---- running ---- */

static void check_banks(const char *name) {
  sattn_stub_counters counters;
  sattn_stub_get_counters(&counters);
  CHECK(counters.ldmatrix_conflicts == 0, "%s: %llu bank conflicts in %llu ldmatrix", name, counters.ldmatrix_conflicts, counters.ldmatrix);
  CHECK(counters.async_conflicts == 0, "%s: %llu bank conflicts in %llu asynchronous copies", name, counters.async_conflicts,
        counters.async_copies);
  CHECK(counters.shared_conflicts == 0, "%s: %llu bank conflicts in %llu accesses of shared memory", name, counters.shared_conflicts,
        counters.shared_accesses);
}

static void run(const problem *p) {
  test_random random = test_random_open(test_seed(), p->name);
  test_call call;
  test_result result;
  const char *fault = NULL;
  sattn_error error;
  test_call_init(&call, p->mode, p->batch, p->queries, p->keys, p->heads, p->kv_heads, p->head_dim);
  call.attention.dtype = p->dtype;
  if (test_mode_uses_sa(p->mode)) call.attention.window_sa = sattn_window_width(p->window);
  if (test_mode_uses_swa(p->mode)) call.attention.window_swa = sattn_window_width(p->window);
  if (p->adjust) p->adjust(&call);
  test_call_fill(&call, &random, 1.0);
  test_call_fill_gradients(&call, &random, 1);
  if (p->garble) p->garble(&call);
  sattn_stub_reset();
  sattn_stub_set("banks", 1);
  if (run_alone("cuda:0", &call, &result, &fault, &error) != SATTN_OK) {
    fail(__FILE__, __LINE__, "%s: %s", p->name, error.message);
  } else {
    CHECK(!fault, "%s: %s", p->name, fault);
    check_banks(p->name);
    if (p->garble) compare_to_general(p->name, &call, &result);
    if (!p->garble) compare(p->name, &call, &result);
  }
  nothing_left(p->name);
  test_memory_release();
}

static int is_wanted(int argc, char **argv, const char *name) {
  int wanted = argc < 2;
  for (int a = 1; a < argc; ++a) wanted |= strcmp(argv[a], name) == 0;
  return wanted;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*check)(const char *name);
  } checks[] = {{"exact-full", exact_full},     {"exact-swa", exact_swa},       {"exact-sa", exact_sa},
                {"exact-narrow", exact_narrow}, {"exact-union", exact_union},   {"exact-one", exact_one},
                {"orders-sa", orders_sa},       {"orders-union", orders_union}, {"orders-gated", orders_gated}};
  int known = 0;
  printf("seed %llu\n", (unsigned long long)test_seed());
  for (size_t i = 0; i < sizeof checks / sizeof checks[0]; ++i) {
    if (!is_wanted(argc, argv, checks[i].name)) continue;
    checks[i].check(checks[i].name);
    ++known;
  }
  for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
    if (!is_wanted(argc, argv, problems[i].name)) continue;
    run(&problems[i]);
    ++known;
  }
  CHECK(known > 0, "no problem has that name");
  return report("cuda_library_grads");
}
