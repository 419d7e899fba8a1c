/* attend_amx against the oracle, and proof that it is what ran.
 *
 *     amx_attention --backend opencl [--case PATTERN]... [--seed N]                   every plan of these cases must take attend_amx
 *     amx_attention --refused WORDS --backend opencl [--case PATTERN]... [--seed N]   none may, the reason holds WORDS, results are right
 *
 * Exit status 77: this CPU has no AMX and the emulator is not there. `again` lines need the environment that is printed first.
 */
#include <stdio.h>
#include <stdlib.h>

#include "conformance.h"

#define MODES_AMX (MODE(SATTN_FULL) | MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC))

static const char *refused; /* NULL: attend_amx must be chosen */

/* ---- which kernel ---- */

static void start_call(test_call *call, const test_env *env, int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t kv_heads,
                       int64_t head_dim) {
  test_call_init(call, env->mode, batch, queries, keys, heads, kv_heads, head_dim);
  call->attention.dtype = SATTN_BF16;
  /* One plan for all: a plan for few queries takes attend_decode. */
  call->maxima = (sattn_sizes){batch, queries > 9 ? queries : 9, keys > 9 ? keys : 9};
}

static int takes_right_kernel(test_env *env, const test_call *call, const char *label) {
  sattn_plan_info info;
  sattn_error error;
  sattn_plan_info_init(&info);
  if (sattn_plan_query(env->context, &call->attention, &call->maxima, SATTN_PASS_FORWARD, &info, &error)) {
    test_fail(env->suite, "%s: %s", label, error.message);
    return 0;
  }
  int is_amx = strcmp(info.forward_kernel, "attend_amx") == 0;
  if (is_amx == (refused == NULL) && (is_amx || strstr(info.reason, refused))) return 1;
  test_fail(env->suite, "%s: the plan takes %s (%s)", label, info.forward_kernel, info.reason);
  return 0;
}

static void check(test_env *env, const test_call *call, const char *label) {
  if (takes_right_kernel(env, call, label)) test_check_oracle(env, call, label);
}

static void set_windows(test_call *call, int64_t width) {
  if (test_mode_uses_sa(call->attention.mode)) call->attention.window_sa = sattn_window_width(width);
  if (test_mode_uses_swa(call->attention.mode)) call->attention.window_swa = sattn_window_width(width);
}

/* ---- shapes ---- */

static void token_counts(test_env *env) {
  static const int64_t counts[] = {1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
    test_call call;
    char label[32];
    start_call(&call, env, 1, counts[i], counts[i], 4, 2, 64);
    set_windows(&call, 50);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "n = %lld", (long long)counts[i]);
    check(env, &call, label);
  }
}

static void two_way(test_env *env) {
  for (int64_t n = 60; n <= 200; n += 70) {
    test_call call;
    char label[32];
    start_call(&call, env, 2, n, n, 2, 1, 64);
    call.attention.causal = 0;
    set_windows(&call, 40);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "n = %lld", (long long)n);
    check(env, &call, label);
  }
}

static void head_sizes(test_env *env) {
  static const int64_t sizes[] = {16, 80, 128};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    test_call call;
    char label[32];
    start_call(&call, env, 1, 100, 130, 2, 2, sizes[i]);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "d = %lld", (long long)sizes[i]);
    check(env, &call, label);
  }
}

static void layouts(test_env *env) {
  for (int layout = TEST_BNHD; layout <= TEST_QKV; ++layout) {
    test_call call;
    char label[32];
    start_call(&call, env, 2, 70, 70, 2, 2, 64);
    for (int i = 0; i < 3; ++i) call.layout[i] = (test_layout)layout;
    call.offset = 3 * layout;
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "layout %d", layout);
    check(env, &call, label);
  }
}

/* ---- who is seen ---- */

/* Q = 0 and V[j][x] = 1 where j mod d = x: an output times the count of visible keys is a whole number, which tells how many keys of each
 * residue were seen. bf16 holds counts up to 256 well enough to read them off without any doubt. */
static void check_counts(test_env *env, const test_call *call, const char *label) {
  test_result result;
  unsigned char seen[512];
  const int64_t d = call->attention.head_dim, heads = call->attention.heads, n_q = call->sizes.queries, n_k = call->sizes.keys;
  if (!takes_right_kernel(env, call, label) || !test_call_ok(env, call, label, &result)) return;
  for (int64_t row = 0; row < call->sizes.batch * n_q * heads; ++row) {
    int64_t b = row / heads / n_q, i = row / heads % n_q, h = row % heads;
    int64_t count = test_oracle_visible(call, SATTN_BAND_SA, b, h, i, seen);
    for (int64_t x = 0; x < d; ++x) {
      long want = 0;
      for (int64_t j = x; j < n_k; j += d) want += seen[j];
      float got = result.output[TEST_OUT][row * d + x];
      if (lrintf(got * (float)count) == want && fabsf(got * (float)count - (float)want) <= 0.01f * (float)want) continue;
      test_fail(env->suite, "%s: batch %lld, query %lld, head %lld: %.4g of %lld keys are %lld modulo %lld, not %ld", label, (long long)b,
                (long long)i, (long long)h, (double)(got * (float)count), (long long)count, (long long)x, (long long)d, want);
      return;
    }
  }
}

