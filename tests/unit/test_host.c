/* The one-call form: values that it sees, arrays in place and as copies, refusals with every output as it was. */
#include "objects.h"

#include <math.h>

#include "host_arrays.h"
#include "random.h"
#include "unit.h"

#include <sattn/host.h>

enum { B = 2, NQ = 5, NK = 7, H = 4, HKV = 2, D = 6 };
enum { Q_COUNT = B * NQ * H * D, K_COUNT = B * NK * HKV * D, ROWS = B * NQ * H };

typedef struct arrays {
  float query[Q_COUNT], key[K_COUNT], value[K_COUNT], gate_sa[ROWS], gate_swa[ROWS], sink_logits[H], grad_out[Q_COUNT];
  int32_t lengths[B], query_start[B];
  /* outputs */
  struct {
    float out[Q_COUNT], lse[ROWS], lse_sa[ROWS], lse_swa[ROWS], grad_query[Q_COUNT], grad_key[K_COUNT], grad_value[K_COUNT],
        grad_gate_sa[ROWS], grad_gate_swa[ROWS], grad_sink_logits[H];
  } o;
} arrays;

static void fill(test_random *random, float *values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = (float)test_random_normal(random);
}

static void draw(arrays *a) {
  test_random random = test_random_open(20260401, "host");
  memset(a, 0, sizeof *a);
  fill(&random, a->query, Q_COUNT);
  fill(&random, a->key, K_COUNT);
  fill(&random, a->value, K_COUNT);
  fill(&random, a->gate_sa, ROWS);
  fill(&random, a->gate_swa, ROWS);
  fill(&random, a->sink_logits, H);
  fill(&random, a->grad_out, Q_COUNT);
  a->lengths[0] = 7;
  a->lengths[1] = 4;
  a->query_start[0] = 2;
  a->query_start[1] = 0;
  memset(&a->o, 0xa5, sizeof a->o);
}

static sattn_host_call call_of(sattn_mode mode, arrays *a) {
  sattn_host_call call;
  sattn_host_call_init(&call);
  call.device_id = "reference";
  call.attention.mode = mode;
  call.attention.heads = H;
  call.attention.kv_heads = HKV;
  call.attention.head_dim = D;
  bool gated = mode == SATTN_GATED;
  if (gated || mode == SATTN_STOCHASTIC || mode == SATTN_UNION) call.attention.window_sa = sattn_window_width(3);
  if (gated || mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION) call.attention.window_swa = sattn_window_width(2);
  if (mode == SATTN_MOBA) call.attention.block = call.attention.topk = 2;
  call.batch = B;
  call.queries = NQ;
  call.keys = NK;
  call.query.data = a->query;
  call.key.data = a->key;
  call.value.data = a->value;
  call.lengths = a->lengths;
  call.query_start = a->query_start;
  call.sink_logits = a->sink_logits;
  call.out.data = a->o.out;
  if (gated) {
    call.gate_sa.data = a->gate_sa;
    call.gate_swa.data = a->gate_swa;
    call.lse_sa = a->o.lse_sa;
    call.lse_swa = a->o.lse_swa;
    call.grad_gate_sa.data = a->o.grad_gate_sa;
    call.grad_gate_swa.data = a->o.grad_gate_swa;
  } else {
    call.lse = a->o.lse;
  }
  call.grad_out.data = a->grad_out;
  call.grad_query.data = a->o.grad_query;
  call.grad_key.data = a->o.grad_key;
  call.grad_value.data = a->o.grad_value;
  call.grad_sink_logits = a->o.grad_sink_logits;
  return call;
}

static void run(const sattn_host_call *call) {
  sattn_error error = {0};
  unit_ok(sattn_attention_host(call, &error), &error);
}

/* Optional results that nobody asks for change nothing in the others. */
static void lse_is_optional(void **state) {
  (void)state;
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    static arrays with, without;
    draw(&with);
    draw(&without);
    sattn_host_call call = call_of((sattn_mode)mode, &with);
    run(&call);
    call = call_of((sattn_mode)mode, &without);
    call.lse = call.lse_sa = call.lse_swa = NULL;
    run(&call);
    assert_memory_equal(with.o.out, without.o.out, sizeof with.o.out);
    assert_memory_equal(with.o.grad_query, without.o.grad_query, sizeof with.o.grad_query);
    assert_memory_equal(with.o.grad_key, without.o.grad_key, sizeof with.o.grad_key);
    assert_memory_equal(with.o.grad_sink_logits, without.o.grad_sink_logits, sizeof with.o.grad_sink_logits);
    /* Every element was written: the pattern is gone. */
    for (int i = 0; i < Q_COUNT; ++i) assert_true(with.o.out[i] > -100 && with.o.out[i] < 100 && with.o.grad_query[i] > -100);
  }
}

