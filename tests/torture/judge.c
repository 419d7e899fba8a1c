#include "judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "run.h"

/* ---- targets ---- */

static sattn_kernel_family family_of(const char *word) {
  static const char *const words[] = {"auto", "cpu", "gpu", "general"};
  for (int i = 0; i < 4; ++i) {
    if (strcmp(word, words[i]) == 0) return (sattn_kernel_family)i;
  }
  return (sattn_kernel_family)-1;
}

static int has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    if (strncmp(at, word, length) == 0 && (at[length] == '\0' || at[length] == ',')) return 1;
  }
  return 0;
}

static int open_target(torture_judge *judge, const char *device, const char *family) {
  sattn_context_options options;
  sattn_error error;
  torture_target *target = &judge->targets[judge->count];
  if (judge->count == TORTURE_TARGETS) return 0;
  sattn_context_options_init(&options);
  options.kernels = family_of(family);
  if (sattn_context_create(device, &options, &target->context, &error)) {
    fprintf(stderr, "sattn-torture: %s: %s\n", device, error.message);
    return -1;
  }
  target->family = family;
  ++judge->count;
  printf("target %d: %s, %s, kernels %s\n", judge->count - 1, sattn_context_device(target->context)->id,
         sattn_context_device(target->context)->name, family);
  return 0;
}

static int open_backend(torture_judge *judge, sattn_backend backend, const char *families) {
  static const char *const words[] = {"auto", "cpu", "gpu", "general"};
  sattn_error error;
  uint32_t devices = 0;
  if (sattn_backend_probe(backend, &error)) {
    printf("no target: %s: %s\n", sattn_backend_name(backend), error.message);
    return 0;
  }
  if (sattn_device_count(backend, &devices, &error)) return -1;
  for (uint32_t i = 0; i < devices; ++i) {
    sattn_device_info info;
    sattn_device_info_init(&info);
    if (sattn_device_get_info(backend, i, &info, &error)) return -1;
    for (int f = 0; f < 4; ++f) {
      if (backend == SATTN_BACKEND_REFERENCE ? f == 0 : has_word(families, words[f])) {
        if (open_target(judge, info.id, words[f])) return -1;
      }
    }
  }
  return 0;
}

int torture_judge_open(torture_judge *judge, const char *backends, const char *families) {
  memset(judge, 0, sizeof *judge);
  judge->tolerance = 1;
  for (int b = SATTN_BACKEND_REFERENCE; b <= SATTN_BACKEND_CUDA; ++b) {
    if (has_word(backends, sattn_backend_name((sattn_backend)b)) && open_backend(judge, (sattn_backend)b, families)) return -1;
  }
  if (judge->count) return 0;
  fprintf(stderr, "sattn-torture: no device of the backends %s with kernels %s\n", backends, families);
  return -1;
}

void torture_judge_close(torture_judge *judge) {
  for (int i = 0; i < judge->count; ++i) sattn_context_destroy(&judge->targets[i].context);
  judge->count = 0;
}

/* ---- what garbage leaves undefined ---- */

typedef struct taint {
  const torture_problem *problem;
  const test_call *call;
  test_oracle_result *exact;
} taint;

static void forget(const taint *t, test_output output, int64_t first, int64_t count) {
  for (int64_t i = 0; t->exact->output[output] && i < count; ++i) t->exact->output[output][first + i] = (double)NAN;
}

/* Query i of head h as one branch (or the whole of other modes) sees it. */
static void taint_row(const taint *t, sattn_band band, int64_t b, int64_t h, int64_t i, unsigned char *seen) {
  const torture_problem *p = t->problem;
  int gated = p->mode == SATTN_GATED;
  int bad = torture_garbage_query(p, b, i);
  int64_t visible = test_oracle_visible(t->call, band, b, h, i, seen);
  for (int64_t j = 0; j < p->keys; ++j) bad |= seen[j] && torture_garbage_key(p, b, j);
  if (!bad || visible == 0) return;
  int64_t row = ((b * p->queries + i) * p->heads + h) * p->head_dim;
  forget(t, TEST_OUT, row, p->head_dim);
  forget(t, TEST_GRAD_QUERY, row, p->head_dim);
  forget(t, !gated ? TEST_LSE : band == SATTN_BAND_SA ? TEST_LSE_SA : TEST_LSE_SWA, (b * p->heads + h) * p->queries + i, 1);
  for (int branch = 0; gated && branch < 2; ++branch) {
    test_output output = branch ? TEST_GRAD_GATE_SWA : TEST_GRAD_GATE_SA;
    int64_t width = test_output_shape(t->call, output).size[3];
    if (t->exact->output[output]) forget(t, output, ((b * p->queries + i) * p->heads + h) * width, width);
  }
  forget(t, TEST_GRAD_SINK_LOGITS, h, 1);
  int64_t g = h / (p->heads / p->kv_heads);
  for (int64_t j = 0; j < p->keys; ++j) {
    if (!seen[j]) continue;
    int64_t at = ((b * p->keys + j) * p->kv_heads + g) * p->head_dim;
    forget(t, TEST_GRAD_KEY, at, p->head_dim);
    forget(t, TEST_GRAD_VALUE, at, p->head_dim);
  }
}