static void visible_keys(test_env *env) {
  static const int64_t widths[] = {1, 2, 16, 33, 64, 100, 1000};
  for (size_t i = 0; i < 2 * sizeof widths / sizeof widths[0]; ++i) {
    test_call call;
    char label[64];
    int64_t n = i % 3 == 0 ? 64 : i % 3 == 1 ? 129 : 250, width = widths[i / 2];
    start_call(&call, env, 1, i % 4 == 1 ? n - 20 : n, n, 2, 1, 64);
    call.attention.causal = i % 2 == 0;
    set_windows(&call, width);
    test_call_fill(&call, &env->random, 1.0);
    float *query = test_call_edit(&call, TEST_QUERY), *value = test_call_edit(&call, TEST_VALUE);
    for (int64_t k = 0; k < call.sizes.queries * 2 * 64; ++k) query[k] = 0.0f;
    for (int64_t k = 0; k < n * 64; ++k) value[k] = k % 64 == k / 64 % 64;
    snprintf(label, sizeof label, "n = %lld, w = %lld, %s", (long long)n, (long long)width, i % 2 ? "two-way" : "causal");
    check_counts(env, &call, label);
    if (env->mode == SATTN_FULL && i == 3) break;
  }
}

/* A window of one key: the output is the value row, every bit of it. */
static void own_value(test_env *env) {
  test_call call;
  test_result result;
  start_call(&call, env, 1, 150, 150, 2, 2, 64);
  set_windows(&call, 1);
  test_call_fill(&call, &env->random, 2.0);
  if (!takes_right_kernel(env, &call, "w = 1") || !test_call_ok(env, &call, "w = 1", &result)) return;
  if (memcmp(result.output[TEST_OUT], call.input[TEST_VALUE], 150 * 2 * 64 * sizeof(float)) != 0)
    test_fail(env->suite, "an output is not its value row");
}

/* ---- options ---- */

static void options(test_env *env) {
  static const int32_t lengths[] = {130, 77, 0}, starts[] = {30, 10, 0};
  for (int i = 0; i < 8; ++i) {
    test_call call;
    char label[32];
    start_call(&call, env, 3, i == 1 ? 90 : 130, 130, 4, 2, 64);
    sattn_attention *a = &call.attention;
    if (i == 0 || i == 1) a->has_lengths = 1, call.lengths = lengths;
    if (i == 1) a->has_query_start = 1, call.query_start = starts;
    if (i == 2) a->has_sink_logits = 1;
    if (i == 3 && env->mode != SATTN_FULL) a->sink_tokens = 70;
    if (i == 4) a->softcap = 3.0;
    if (i == 5) a->scale = -0.4;
    if (i == 6 && test_mode_uses_sa(env->mode)) a->sharing = SATTN_PER_BATCH_AND_HEAD;
    if (i == 7 && test_mode_uses_sa(env->mode)) a->order_length = 200;
    set_windows(&call, 30);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "option %d", i);
    check(env, &call, label);
  }
}

/* Scores of hundreds, growing with the position: bases must rise again and again. */
static void large_scores(test_env *env) {
  test_call call;
  start_call(&call, env, 1, 300, 300, 1, 1, 64);
  set_windows(&call, 200);
  test_call_fill(&call, &env->random, 6.0);
  float *key = test_call_edit(&call, TEST_KEY), *query = test_call_edit(&call, TEST_QUERY);
  for (int64_t j = 0; j < 300; ++j) {
    key[j * 64] = (float)(j / 10);
    query[j * 64] = 64.0f;
  }
  check(env, &call, "growing scores");
}

/* Weights far above 1 times values near the largest number must not become infinite, with NaN in hidden values or without. */
static void large_values(test_env *env) {
  static const int32_t first[1] = {0};
  for (int with_nan = 0; with_nan < 2; ++with_nan) {
    test_call call;
    start_call(&call, env, 1, 150, 150, 2, 1, 64);
    set_windows(&call, 100);
    test_call_fill(&call, &env->random, 3.0);
    float *value = test_call_edit(&call, TEST_VALUE);
    for (int64_t i = 0; i < 150 * 64; ++i) value[i] = (float)test_round(SATTN_BF16, (double)value[i] * 1e33);
    for (int64_t c = 0; with_nan && c < 64; ++c) value[149 * 64 + c] = NAN;
    /* Of the queries the last one alone sees the NaN. */
    call.sizes.queries = 150 - with_nan;
    call.attention.has_query_start = with_nan;
    if (with_nan) call.query_start = first;
    check(env, &call, with_nan ? "1e34 and NaN" : "1e34");
  }
}

