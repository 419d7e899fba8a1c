#include "problem.h"

#include <math.h>
#include <string.h>

#include "half.h"
#include "memory.h"
#include "oracle.h"

/* Blocks of MOBA whose scores are closer than this, times the size of the scores, may be ordered differently by fp32 and double. */
#define TIE_MARGIN 1e-3

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

static void fix_bands(torture_problem *p) {
  int sa = test_mode_uses_sa((sattn_mode)p->mode);
  int swa = test_mode_uses_swa((sattn_mode)p->mode);
  const sattn_window none = {SATTN_WINDOW_NONE, 0, 0, 0};
  if (!sa) {
    p->window_sa = none;
    p->wrap = p->sharing = p->own_orders = 0;
    p->order_extra = -1;
  } else if (p->window_sa.kind == SATTN_WINDOW_NONE) {
    p->window_sa = sattn_window_width(2);
  }
  if (!swa) {
    p->window_swa = none;
  } else if (p->window_swa.kind == SATTN_WINDOW_NONE) {
    p->window_swa = sattn_window_width(2);
  }
}

void torture_fix(torture_problem *p) {
  int gated = p->mode == SATTN_GATED;
  p->batch = clamp(p->batch, 1, 64);
  p->keys = clamp(p->keys, 1, 4096);
  p->queries = clamp(p->queries, 1, p->keys);
  p->kv_heads = clamp(p->kv_heads, 1, 64);
  p->heads = clamp(p->heads / p->kv_heads, 1, 64) * p->kv_heads;
  p->head_dim = clamp(p->head_dim, 1, 256);
  fix_bands(p);
  if (p->mode == SATTN_FULL) p->sink_tokens = 0;
  p->block = p->mode == SATTN_MOBA ? clamp(p->block, 1, 4096) : 0;
  p->topk = p->mode == SATTN_MOBA ? clamp(p->topk, 1, 4096) : 0;
  if (!gated) p->gate_sa_shape = p->gate_swa_shape = 0;
  if (!gated || p->gate_dtype != SATTN_FP32) p->gate_dtype = gated ? p->dtype : SATTN_FP32;
  if (p->queries != p->keys && (p->layout[0] == TEST_QKV || p->layout[1] == TEST_QKV || p->layout[2] == TEST_QKV))
    p->layout[0] = p->layout[1] = p->layout[2] = TEST_BNHD;
  if (p->layout[0] == TEST_QKV || p->layout[1] == TEST_QKV || p->layout[2] == TEST_QKV)
    p->layout[0] = p->layout[1] = p->layout[2] = TEST_QKV;
  if (p->garbage == GARBAGE_NONE || p->garbage_in == 0) p->garbage = p->garbage_in = 0;
  if (!p->backward) p->garbage_in &= ~(int64_t)GARBAGE_IN_GRAD_OUT;
  /* Gradients beyond 65504 are infinite in fp16, and rightly so. */
  if (p->dtype == SATTN_FP16 && p->backward && p->spread > 20) p->spread = 20;
  if (p->form == FORM_HOST) {
    /* The one-call form sees the values and refuses bad ones; its arrays are packed here. */
    p->lengths = p->lengths ? 1 : 0;
    p->query_start = p->query_start ? 1 : 0;
    p->layout[0] = p->layout[1] = p->layout[2] = TEST_BNHD;
    p->offset = p->wrap_host = p->larger_plan = 0;
  }
}

/* ---- values ---- */

static uint64_t mix(uint64_t state, uint64_t value) {
  test_random random = {state ^ (value + 0x9e3779b97f4a7c15u) * 0x100000001b3u};
  return test_random_next(&random);
}

static uint64_t place_seed(const torture_problem *p, int what, int64_t b, int64_t i, int64_t h) {
  return mix(mix(mix(mix(p->seed, (uint64_t)what), (uint64_t)b), (uint64_t)i), (uint64_t)h);
}

static double spread_of(const torture_problem *p, test_input input) {
  if (input <= TEST_VALUE) return (double)p->spread / 10;
  return input <= TEST_SINK_LOGITS ? 2.0 : 1.0;
}