void torture_expected(const torture_problem *p, const test_call *tame, test_oracle_result *exact, double tolerance[TEST_OUTPUTS]) {
  taint t = {p, tame, exact};
  test_oracle(tame, TEST_EXACT, exact);
  test_oracle_tolerances(tame, exact, tolerance);
  if (!p->garbage) return;
  unsigned char *seen = test_memory((size_t)p->keys);
  for (int64_t b = 0; b < p->batch; ++b) {
    for (int64_t h = 0; h < p->heads; ++h) {
      for (int64_t i = 0; i < p->queries; ++i) {
        taint_row(&t, SATTN_BAND_SA, b, h, i, seen);
        if (p->mode == SATTN_GATED) taint_row(&t, SATTN_BAND_SWA, b, h, i, seen);
      }
    }
  }
}

/* ---- verdict ---- */

static int say(char *report, size_t capacity, const char *what, const char *why) {
  snprintf(report, capacity, "%s%s%s", what, *what ? ": " : "", why);
  return 1;
}

static int same_bits(const test_call *call, const test_result *a, const test_result *b, char *report, size_t capacity) {
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!a->output[o]) continue;
    if (test_compare_bits(test_output_name((test_output)o), test_output_shape(call, (test_output)o), a->output[o], b->output[o],
                          &difference))
      return say(report, capacity, "a second run gives other bits", difference.report);
  }
  return 0;
}

static int run_once(sattn_context *context, const torture_problem *p, const test_call *call, test_result *result, char *report,
                    size_t capacity) {
  sattn_error error;
  const char *fault = NULL;
  sattn_status status =
      p->form == FORM_HOST ? test_run_host(context, call, result, &error) : test_run_call(context, call, result, &fault, &error);
  if (status) return say(report, capacity, sattn_status_name(status), error.message);
  return fault ? say(report, capacity, "", fault) : 0;
}

/* Half types step by 2^-24 near zero (fp16), or may be flushed below 2^-126 (bf16, fp32): the contract's relative bounds end there. */
static double smallest(sattn_dtype dtype) {
  return dtype == SATTN_FP16 ? 0x1p-24 : 0x1p-126;
}

static int judge_results(torture_judge *judge, torture_target *target, torture_problem *p, char *report, size_t capacity) {
  test_call call, tame;
  test_oracle_result exact;
  test_result result, again;
  double tolerance[TEST_OUTPUTS];
  torture_expand(p, &call, &tame);
  torture_expected(p, &tame, &exact, tolerance);
  if (!sattn_context_device(target->context)->shares_host_memory) call.wrap = 0;
  if (run_once(target->context, p, &call, &result, report, capacity)) return 1;
  if (judge->fault && p->heads > p->kv_heads && p->keys >= 5) result.output[TEST_OUT][0] += 1;
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!exact.output[o]) continue;
    double allowed = fmax(tolerance[o], smallest(test_output_dtype(&call, (test_output)o)));
    if (test_compare(test_output_name((test_output)o), test_output_shape(&call, (test_output)o), exact.output[o], result.output[o],
                     allowed * judge->tolerance, &difference))
      return say(report, capacity, "", difference.report);
  }
  if (p->form != FORM_TWICE) return 0;
  return run_once(target->context, p, &call, &again, report, capacity) || same_bits(&call, &result, &again, report, capacity);
}

int torture_judge_run(torture_judge *judge, int target, torture_problem *problem, char *report, size_t capacity) {
  int wrong = judge_results(judge, &judge->targets[target], problem, report, capacity);
  ++judge->targets[target].problems;
  test_memory_release();
  return wrong;
}
