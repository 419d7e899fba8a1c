/* Plan creation with random descriptions: what is refused says why and names the argument; what is accepted at tiny sizes runs, and agrees
 * with the oracle. Query and create give the same answer. The device is SATTN_FUZZ_DEVICE, or the reference.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "memory.h"
#include "oracle.h"
#include "run.h"

/* More than this many (pair, element) products are not computed. */
#define TINY 200000

typedef struct bytes {
  const uint8_t *at;
  size_t left;
} bytes;

static uint8_t byte(bytes *b) {
  if (b->left == 0) return 0;
  b->left -= 1;
  return *b->at++;
}

static int64_t wide(bytes *b) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | byte(b);
  return (int64_t)value;
}

/* Mostly small numbers; now and then any. */
static int64_t number(bytes *b, int64_t top) {
  uint8_t kind = byte(b);
  if (kind == 255) return wide(b);
  if (kind == 254) return -(int64_t)byte(b);
  if (kind == 253) return INT64_MAX - (int64_t)byte(b) % 2;
  if (kind == 252) return (INT64_C(1) << 31) - (int64_t)byte(b) % 3;
  return kind % (top + 1);
}

static int choice(bytes *b, int first, int last) {
  uint8_t kind = byte(b);
  if (kind == 255) return (int8_t)byte(b);
  return first + kind % (last - first + 1);
}

static double real(bytes *b) {
  static const double values[] = {0, 0, 0, 1, 0.25, -0.5, 3, 1e-30, 1e300, -1};
  uint8_t kind = byte(b);
  if (kind < 250) return values[kind % 10];
  int64_t bits = wide(b);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static sattn_window window(bytes *b, int wanted) {
  sattn_window w = {SATTN_WINDOW_NONE, 0, 0, 0};
  uint8_t kind = byte(b);
  if (kind >= 250) {
    w.kind = (sattn_window_kind)choice(b, 0, 2);
    w.width = number(b, 5);
    w.left = number(b, 5);
    w.right = number(b, 5);
  } else if (wanted && kind % 3 == 0) {
    w = sattn_window_sides(number(b, 9), byte(b) % 4 ? number(b, 9) : SATTN_UNBOUNDED);
  } else if (wanted) {
    w = sattn_window_width(number(b, 20));
  }
  return w;
}

static void describe(bytes *b, test_call *call) {
  sattn_attention *a = &call->attention;
  memset(call, 0, sizeof *call);
  sattn_attention_init(a);
  a->mode = (sattn_mode)choice(b, SATTN_FULL, SATTN_MOBA);
  a->dtype = (sattn_dtype)choice(b, SATTN_FP32, SATTN_BF16);
  a->kv_heads = number(b, 3);
  a->heads = byte(b) % 8 ? (int64_t)((uint64_t)a->kv_heads * (1 + byte(b) % 3)) : number(b, 5);
  if (byte(b) % 8 == 0) a->kv_heads = 0;
  a->head_dim = number(b, 12);
  if (byte(b) > 250) a->value_head_dim = number(b, 12);
  a->causal = choice(b, 0, 1);
  a->window_sa = window(b, test_mode_uses_sa(a->mode));
  a->window_swa = window(b, test_mode_uses_swa(a->mode));
  int permuted = test_mode_uses_sa(a->mode) || byte(b) > 250;
  a->wrap = permuted ? choice(b, 0, 1) : 0;
  a->order_length = permuted && byte(b) % 2 ? number(b, 30) : 0;
  a->sharing = permuted ? (sattn_sharing)choice(b, 0, 3) : SATTN_SHARED;
  a->sink_tokens = byte(b) % 3 ? 0 : number(b, 5);
  int blocks = a->mode == SATTN_MOBA || byte(b) > 250;
  a->block = blocks ? number(b, 9) : 0;
  a->topk = blocks ? number(b, 5) : 0;
  a->scale = real(b);
  a->softcap = byte(b) % 2 ? 0 : real(b);
  int gated = a->mode == SATTN_GATED || byte(b) > 250;
  a->gate_sa_shape = gated ? (sattn_gate_shape)choice(b, 0, 1) : SATTN_GATE_PER_HEAD;
  a->gate_swa_shape = gated ? (sattn_gate_shape)choice(b, 0, 1) : SATTN_GATE_PER_HEAD;
  a->gate_dtype = byte(b) % 2 ? SATTN_FP32 : (sattn_dtype)choice(b, SATTN_FP32, SATTN_BF16);
  a->has_lengths = choice(b, 0, 1);
  a->has_query_start = choice(b, 0, 1);
  a->has_sink_logits = choice(b, 0, 1);
  if (byte(b) > 252) a->struct_size = (size_t)number(b, 127);
  call->sizes.batch = number(b, 2);
  call->sizes.keys = number(b, 20);
  call->sizes.queries = byte(b) % 2 ? call->sizes.keys : number(b, 20);
  call->key.seed = byte(b);
}

static int is_tiny(const test_call *call) {
  const sattn_attention *a = &call->attention;
  const int64_t factors[] = {call->sizes.batch, call->sizes.queries, call->sizes.keys, a->heads, a->head_dim};
  int64_t product = 1;
  for (int i = 0; i < 5; ++i) {
    if (factors[i] > 0 && product > TINY / factors[i]) return 0;
    product *= factors[i] > 0 ? factors[i] : 1;
  }
  return a->order_length <= 4096 && a->topk <= 4096;
}

/* An accepted description, with arrays, against the oracle. */
static void run(sattn_context *context, test_call *call, bytes *b) {
  test_random random = test_random_open(byte(b), "fuzz");
  test_result result;
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  sattn_error error;
  const char *fault = NULL;
  int32_t numbers[2][256];
  for (int64_t i = 0; i < call->sizes.batch && i < 256; ++i) {
    numbers[0][i] = (int32_t)(byte(b) % (call->sizes.keys + 1));
    numbers[1][i] = (int32_t)(byte(b) % (call->sizes.keys - call->sizes.queries + 1));
  }
  if (call->sizes.batch > 256) return;
  if (call->attention.has_lengths) call->lengths = numbers[0];
  if (call->attention.has_query_start) call->query_start = numbers[1];
  /* Near ties of MOBA are drawn anew by test_call_fill, which many blocks make hopeless; scores beyond fp32 are nobody's promise. */
  double scale = call->attention.scale < 0 ? -call->attention.scale : call->attention.scale;
  if (call->attention.mode == SATTN_MOBA && call->attention.topk > 1 && call->attention.topk < call->sizes.keys) return;
  if (scale > 1e6 || (scale != 0 && scale < 1e-20) || (call->attention.softcap != 0 && call->attention.softcap < 1e-3) ||
      call->attention.softcap > 1e6)
    return;
  test_call_fill(call, &random, 1.0);
  if (byte(b) % 2) test_call_fill_gradients(call, &random, byte(b) % 2);
  if (test_run_call(context, call, &result, &fault, &error)) fuzz_found("accepted, and refused when it ran: %s", error.message);
  if (fault) fuzz_found("%s", fault);
  test_oracle(call, TEST_EXACT, &exact);
  test_oracle_tolerances(call, &exact, tolerance);
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    test_difference difference;
    if (!exact.output[o]) continue;
    double allowed = tolerance[o] > 0x1p-24 ? tolerance[o] : 0x1p-24;
    if (test_compare(test_output_name((test_output)o), test_output_shape(call, (test_output)o), exact.output[o], result.output[o], allowed,
                     &difference))
      fuzz_found("%s", difference.report);
  }
}