static const float *make_array(const torture_problem *p, const test_call *call, test_input input) {
  test_shape shape = test_input_shape(call, input);
  sattn_dtype dtype = test_input_dtype(call, input);
  float *values = test_memory(test_shape_count(shape) * sizeof *values);
  float *at = values;
  for (int64_t b = 0; b < shape.size[0]; ++b) {
    for (int64_t i = 0; i < shape.size[1]; ++i) {
      for (int64_t h = 0; h < shape.size[2]; ++h) {
        test_random random = {place_seed(p, input, b, i, h)};
        for (int64_t c = 0; c < shape.size[3]; ++c) *at++ = (float)test_round(dtype, spread_of(p, input) * test_random_normal(&random));
      }
    }
  }
  return values;
}

static const int32_t *make_integers(const torture_problem *p, int what, int64_t top, int wild) {
  int32_t *values = test_memory((size_t)p->batch * sizeof *values);
  for (int64_t b = 0; b < p->batch; ++b) {
    test_random random = {place_seed(p, what, b, 0, 0)};
    int64_t value = test_random_below(&random, top + 1);
    if (test_random_below(&random, 3) == 0) value = top;
    if (wild && test_random_below(&random, 2)) value = test_random_below(&random, 2) ? -1 - value : top + 1 + value;
    values[b] = (int32_t)value;
  }
  return values;
}

static const int32_t *clamped(const int32_t *values, int64_t count, int64_t top) {
  int32_t *tame = test_memory((size_t)count * sizeof *tame);
  for (int64_t b = 0; b < count; ++b) tame[b] = (int32_t)clamp(values[b], 0, top);
  return tame;
}

static const uint32_t *make_orders(const torture_problem *p, int64_t count, int64_t length) {
  uint32_t *orders = test_memory((size_t)(count * length) * sizeof *orders);
  for (int64_t o = 0; o < count; ++o) {
    test_random random = {place_seed(p, 200, o, 0, 0)};
    memcpy(orders + o * length, test_random_order(&random, length), (size_t)length * sizeof *orders);
  }
  return orders;
}

/* ---- garbage ---- */

/* About one row in four; of keys rather the later ones, which fewer queries see. */
static int is_garbage(const torture_problem *p, int what, int64_t b, int64_t token, int64_t tokens) {
  test_random random = {place_seed(p, what, b, token, 0)};
  return test_random_below(&random, 8) == 0 || (token == tokens - 1 && tokens > 1 && test_random_below(&random, 2));
}

int torture_garbage_key(const torture_problem *p, int64_t b, int64_t token) {
  return p->garbage && (p->garbage_in & (GARBAGE_IN_KEY | GARBAGE_IN_VALUE)) && is_garbage(p, 201, b, token, p->keys);
}

int torture_garbage_query(const torture_problem *p, int64_t b, int64_t token) {
  return p->garbage && (p->garbage_in & (GARBAGE_IN_QUERY | GARBAGE_IN_GRAD_OUT)) && is_garbage(p, 202, b, token, p->queries);
}

static void spoil(const torture_problem *p, test_call *call, test_input input, int in) {
  static const float values[4] = {0, (float)NAN, (float)INFINITY, -(float)INFINITY};
  if (!(p->garbage_in & in) || !call->input[input]) return;
  test_shape shape = test_input_shape(call, input);
  int64_t row = shape.size[2] * shape.size[3];
  float *array = test_call_edit(call, input);
  for (int64_t b = 0; b < shape.size[0]; ++b) {
    for (int64_t i = 0; i < shape.size[1]; ++i) {
      int bad = input == TEST_KEY || input == TEST_VALUE ? torture_garbage_key(p, b, i) : torture_garbage_query(p, b, i);
      for (int64_t c = 0; bad && c < row; ++c) array[(b * shape.size[1] + i) * row + c] = values[p->garbage];
    }
  }
}

/* ---- the call ---- */

static void describe(const torture_problem *p, sattn_attention *a) {
  sattn_attention_init(a);
  a->mode = (sattn_mode)p->mode;
  a->dtype = (sattn_dtype)p->dtype;
  a->heads = p->heads;
  a->kv_heads = p->kv_heads;
  a->head_dim = p->head_dim;
  a->causal = (int32_t)p->causal;
  a->window_sa = p->window_sa;
  a->window_swa = p->window_swa;
  a->wrap = (int32_t)p->wrap;
  a->order_length = p->order_extra < 0 ? 0 : p->keys + p->order_extra;
  a->sharing = (sattn_sharing)p->sharing;
  a->sink_tokens = p->sink_tokens;
  a->block = p->block;
  a->topk = p->topk;
  a->scale = p->scale;
  a->softcap = p->softcap;
  a->gate_sa_shape = (sattn_gate_shape)p->gate_sa_shape;
  a->gate_swa_shape = (sattn_gate_shape)p->gate_swa_shape;
  a->gate_dtype = (sattn_dtype)p->gate_dtype;
  a->has_lengths = p->lengths != 0;
  a->has_query_start = p->query_start != 0;
  a->has_sink_logits = p->sink_logits != 0;
}