/* Values that tile instructions take for zeros, alone in the first dimension, beside ordinary ones in the others. */
static void subnormal_values(test_env *env) {
  test_call call;
  test_result result;
  unsigned char seen[512];
  start_call(&call, env, 1, 200, 200, 1, 1, 64);
  set_windows(&call, 20);
  test_call_fill(&call, &env->random, 1.0);
  float *query = test_call_edit(&call, TEST_QUERY), *value = test_call_edit(&call, TEST_VALUE);
  memset(query, 0, 200 * 64 * sizeof *query);
  for (int64_t j = 0; j < 200; ++j) value[j * 64] = ldexpf((float)(j % 100), -133);
  check(env, &call, "ordinary dimensions");
  if (!test_call_ok(env, &call, "subnormal dimension", &result)) return;
  for (int64_t i = 0; i < 200; ++i) {
    double sum = 0, count = (double)test_oracle_visible(&call, SATTN_BAND_SA, 0, 0, i, seen);
    for (int64_t j = 0; j < 200; ++j) sum += seen[j] ? (double)value[j * 64] : 0.0;
    /* Half a unit of bf16 there, and a little. */
    if (fabs((double)result.output[TEST_OUT][i * 64] - sum / count) <= 0.51 * ldexp(1, -133)) continue;
    test_fail(env->suite, "query %lld: %g, not %g", (long long)i, (double)result.output[TEST_OUT][i * 64], sum / count);
    return;
  }
}

/* ---- garbage ---- */

/* Rows that do not see it keep every bit; rows that see it are not finite. */
static void check_garbage(test_env *env, const test_call *clean, test_input where, float garbage, const char *label) {
  test_result before, after;
  unsigned char seen[512];
  test_call dirty = *clean;
  const int64_t n = clean->sizes.keys, bad[2] = {40, 41}, d = clean->attention.head_dim, heads = clean->attention.heads;
  const int64_t width = where == TEST_QUERY ? heads * d : clean->attention.kv_heads * d;
  float *rows = test_call_edit(&dirty, where);
  rows[bad[0] * width + 3] = garbage;
  rows[bad[1] * width + 5] = -garbage;
  if (!takes_right_kernel(env, &dirty, label)) return;
  if (!test_call_ok(env, clean, label, &before) || !test_call_ok(env, &dirty, label, &after)) return;
  for (int64_t row = 0; row < n * heads; ++row) {
    int64_t i = row / heads, h = row % heads;
    test_oracle_visible(clean, SATTN_BAND_SA, 0, h, i, seen);
    const float *was = before.output[TEST_OUT] + row * d, *is = after.output[TEST_OUT] + row * d;
    /* The bad numbers are in key/value head 0, or query head 0. */
    int meets = where == TEST_QUERY ? h == 0 && (i == bad[0] || i == bad[1])
                                    : h < heads / clean->attention.kv_heads && (seen[bad[0]] || seen[bad[1]]);
    if (!meets && memcmp(was, is, (size_t)d * sizeof *was) != 0) {
      test_fail(env->suite, "%s: query %lld, head %lld does not see it and changes", label, (long long)i, (long long)h);
      return;
    }
    int finite = 1;
    for (int64_t x = 0; x < d; ++x) finite &= isfinite(is[x]) != 0;
    if (meets && finite && isnan(garbage)) {
      test_fail(env->suite, "%s: query %lld, head %lld sees it and is finite", label, (long long)i, (long long)h);
      return;
    }
  }
}

static void garbage(test_env *env) {
  static const float kinds[] = {NAN, INFINITY};
  for (int i = 0; i < 12; ++i) {
    test_call call;
    char label[64];
    start_call(&call, env, 1, 150, 150, 2, 2, 64);
    call.attention.causal = i % 2 == 0;
    set_windows(&call, 30);
    test_call_fill(&call, &env->random, 1.0);
    snprintf(label, sizeof label, "%g in input %d, %s", (double)kinds[i / 6], i % 6 / 2, i % 2 ? "two-way" : "causal");
    check_garbage(env, &call, (test_input)(TEST_QUERY + i % 6 / 2), kinds[i / 6], label);
  }
}

/* ---- bits ---- */