/* A device with memory of its own: the same reference device, told not to share. Results must not differ. */
static void copies_and_memory_in_place_agree(void **state) {
  (void)state;
  sattn_context *context = unit_context();
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    static arrays shared, copied;
    draw(&shared);
    draw(&copied);
    sattn_host_call call = call_of((sattn_mode)mode, &shared);
    call.context = context;
    run(&call);
    context->device.shares_host_memory = 0;
    call = call_of((sattn_mode)mode, &copied);
    call.context = context;
    run(&call);
    context->device.shares_host_memory = 1;
    assert_memory_equal(&shared, &copied, sizeof shared);
  }
  sattn_context_destroy(&context);
}

enum { TOKEN = (H + 2 * HKV) * D + 3, PACKED = B * NK * TOKEN };

/* q, k, v as slices of one packed array, the gradients as slices of another one, with gaps that must stay as they are. */
static void packed_slices(void **state) {
  (void)state;
  static arrays plain, sliced;
  static float packed[PACKED], gradient[PACKED];
  sattn_context *context = unit_context();
  for (uint32_t in_place = 0; in_place < 2; ++in_place) {
    draw(&plain);
    draw(&sliced);
    memset(gradient, 0x5a, sizeof gradient);
    for (int b = 0; b < B; ++b) {
      for (int t = 0; t < NK; ++t) {
        float *token = packed + (b * NK + t) * TOKEN;
        if (t < NQ) memcpy(token, plain.query + (b * NQ + t) * H * D, H * D * sizeof(float));
        memcpy(token + H * D, plain.key + (b * NK + t) * HKV * D, HKV * D * sizeof(float));
        memcpy(token + (H + HKV) * D, plain.value + (b * NK + t) * HKV * D, HKV * D * sizeof(float));
      }
    }
    sattn_host_call call = call_of(SATTN_UNION, &plain);
    run(&call);
    call = call_of(SATTN_UNION, &sliced);
    context->device.shares_host_memory = in_place;
    call.context = context;
    call.query = (sattn_host_input){packed, NK * TOKEN, TOKEN, D};
    call.key = (sattn_host_input){packed + H * D, NK * TOKEN, TOKEN, D};
    call.value = (sattn_host_input){packed + (H + HKV) * D, NK * TOKEN, TOKEN, D};
    call.grad_query = (sattn_host_output){gradient, NK * TOKEN, TOKEN, D};
    call.grad_key = (sattn_host_output){gradient + H * D, NK * TOKEN, TOKEN, D};
    call.grad_value = (sattn_host_output){gradient + (H + HKV) * D, NK * TOKEN, TOKEN, D};
    run(&call);
    assert_memory_equal(plain.o.out, sliced.o.out, sizeof plain.o.out);
    for (int b = 0; b < B; ++b) {
      for (int t = 0; t < NK; ++t) {
        const float *token = gradient + (b * NK + t) * TOKEN;
        if (t < NQ) {
          assert_memory_equal(token, plain.o.grad_query + (b * NQ + t) * H * D, H * D * sizeof(float));
        } else {
          for (size_t i = 0; i < H * D * sizeof(float); ++i) assert_int_equal(((const unsigned char *)token)[i], 0x5a);
        }
        assert_memory_equal(token + H * D, plain.o.grad_key + (b * NK + t) * HKV * D, HKV * D * sizeof(float));
        assert_memory_equal(token + (H + HKV) * D, plain.o.grad_value + (b * NK + t) * HKV * D, HKV * D * sizeof(float));
        for (size_t i = 0; i < 3 * sizeof(float); ++i) assert_int_equal(((const unsigned char *)(token + (H + 2 * HKV) * D))[i], 0x5a);
      }
    }
  }
  sattn_context_destroy(&context);
}

