/* Small problems for every kernel of the forward pass, against the oracle; each has what its kernel could get wrong: tails, gaps, ties,
 * garbage that only some rows see. Every launch is under the engine's checks, and the fast kernels must have no bank conflict.
 *
 *     cuda_library_kernels [PROBLEM]...
 *
 * The mutation tests run this program on kernels with one mistake in them and expect it to fail.
 */
#include <math.h>
#include <stdlib.h>

#include "common.h"
#include "oracle.h"
#include "small_kernels.h"

typedef struct problem {
  const char *name;
  sattn_mode mode;
  sattn_dtype dtype;
  int64_t batch, queries, keys, heads, kv_heads, head_dim, window;
  void (*adjust)(test_call *call); /* before the inputs are drawn; may be NULL */
  void (*garble)(test_call *call); /* afterwards; may be NULL */
  int banks; /* 1: bank conflicts are a failure; 2: where PTX runs (the host engine takes lanes that skip a chunk wrongly) */
} problem;

/* ---- what is special ---- */

static void sinks(test_call *call) {
  call->attention.sink_tokens = 3;
  call->attention.softcap = 20;
  call->attention.has_sink_logits = 1;
}

static void gates_per_element(test_call *call) {
  call->attention.gate_sa_shape = SATTN_GATE_PER_ELEMENT;
  call->attention.causal = 0;
}

static void circular(test_call *call) {
  call->attention.wrap = 1;
  call->attention.causal = 0;
}

/* The second entry is shorter, so that the order has gaps. */
static void gaps(test_call *call) {
  static const int32_t lengths[2] = {INT32_MAX, 150};
  static int32_t of_call[2];
  of_call[0] = (int32_t)call->sizes.keys;
  of_call[1] = lengths[1];
  call->attention.has_lengths = 1;
  call->lengths = of_call;
  call->attention.sharing = SATTN_PER_HEAD;
}

static void two_orders(test_call *call) {
  call->attention.sharing = SATTN_PER_BATCH;
}

static void sink_logits(test_call *call) {
  call->attention.has_sink_logits = 1;
}

/* Large scores late, so that what was summed before has to be scaled down. Factors are exact in half types, too. */
static void scale_up(test_call *call, int steepness) {
  float *key = test_call_edit(call, TEST_KEY);
  int64_t width = call->attention.kv_heads * call->attention.head_dim;
  for (int64_t j = 0; j < call->sizes.keys; ++j) {
    float factor = (float)ldexp(1.0, steepness * (int)(4 * j / call->sizes.keys) - 2);
    for (int64_t c = 0; c < width; ++c) key[j * width + c] *= factor;
  }
}

static void rising(test_call *call) {
  scale_up(call, 1);
}

/* Beyond the slack that the general kernel leaves its maximum. */
static void steep(test_call *call) {
  scale_up(call, 2);
}

/* The value of the last token is an infinity, which, in a causal call, the last query alone sees. */
static void last_value(test_call *call) {
  float *value = test_call_edit(call, TEST_VALUE);
  int64_t width = call->attention.kv_heads * call->attention.head_dim;
  for (int64_t c = 0; c < width; ++c) value[(call->sizes.keys - 1) * width + c] = (float)INFINITY;
}

static void rising_and_last_value(test_call *call) {
  rising(call);
  last_value(call);
}

/* The second entry has fewer blocks than a query may choose. */
static void blocks(test_call *call) {
  static const int32_t lengths[2] = {100, 20};
  call->attention.has_lengths = 1;
  call->lengths = lengths;
  call->attention.block = 8;
  call->attention.topk = 4;
  call->attention.causal = 0;
}

static const problem problems[] = {
    {"mma", SATTN_STOCHASTIC, SATTN_FP16, 1, 200, 200, 4, 2, 64, 48, NULL, last_value, 1},
    {"mma-bf16", SATTN_STOCHASTIC, SATTN_BF16, 2, 130, 130, 2, 2, 64, 40, two_orders, NULL, 1},
    {"mma-full", SATTN_FULL, SATTN_FP16, 1, 150, 200, 2, 1, 64, 0, sink_logits, NULL, 1},
    {"mma-union", SATTN_UNION, SATTN_FP16, 1, 150, 150, 2, 1, 64, 24, sinks, NULL, 1},
    {"mma-gated", SATTN_GATED, SATTN_BF16, 1, 100, 100, 2, 1, 64, 24, gates_per_element, NULL, 1},
    {"mma-lengths", SATTN_STOCHASTIC, SATTN_FP16, 2, 400, 400, 1, 1, 64, 32, gaps, NULL, 1},
    {"mma-wrap", SATTN_STOCHASTIC, SATTN_FP16, 1, 150, 150, 1, 1, 64, 40, circular, NULL, 1},
    {"mma-decode", SATTN_FULL, SATTN_FP16, 1, 2, 1100, 4, 2, 64, 0, sink_logits, rising, 1},
    {"mma-decode-sa", SATTN_STOCHASTIC, SATTN_BF16, 1, 1, 600, 4, 1, 64, 64, NULL, NULL, 1},
    {"mma-wide-group", SATTN_SLIDING_WINDOW, SATTN_FP16, 1, 3, 40, 200, 1, 64, 20, NULL, NULL, 1},
    {"mma-80", SATTN_STOCHASTIC, SATTN_BF16, 1, 140, 140, 1, 1, 80, 40, NULL, NULL, 1},
    {"mma-96", SATTN_STOCHASTIC, SATTN_FP16, 1, 140, 140, 1, 1, 96, 40, NULL, NULL, 1},
    {"mma-128", SATTN_STOCHASTIC, SATTN_BF16, 1, 140, 140, 1, 1, 128, 40, NULL, NULL, 1},
    {"mma-256", SATTN_STOCHASTIC, SATTN_FP16, 1, 100, 100, 1, 1, 256, 40, NULL, NULL, 1},
    {"fp32", SATTN_STOCHASTIC, SATTN_FP32, 1, 150, 150, 2, 1, 64, 40, NULL, rising_and_last_value, 1},
    {"fp32-union", SATTN_UNION, SATTN_FP32, 1, 100, 100, 2, 1, 64, 24, sinks, NULL, 1},
    {"fp32-gated", SATTN_GATED, SATTN_FP32, 1, 100, 100, 2, 1, 80, 24, gates_per_element, NULL, 2},
    {"fp32-wrap", SATTN_STOCHASTIC, SATTN_FP32, 1, 150, 150, 1, 1, 96, 40, circular, NULL, 1},
    {"fp32-decode", SATTN_FULL, SATTN_FP32, 1, 1, 1100, 2, 1, 128, 0, NULL, rising, 1},
    {"fp32-256", SATTN_STOCHASTIC, SATTN_FP32, 1, 70, 70, 1, 1, 256, 40, NULL, NULL, 1},
    {"general", SATTN_UNION, SATTN_FP32, 2, 400, 400, 1, 1, 20, 48, gaps, steep, 0},
    {"moba", SATTN_MOBA, SATTN_FP32, 2, 100, 100, 2, 1, 16, 0, blocks, NULL, 0},
};