static void check_refusal(sattn_status status, const sattn_error *error) {
  if (error->status != status || !error->message[0]) fuzz_found("refused with %s and no sentence", sattn_status_name(status));
  if (status == SATTN_INVALID_ARGUMENT && !error->argument[0]) fuzz_found("no argument is named: %s", error->message);
  if (status == SATTN_INTERNAL || status == SATTN_DRIVER_ERROR) fuzz_found("%s: %s", sattn_status_name(status), error->message);
}

static sattn_context *open_context(void) {
  static sattn_context *context;
  sattn_error error;
  const char *device = getenv("SATTN_FUZZ_DEVICE");
  if (!context && sattn_context_create(device ? device : "reference", NULL, &context, &error)) fuzz_found("%s", error.message);
  return context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes b = {data, size};
  sattn_context *context = open_context();
  sattn_plan_info info;
  sattn_plan *plan = NULL;
  sattn_error of_query, of_create;
  test_call call;
  describe(&b, &call);
  uint32_t passes = (uint32_t)choice(&b, 1, 3);
  memset(&of_query, 0, sizeof of_query);
  memset(&of_create, 0, sizeof of_create);
  sattn_plan_info_init(&info);
  sattn_status query = sattn_plan_query(context, &call.attention, &call.sizes, passes, &info, &of_query);
  sattn_status create = sattn_plan_create(context, &call.attention, &call.sizes, passes, &plan, &of_create);
  if (query != create) fuzz_found("query says %s, create %s", sattn_status_name(query), sattn_status_name(create));
  sattn_plan_destroy(&plan);
  if (query) {
    check_refusal(query, &of_query);
    if (strcmp(of_query.message, of_create.message) != 0) fuzz_found("two answers: %s / %s", of_query.message, of_create.message);
  } else if (is_tiny(&call) && call.attention.struct_size == sizeof call.attention) {
    run(context, &call, &b);
  }
  test_memory_release();
  return 0;
}