static void the_callers_order_is_the_drawn_one(void **state) {
  (void)state;
  static arrays drawn, given;
  draw(&drawn);
  draw(&given);
  uint32_t orders[B * HKV][NK];
  sattn_host_call call = call_of(SATTN_STOCHASTIC, &drawn);
  call.attention.sharing = SATTN_PER_BATCH_AND_HEAD;
  call.permutation_key = (sattn_permutation_key){9, 8, 7, 6};
  run(&call);
  for (uint32_t i = 0; i < B * HKV; ++i) {
    const sattn_permutation_key key = {9, 8, 7 + i, 6};
    assert_int_equal(sattn_permutation_draw(NK, &key, orders[i], NULL, NULL), SATTN_OK);
  }
  call = call_of(SATTN_STOCHASTIC, &given);
  call.attention.sharing = SATTN_PER_BATCH_AND_HEAD;
  call.order = orders[0];
  call.order_count = B * HKV;
  call.order_size = NK;
  run(&call);
  assert_memory_equal(&drawn.o, &given.o, sizeof drawn.o);
}

static const uint32_t good_order[NK] = {6, 0, 5, 1, 4, 2, 3}, twice_order[NK] = {6, 0, 5, 1, 4, 2, 6},
                      far_order[NK] = {6, 0, 5, 1, 4, 2, 7};

#define CASE(label, mode, change, word, value)       \
  static void label(sattn_host_call *c, arrays *a) { \
    (void)c, (void)a;                                \
    change;                                          \
  }
#include "host_cases.h"
#undef CASE

static const struct {
  const char *label;
  sattn_mode mode;
  void (*change)(sattn_host_call *c, arrays *a);
  const char *word, *value;
} cases[] = {
#define CASE(label, mode, change, word, value) {#label, mode, label, word, value},
#include "host_cases.h"
#undef CASE
};

static void refused_calls_change_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    static arrays a, before;
    draw(&a);
    sattn_host_call call = call_of(cases[i].mode, &a);
    cases[i].change(&call, &a);
    before = a;
    sattn_error error = {0};
    sattn_status status = sattn_attention_host(&call, &error);
    if (status != SATTN_INVALID_ARGUMENT) print_error("%s\n", cases[i].label);
    unit_refused(status, SATTN_INVALID_ARGUMENT, &error, cases[i].word, cases[i].value);
    assert_memory_equal(&a, &before, sizeof a);
  }
  assert_int_equal(sattn_attention_host(NULL, NULL), SATTN_INVALID_ARGUMENT);
  sattn_host_call_init(NULL);
}

static void missing_devices_are_reported(void **state) {
  (void)state;
  static arrays a, before;
  draw(&a);
  before = a;
  sattn_host_call call = call_of(SATTN_FULL, &a);
  call.device_id = "reference:5";
  sattn_error error = {0};
  unit_refused(sattn_attention_host(&call, &error), SATTN_UNAVAILABLE, &error, "reference:5", NULL);
  assert_memory_equal(&a, &before, sizeof a);
}

static void empty_calls(void **state) {
  (void)state;
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    static arrays a, before;
    draw(&a);
    before = a;
    sattn_host_call call = call_of((sattn_mode)mode, &a);
    call.batch = 0;
    run(&call);
    for (int h = 0; h < H; ++h) assert_true(a.o.grad_sink_logits[h] == 0.0f);
    memset(a.o.grad_sink_logits, 0xa5, sizeof a.o.grad_sink_logits);
    assert_memory_equal(&a, &before, sizeof a);
    call = call_of((sattn_mode)mode, &a);
    call.queries = 0;
    run(&call);
    for (int i = 0; i < K_COUNT; ++i) assert_true(a.o.grad_key[i] == 0.0f && a.o.grad_value[i] == 0.0f);
    assert_memory_equal(a.o.out, before.o.out, sizeof a.o.out);
    assert_memory_equal(a.o.grad_query, before.o.grad_query, sizeof a.o.grad_query);
    sattn_host_call nothing;
    sattn_host_call_init(&nothing);
    nothing.attention = call.attention;
    nothing.device_id = "reference";
    run(&nothing);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lse_is_optional),
    cmocka_unit_test(copies_and_memory_in_place_agree),
    cmocka_unit_test(packed_slices),
    cmocka_unit_test(the_callers_order_is_the_drawn_one),
    cmocka_unit_test(refused_calls_change_nothing),
    cmocka_unit_test(missing_devices_are_reported),
    cmocka_unit_test(empty_calls),
};
UNIT_MAIN(tests)