/* Twice the same, and a batch entry alone as among others. */
static void same_bits(test_env *env) {
  test_call both, alone;
  test_result first, second, single;
  start_call(&both, env, 2, 140, 140, 2, 1, 64);
  set_windows(&both, 60);
  test_call_fill(&both, &env->random, 2.0);
  alone = both;
  alone.sizes.batch = 1;
  if (!test_call_ok(env, &both, "first", &first) || !test_call_ok(env, &both, "second", &second)) return;
  test_check_same(env, &both, "twice", &first, &second);
  if (!test_call_ok(env, &alone, "alone", &single)) return;
  test_check_same(env, &alone, "alone", &first, &single);
}

/* ---- anything ---- */

static void random_calls(test_env *env) {
  static const double spreads[] = {0.3, 1.0, 3.0};
  test_random *random = &env->random;
  for (int i = 0; i < 40; ++i) {
    test_call call;
    char label[32];
    int32_t lengths[2], starts[2];
    env->mode = (sattn_mode)(SATTN_FULL + test_random_below(random, 3));
    int64_t keys = 1 + test_random_below(random, 300), queries = 1 + test_random_below(random, keys);
    if (test_random_below(random, 2)) queries = keys;
    int64_t kv_heads = 1 + test_random_below(random, 2), batch = 1 + test_random_below(random, 2);
    start_call(&call, env, batch, queries, keys, kv_heads * (1 + test_random_below(random, 3)), kv_heads, 64);
    sattn_attention *a = &call.attention;
    a->causal = test_random_below(random, 3) != 0;
    set_windows(&call, 1 + test_random_below(random, test_random_below(random, 2) ? 80 : keys + 2));
    a->sink_tokens = a->mode != SATTN_FULL && test_random_below(random, 4) == 0 ? test_random_below(random, 80) : 0;
    a->has_sink_logits = test_random_below(random, 3) == 0;
    if (test_random_below(random, 3) == 0) a->has_lengths = 1, call.lengths = lengths;
    if (test_random_below(random, 3) == 0) a->has_query_start = 1, call.query_start = starts;
    if (a->mode == SATTN_STOCHASTIC) a->sharing = (sattn_sharing)test_random_below(random, 4);
    if (a->mode == SATTN_STOCHASTIC && test_random_below(random, 3) == 0) a->order_length = keys + test_random_below(random, 90);
    for (int b = 0; b < 2; ++b) {
      lengths[b] = (int32_t)test_random_below(random, keys + 1);
      starts[b] = (int32_t)test_random_below(random, keys - queries + 1);
    }
    call.key.seed = test_random_next(random);
    if (keys < 9 && a->order_length) a->order_length = 0;
    test_call_fill(&call, random, spreads[test_random_below(random, 3)]);
    snprintf(label, sizeof label, "problem %d", i);
    check(env, &call, label);
  }
}

static void run_all(test_suite *suite) {
  test_case_modes(suite, "token-counts", MODES_AMX, token_counts);
  test_case_modes(suite, "two-way", MODES_AMX, two_way);
  test_case_modes(suite, "head-sizes", MODE(SATTN_STOCHASTIC), head_sizes);
  test_case_modes(suite, "layouts", MODE(SATTN_STOCHASTIC), layouts);
  test_case_modes(suite, "visible-keys", MODES_AMX, visible_keys);
  test_case_modes(suite, "own-value", MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC), own_value);
  test_case_modes(suite, "options", MODES_AMX, options);
  test_case_modes(suite, "large-scores", MODES_AMX, large_scores);
  test_case_modes(suite, "large-values", MODES_AMX, large_values);
  test_case_modes(suite, "subnormal-values", MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC), subnormal_values);
  test_case_modes(suite, "garbage", MODE(SATTN_SLIDING_WINDOW) | MODE(SATTN_STOCHASTIC), garbage);
  test_case_modes(suite, "same-bits", MODES_AMX, same_bits);
  test_case_modes(suite, "random", MODE(SATTN_FULL), random_calls);
}

/* A processor with AMX, or the emulator, which answers in the file's place. */
static int has_amx(void) {
  static char line[8192];
  int found = 0;
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof line, file)) found |= strstr(line, " amx_bf16") != NULL;
  if (file) fclose(file);
  return found;
}

int main(int argc, char **argv) {
  static const char *const names[] = {"LD_PRELOAD", "SATTN_AMX_EMULATOR", "SATTN_AMX"};
  test_suite suite;
  if (argc > 2 && strcmp(argv[1], "--refused") == 0) {
    refused = argv[2];
    argv[2] = argv[0];
    argv += 2;
    argc -= 2;
  }
  int status = test_suite_parse(&suite, NULL, argc, argv);
  if (status) return status;
  if (!has_amx()) {
    printf("this CPU has no AMX\n");
    return 77;
  }
  printf("environment:");
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (getenv(names[i])) printf(" %s=%s", names[i], getenv(names[i]));
  }
  printf("\n");
  return test_suite_run(&suite, run_all);
}