/* ---- running ---- */

static void compare(const char *name, const test_call *call, const test_result *result) {
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_oracle(call, TEST_EXACT, &exact);
  test_oracle_tolerances(call, &exact, tolerance);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!exact.output[o]) continue;
    test_shape shape = test_output_shape(call, (test_output)o);
    if (test_compare(test_output_name((test_output)o), shape, exact.output[o], result->output[o], tolerance[o], &difference))
      fail(__FILE__, __LINE__, "%s: %s", name, difference.report);
  }
}

static void run(const problem *p) {
  test_random random = test_random_open(test_seed(), p->name);
  test_call call;
  test_result result;
  sattn_stub_counters counters;
  const char *fault = NULL;
  sattn_error error;
  test_call_init(&call, p->mode, p->batch, p->queries, p->keys, p->heads, p->kv_heads, p->head_dim);
  call.attention.dtype = p->dtype;
  if (test_mode_uses_sa(p->mode)) call.attention.window_sa = sattn_window_width(p->window);
  if (test_mode_uses_swa(p->mode)) call.attention.window_swa = sattn_window_width(p->window);
  if (p->adjust) p->adjust(&call);
  test_call_fill(&call, &random, 1.0);
  if (p->garble) p->garble(&call);
  sattn_stub_reset();
  if (run_alone("cuda:0", &call, &result, &fault, &error) != SATTN_OK) {
    fail(__FILE__, __LINE__, "%s: %s", p->name, error.message);
  } else {
    CHECK(!fault, "%s: %s", p->name, fault);
    compare(p->name, &call, &result);
  }
  sattn_stub_get_counters(&counters);
  const char *engine = getenv("SATTN_SIM_ENGINE");
  int runs_ptx = getenv("SATTN_SIM_PTX") || (engine && strcmp(engine, "ptx") == 0);
  if (p->banks == 1 || (p->banks == 2 && runs_ptx)) {
    CHECK(counters.ldmatrix_conflicts == 0, "%s: %llu bank conflicts in %llu ldmatrix", p->name, counters.ldmatrix_conflicts,
          counters.ldmatrix);
    CHECK(counters.async_conflicts == 0, "%s: %llu bank conflicts in %llu asynchronous copies", p->name, counters.async_conflicts,
          counters.async_copies);
    CHECK(counters.shared_conflicts == 0, "%s: %llu bank conflicts in %llu accesses of shared memory", p->name, counters.shared_conflicts,
          counters.shared_accesses);
  }
  nothing_left(p->name);
  test_memory_release();
}

typedef void small_check(sattn_context *context, test_random *random);

static void run_small(const char *name, small_check *check) {
  test_random random = test_random_open(test_seed(), name);
  sattn_context *context = NULL;
  sattn_error error;
  OK(sattn_context_create("cuda:0", NULL, &context, &error));
  if (context) check(context, &random);
  sattn_context_destroy(&context);
  nothing_left(name);
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
    small_check *check;
  } small[] = {{"rows", small_rows}, {"merge", small_merge}};
  int known = 0;
  printf("seed %llu\n", (unsigned long long)test_seed());
  sattn_stub_set("banks", 1);
  for (size_t i = 0; i < sizeof problems / sizeof problems[0]; ++i) {
    if (!is_wanted(argc, argv, problems[i].name)) continue;
    run(&problems[i]);
    ++known;
  }
  for (size_t i = 0; i < sizeof small / sizeof small[0]; ++i) {
    if (!is_wanted(argc, argv, small[i].name)) continue;
    run_small(small[i].name, small[i].check);
    ++known;
  }
  CHECK(known > 0, "no problem has that name");
  return report("cuda_library_kernels");
}
