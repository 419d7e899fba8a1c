/* Small random problems: every mode, both passes, every dtype, with what makes kernels choose another way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "selftest.h"

enum { OUT, LSE, LSE_SWA, DQ, DK, DV, DGATE_SA, DGATE_SWA, ARRAYS };
_Static_assert((int)ARRAYS <= (int)(sizeof((sattn_selftest_answer *)0)->values / sizeof(float *)), "an answer holds every array");

typedef struct problem {
  const char *name;
  sattn_mode mode;
  sattn_dtype dtype;
  bool causal, backward;
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  int64_t window_sa, window_swa, block, topk, sink_tokens;
} problem;

static const problem PROBLEMS[] = {
    {"full fp32", SATTN_FULL, SATTN_FP32, true, false, 2, 77, 77, 4, 2, 64, 0, 0, 0, 0, 0},
    {"swa fp32", SATTN_SLIDING_WINDOW, SATTN_FP32, true, false, 1, 150, 150, 3, 3, 64, 0, 33, 0, 0, 4},
    {"sa fp32", SATTN_STOCHASTIC, SATTN_FP32, true, false, 2, 300, 300, 2, 1, 64, 48, 0, 0, 0, 0},
    {"sa two-way fp32", SATTN_STOCHASTIC, SATTN_FP32, false, false, 1, 257, 257, 2, 2, 128, 64, 0, 0, 0, 0},
    {"sa odd fp32", SATTN_STOCHASTIC, SATTN_FP32, true, false, 1, 67, 97, 6, 2, 20, 17, 0, 0, 0, 3},
    {"sa fp16", SATTN_STOCHASTIC, SATTN_FP16, true, false, 1, 300, 300, 2, 1, 64, 48, 0, 0, 0, 0},
    {"sa bf16", SATTN_STOCHASTIC, SATTN_BF16, true, false, 1, 300, 300, 2, 1, 64, 48, 0, 0, 0, 0},
    {"union fp32", SATTN_UNION, SATTN_FP32, true, false, 1, 130, 130, 2, 2, 64, 20, 12, 0, 0, 2},
    {"gated fp32", SATTN_GATED, SATTN_FP32, true, false, 1, 130, 130, 2, 2, 64, 20, 12, 0, 0, 0},
    {"gated bf16", SATTN_GATED, SATTN_BF16, true, false, 1, 130, 130, 2, 2, 64, 20, 12, 0, 0, 0},
    {"moba fp32", SATTN_MOBA, SATTN_FP32, true, false, 1, 130, 130, 2, 2, 64, 0, 0, 16, 3, 0},
    {"full gradients", SATTN_FULL, SATTN_FP32, true, true, 1, 70, 70, 2, 1, 64, 0, 0, 0, 0, 0},
    {"swa gradients", SATTN_SLIDING_WINDOW, SATTN_FP32, true, true, 1, 70, 70, 2, 1, 64, 0, 9, 0, 0, 0},
    {"sa gradients", SATTN_STOCHASTIC, SATTN_FP32, true, true, 1, 130, 130, 2, 1, 64, 24, 0, 0, 0, 0},
    {"union gradients", SATTN_UNION, SATTN_FP32, true, true, 1, 70, 70, 2, 1, 64, 12, 9, 0, 0, 0},
    {"gated gradients", SATTN_GATED, SATTN_FP32, true, true, 1, 70, 70, 2, 1, 64, 12, 9, 0, 0, 0},
    {"moba gradients", SATTN_MOBA, SATTN_FP32, true, true, 1, 70, 70, 2, 1, 64, 0, 0, 16, 2, 0},
};

int sattn_selftest_problem_count(void) {
  return sizeof PROBLEMS / sizeof PROBLEMS[0];
}
const char *sattn_selftest_problem_name(int index) {
  return PROBLEMS[index].name;
}

/* Uniform in -1..1, the same numbers on every machine. */
static float random_value(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(*state >> 11) * 0x1p-52 - 1);
}

typedef enum input { QUERY, KEY, VALUE, GRAD_OUT, GATE_SA, GATE_SWA, INPUTS } input;

static uint64_t input_count(const problem *p, input which) {
  switch (which) {
    case KEY:
    case VALUE:
      return (uint64_t)(p->batch * p->keys * p->kv_heads * p->head_dim);
    case GATE_SA:
    case GATE_SWA:
      return (uint64_t)(p->batch * p->queries * p->heads);
    default:
      return (uint64_t)(p->batch * p->queries * p->heads * p->head_dim);
  }
}

/* Inputs in storage; gates stay fp32. */
static bool make_inputs(const problem *p, int index, void **inputs, sattn_report *report) {
  uint64_t state = (uint64_t)index + 1;
  for (int i = 0; i < INPUTS; i++) {
    uint64_t count = input_count(p, (input)i);
    bool half = p->dtype != SATTN_FP32 && i < GATE_SA;
    inputs[i] = sattn_tool_allocate(report, "selftest", count, half ? sizeof(uint16_t) : sizeof(float));
    if (!inputs[i]) return false;
    for (uint64_t e = 0; e < count; e++) {
      float value = random_value(&state);
      if (half)
        ((uint16_t *)inputs[i])[e] = p->dtype == SATTN_FP16 ? sattn_fp16_from_float(value) : sattn_bf16_from_float(value);
      else
        ((float *)inputs[i])[e] = value;
    }
  }
  return true;
}

static bool has_array(const problem *p, int array) {
  bool gated = p->mode == SATTN_GATED;
  switch (array) {
    case OUT:
    case LSE:
      return true;
    case LSE_SWA:
      return gated;
    case DGATE_SA:
    case DGATE_SWA:
      return gated && p->backward;
    default:
      return p->backward;
  }
}

