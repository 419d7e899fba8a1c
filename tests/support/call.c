#include "call.h"

#include <string.h>

#include "memory.h"
#include "oracle.h"

/* Scores of blocks closer than this may be ordered differently by fp32 and double. */
#define TIE_MARGIN 1e-3

const char *test_output_name(test_output output) {
  static const char *const names[TEST_OUTPUTS] = {"out", "lse", "lse-sa",   "lse-swa",   "dq",
                                                  "dk",  "dv",  "dgate-sa", "dgate-swa", "dsink-logits"};
  return names[output];
}

int test_mode_uses_sa(sattn_mode mode) {
  return mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED;
}
int test_mode_uses_swa(sattn_mode mode) {
  return mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION || mode == SATTN_GATED;
}

void test_call_init(test_call *call, sattn_mode mode, int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t kv_heads,
                    int64_t head_dim) {
  memset(call, 0, sizeof *call);
  sattn_attention_init(&call->attention);
  call->attention.mode = mode;
  call->attention.heads = heads;
  call->attention.kv_heads = kv_heads;
  call->attention.head_dim = head_dim;
  int64_t width = keys / 4 > 1 ? keys / 4 : 1;
  if (test_mode_uses_sa(mode)) call->attention.window_sa = sattn_window_width(width);
  if (test_mode_uses_swa(mode)) call->attention.window_swa = sattn_window_width(width);
  if (mode == SATTN_MOBA) {
    call->attention.block = 8;
    call->attention.topk = 2;
  }
  call->sizes = (sattn_sizes){batch, queries, keys};
  call->key.seed = 20260401u;
  call->key.layer = 3;
}

int test_call_has_output(const test_call *call, test_output output) {
  int gated = call->attention.mode == SATTN_GATED;
  switch (output) {
    case TEST_OUT:
      return 1;
    case TEST_LSE:
      return !gated;
    case TEST_LSE_SA:
    case TEST_LSE_SWA:
      return gated;
    case TEST_GRAD_GATE_SA:
    case TEST_GRAD_GATE_SWA:
      return call->backward && gated;
    case TEST_GRAD_SINK_LOGITS:
      return call->backward && call->attention.has_sink_logits;
    default:
      return call->backward;
  }
}

static test_shape shape_of(int64_t a, int64_t b, int64_t c, int64_t d) {
  test_shape shape = {{a, b, c, d}};
  return shape;
}

static test_shape gate_shape(const test_call *call, sattn_gate_shape kind) {
  return shape_of(call->sizes.batch, call->sizes.queries, call->attention.heads,
                  kind == SATTN_GATE_PER_ELEMENT ? call->attention.head_dim : 1);
}

static int64_t kv_heads(const test_call *call) {
  return call->attention.kv_heads ? call->attention.kv_heads : call->attention.heads;
}

test_shape test_input_shape(const test_call *call, test_input input) {
  const sattn_attention *a = &call->attention;
  const sattn_sizes *s = &call->sizes;
  switch (input) {
    case TEST_QUERY:
    case TEST_GRAD_OUT:
      return shape_of(s->batch, s->queries, a->heads, a->head_dim);
    case TEST_KEY:
    case TEST_VALUE:
      return shape_of(s->batch, s->keys, kv_heads(call), a->head_dim);
    case TEST_GATE_SA:
      return gate_shape(call, a->gate_sa_shape);
    case TEST_GATE_SWA:
      return gate_shape(call, a->gate_swa_shape);
    case TEST_SINK_LOGITS:
      return shape_of(1, 1, 1, a->heads);
    default:
      return shape_of(1, s->batch, a->heads, s->queries);
  }
}

test_shape test_output_shape(const test_call *call, test_output output) {
  switch (output) {
    case TEST_OUT:
    case TEST_GRAD_QUERY:
      return test_input_shape(call, TEST_QUERY);
    case TEST_GRAD_KEY:
    case TEST_GRAD_VALUE:
      return test_input_shape(call, TEST_KEY);
    case TEST_GRAD_GATE_SA:
      return test_input_shape(call, TEST_GATE_SA);
    case TEST_GRAD_GATE_SWA:
      return test_input_shape(call, TEST_GATE_SWA);
    case TEST_GRAD_SINK_LOGITS:
      return test_input_shape(call, TEST_SINK_LOGITS);
    default:
      return test_input_shape(call, TEST_GRAD_LSE);
  }
}

sattn_dtype test_input_dtype(const test_call *call, test_input input) {
  if (input == TEST_QUERY || input == TEST_KEY || input == TEST_VALUE || input == TEST_GRAD_OUT) return call->attention.dtype;
  if (input == TEST_GATE_SA || input == TEST_GATE_SWA) return call->attention.gate_dtype;
  return SATTN_FP32;
}

sattn_dtype test_output_dtype(const test_call *call, test_output output) {
  if (output == TEST_OUT || output == TEST_GRAD_QUERY || output == TEST_GRAD_KEY || output == TEST_GRAD_VALUE) return call->attention.dtype;
  if (output == TEST_GRAD_GATE_SA || output == TEST_GRAD_GATE_SWA) return call->attention.gate_dtype;
  return SATTN_FP32;
}

static void draw(test_call *call, test_random *random, test_input input, double spread) {
  call->input[input] = test_random_array(random, test_input_dtype(call, input), test_shape_count(test_input_shape(call, input)), spread);
}

void test_call_fill(test_call *call, test_random *random, double spread) {
  do {
    draw(call, random, TEST_QUERY, spread);
    draw(call, random, TEST_KEY, spread);
  } while (call->attention.mode == SATTN_MOBA && test_oracle_margin(call) < TIE_MARGIN);
  draw(call, random, TEST_VALUE, spread);
  if (call->attention.mode == SATTN_GATED) {
    draw(call, random, TEST_GATE_SA, 2.0);
    draw(call, random, TEST_GATE_SWA, 2.0);
  }
  if (call->attention.has_sink_logits) draw(call, random, TEST_SINK_LOGITS, 2.0);
}

void test_call_fill_gradients(test_call *call, test_random *random, int with_lse) {
  call->backward = 1;
  draw(call, random, TEST_GRAD_OUT, 1.0);
  if (!with_lse) return;
  if (call->attention.mode == SATTN_GATED) {
    draw(call, random, TEST_GRAD_LSE_SA, 1.0);
    draw(call, random, TEST_GRAD_LSE_SWA, 1.0);
  } else {
    draw(call, random, TEST_GRAD_LSE, 1.0);
  }
}

float *test_call_edit(test_call *call, test_input input) {
  size_t bytes = test_shape_count(test_input_shape(call, input)) * sizeof(float);
  float *copy = test_memory(bytes);
  if (call->input[input]) memcpy(copy, call->input[input], bytes);
  call->input[input] = copy;
  return copy;
}