static void make_arrays(const torture_problem *p, test_call *call) {
  for (int i = TEST_QUERY; i <= TEST_VALUE; ++i) call->input[i] = make_array(p, call, (test_input)i);
  if (p->mode == SATTN_GATED) {
    call->input[TEST_GATE_SA] = make_array(p, call, TEST_GATE_SA);
    call->input[TEST_GATE_SWA] = make_array(p, call, TEST_GATE_SWA);
  }
  if (p->sink_logits) call->input[TEST_SINK_LOGITS] = make_array(p, call, TEST_SINK_LOGITS);
  if (!p->backward) return;
  call->backward = 1;
  call->input[TEST_GRAD_OUT] = make_array(p, call, TEST_GRAD_OUT);
  if (p->backward == 1) return;
  if (p->mode == SATTN_GATED) {
    call->input[TEST_GRAD_LSE_SA] = make_array(p, call, TEST_GRAD_LSE_SA);
    call->input[TEST_GRAD_LSE_SWA] = make_array(p, call, TEST_GRAD_LSE_SWA);
  } else {
    call->input[TEST_GRAD_LSE] = make_array(p, call, TEST_GRAD_LSE);
  }
}

static void make_call(const torture_problem *p, test_call *call, test_call *tame) {
  memset(call, 0, sizeof *call);
  describe(p, &call->attention);
  call->sizes = (sattn_sizes){p->batch, p->queries, p->keys};
  if (p->larger_plan) {
    int64_t keys =
        call->attention.order_length && call->attention.order_length < p->keys + 70 ? call->attention.order_length : p->keys + 70;
    call->maxima = (sattn_sizes){p->batch + 1, p->queries + (keys - p->keys), keys};
  }
  call->key = (sattn_permutation_key){mix(p->seed, 300), (uint32_t)(p->seed % 30), 0, 0};
  if (p->own_orders) {
    int64_t per_batch = p->sharing == SATTN_PER_BATCH || p->sharing == SATTN_PER_BATCH_AND_HEAD ? p->batch : 1;
    int64_t per_head = p->sharing == SATTN_PER_HEAD || p->sharing == SATTN_PER_BATCH_AND_HEAD ? p->kv_heads : 1;
    call->order_count = per_batch * per_head;
    call->order_size = call->attention.order_length ? call->attention.order_length : p->keys;
    call->order = make_orders(p, call->order_count, call->order_size);
  }
  make_arrays(p, call);
  if (p->lengths) call->lengths = make_integers(p, 203, p->keys, p->lengths == 2);
  if (p->query_start) call->query_start = make_integers(p, 204, p->keys - p->queries, p->query_start == 2);
  for (int i = 0; i < 3; ++i) call->layout[i] = (test_layout)p->layout[i];
  call->offset = p->offset;
  call->wrap = (int)p->wrap_host;
  spoil(p, call, TEST_QUERY, GARBAGE_IN_QUERY);
  spoil(p, call, TEST_KEY, GARBAGE_IN_KEY);
  spoil(p, call, TEST_VALUE, GARBAGE_IN_VALUE);
  spoil(p, call, TEST_GRAD_OUT, GARBAGE_IN_GRAD_OUT);
  *tame = *call;
  if (p->lengths) tame->lengths = clamped(call->lengths, p->batch, p->keys);
  if (p->query_start) tame->query_start = clamped(call->query_start, p->batch, p->keys - p->queries);
}

void torture_expand(torture_problem *p, test_call *call, test_call *tame) {
  for (int attempt = 0;; ++attempt) {
    double size = (double)p->spread / 10;
    make_call(p, call, tame);
    if (p->mode != SATTN_MOBA || test_oracle_margin(tame) >= TIE_MARGIN * fmax(1, size * size)) return;
    if (attempt == 20) {
      /* No choice, no tie. */
      p->topk = p->keys;
      p->garbage = GARBAGE_NONE;
    } else {
      p->seed = mix(p->seed, 301);
    }
  }
}