static uint64_t array_count(const problem *p, int array) {
  switch (array) {
    case OUT:
    case DQ:
      return input_count(p, QUERY);
    case DK:
    case DV:
      return input_count(p, KEY);
    default:
      return input_count(p, GATE_SA);
  }
}

static bool make_answer(const problem *p, sattn_selftest_answer *answer, sattn_report *report) {
  for (int i = 0; i < ARRAYS; i++) {
    if (!has_array(p, i)) continue;
    answer->counts[i] = array_count(p, i);
    answer->values[i] = sattn_tool_allocate(report, "selftest", answer->counts[i], sizeof(float));
    if (!answer->values[i]) return false;
    for (uint64_t e = 0; e < answer->counts[i]; e++) answer->values[i][e] = (float)NAN; /* what is not written must not look right */
  }
  return true;
}

static void describe(const problem *p, int index, sattn_host_call *call) {
  sattn_attention *a = &call->attention;
  a->mode = p->mode;
  a->dtype = p->dtype;
  a->causal = p->causal;
  a->heads = p->heads;
  a->kv_heads = p->kv_heads;
  a->head_dim = p->head_dim;
  if (p->window_sa) a->window_sa = sattn_window_width(p->window_sa);
  if (p->window_swa) a->window_swa = sattn_window_width(p->window_swa);
  a->block = p->block;
  a->topk = p->topk;
  a->sink_tokens = p->sink_tokens;
  call->batch = p->batch;
  call->queries = p->queries;
  call->keys = p->keys;
  call->permutation_key.seed = (uint64_t)index;
}

static void connect(const problem *p, void *const *inputs, void *out, sattn_selftest_answer *answer, sattn_host_call *call) {
  bool gated = p->mode == SATTN_GATED;
  call->query.data = inputs[QUERY];
  call->key.data = inputs[KEY];
  call->value.data = inputs[VALUE];
  call->gate_sa.data = gated ? inputs[GATE_SA] : NULL;
  call->gate_swa.data = gated ? inputs[GATE_SWA] : NULL;
  call->out.data = out;
  call->lse = gated ? NULL : answer->values[LSE];
  call->lse_sa = gated ? answer->values[LSE] : NULL;
  call->lse_swa = answer->values[LSE_SWA];
  if (!p->backward) return;
  call->grad_out.data = inputs[GRAD_OUT];
  call->grad_query.data = answer->values[DQ];
  call->grad_key.data = answer->values[DK];
  call->grad_value.data = answer->values[DV];
  call->grad_gate_sa.data = answer->values[DGATE_SA];
  call->grad_gate_swa.data = answer->values[DGATE_SWA];
}

sattn_selftest_result sattn_selftest_problem(int index, sattn_context *context, sattn_selftest_answer *out_answer, sattn_report *report) {
  const problem *p = &PROBLEMS[index];
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_selftest_result result = SATTN_SELFTEST_FAILED;
  void *inputs[INPUTS] = {NULL}, *storage = NULL;
  memset(out_answer, 0, sizeof *out_answer);
  if (make_inputs(p, index, inputs, report) && make_answer(p, out_answer, report)) {
    storage = sattn_tool_allocate(report, "selftest", out_answer->counts[OUT], sizeof(float));
    if (storage) memset(storage, 0xff, (size_t)out_answer->counts[OUT] * sizeof(float)); /* NaN in every dtype */
  }
  if (storage) {
    sattn_host_call call;
    sattn_host_call_init(&call);
    call.context = context;
    describe(p, index, &call);
    connect(p, inputs, storage, out_answer, &call);
    sattn_status status = sattn_attention_host(&call, &error);
    if (sattn_tool_check(report, status, &error))
      result = SATTN_SELFTEST_RIGHT;
    else if (status == SATTN_UNSUPPORTED)
      result = SATTN_SELFTEST_UNSUPPORTED;
    sattn_accuracy_widen(storage, p->dtype, out_answer->counts[OUT], out_answer->values[OUT]);
  }
  for (int i = 0; i < INPUTS; i++) free(inputs[i]);
  free(storage);
  return result;
}

/* Inputs lie in -1..1, so that sizes are known beforehand: a score is at most sqrt(d), and a gradient made of absolute values is at most a
 * few times d/sqrt(d) = sqrt(d) for a query, and of that times the number of queries that lean on one key for a key. */
static double allowed(const problem *p, int array, const sattn_selftest_answer *a) {
  double score = sqrt((double)p->head_dim), leaning = 8;
  switch (array) {
    case OUT:
      return sattn_accuracy_output_bound(p->dtype, score, 1, p->mode == SATTN_GATED);
    case LSE:
    case LSE_SWA:
      return sattn_accuracy_lse_bound(score, sattn_accuracy_largest(a->values[array], a->counts[array]));
    default:
      return 1e-5 * score * leaning;
  }
}

double sattn_selftest_compare(int index, const sattn_selftest_answer *a, const sattn_selftest_answer *b) {
  double worst = 0;
  for (int i = 0; i < ARRAYS; i++) {
    if (!has_array(&PROBLEMS[index], i)) continue;
    if (!a->values[i] || !b->values[i]) return (double)INFINITY;
    double share = sattn_accuracy_difference(a->values[i], b->values[i], a->counts[i]) / allowed(&PROBLEMS[index], i, a);
    if (!(share <= worst)) worst = share;
  }
  return worst;
}

void sattn_selftest_answer_free(sattn_selftest_answer *answer) {
  for (size_t i = 0; i < sizeof answer->values / sizeof answer->values[0]; i++) free(answer->values[i]);
  memset(answer, 0, sizeof *answer);
}
