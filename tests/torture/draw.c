/* What a random problem looks like. */
#include <string.h>

#include "problem.h"

/* Problems that share what drivers compile for. */
#define FAMILY 16

static int64_t below(test_random *random, int64_t bound) {
  return test_random_below(random, bound);
}
static int one_in(test_random *random, int64_t n) {
  return below(random, n) == 0;
}

#define PICK(random, list) ((list)[below(random, (int64_t)(sizeof(list) / sizeof(list)[0]))])

/* Mode, dtype, heads, head_dim, causal, softcap, passes. */
static void draw_family(test_random *random, torture_problem *p) {
  static const int64_t tuned[] = {64, 64, 80, 96, 128, 256};
  static const int64_t odd[] = {1, 2, 3, 5, 8, 16, 17, 31, 32, 40, 59, 65, 72, 100, 160, 192, 255};
  static const int64_t heads[][2] = {{1, 1}, {1, 1}, {2, 2}, {2, 1}, {4, 2}, {3, 1}, {3, 3}, {4, 1}, {6, 3}, {8, 2}, {5, 1}};
  const int64_t *group = heads[below(random, (int64_t)(sizeof heads / sizeof heads[0]))];
  p->mode = SATTN_FULL + below(random, 6);
  p->dtype = one_in(random, 2) ? SATTN_FP32 : SATTN_FP16 + below(random, 2);
  p->head_dim = one_in(random, 2) ? PICK(random, tuned) : PICK(random, odd);
  p->heads = group[0];
  p->kv_heads = group[1];
  p->causal = !one_in(random, 3);
  p->softcap = one_in(random, 4) ? (one_in(random, 2) ? 3.0 : 30.0) : 0;
  p->backward = one_in(random, 2) ? 1 + below(random, 2) : 0;
}

static int64_t draw_side(test_random *random, int64_t keys) {
  if (one_in(random, 6)) return SATTN_UNBOUNDED;
  if (one_in(random, 5)) return 0;
  return below(random, one_in(random, 2) ? 6 : keys + 3);
}

static sattn_window draw_window(test_random *random, int64_t keys) {
  static const int64_t far[] = {1000, INT64_C(0x7fffffff), INT64_C(0x80000000), INT64_C(0x7ffffffffffffffe)};
  if (one_in(random, 2)) return sattn_window_width(1 + below(random, one_in(random, 2) ? 6 : keys + 2));
  if (one_in(random, 10)) return sattn_window_width(PICK(random, far));
  int64_t left = draw_side(random, keys);
  return sattn_window_sides(left, draw_side(random, keys));
}

static void draw_sizes(test_random *random, torture_problem *p) {
  static const int64_t edges[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130};
  p->keys = one_in(random, 4) ? PICK(random, edges) : 1 + below(random, one_in(random, 8) ? 300 : 48);
  p->queries = one_in(random, 2) ? p->keys : 1 + below(random, one_in(random, 2) && p->keys > 4 ? 4 : p->keys);
  p->batch = one_in(random, 2) ? 1 : 1 + below(random, 4);
  /* The oracle looks at every pair; long rows of many heads would take all the time. */
  while (p->batch * p->heads * p->queries * p->keys * p->head_dim > 6000000) {
    if (p->batch > 1) {
      p->batch -= 1;
    } else {
      p->keys = (p->keys + 1) / 2;
      if (p->queries > p->keys) p->queries = p->keys;
    }
  }
}

static void draw_visibility(test_random *random, torture_problem *p) {
  static const int64_t blocks[] = {1, 2, 3, 5, 8, 16, 48, 64, 100};
  p->window_sa = draw_window(random, p->keys);
  p->window_swa = draw_window(random, p->keys);
  p->wrap = one_in(random, 4);
  p->order_extra = one_in(random, 3) ? (one_in(random, 3) ? 0 : below(random, 100)) : -1;
  p->sharing = one_in(random, 2) ? SATTN_SHARED : below(random, 4);
  p->own_orders = one_in(random, 4);
  p->sink_tokens = one_in(random, 3) ? (one_in(random, 4) ? p->keys + 1 : below(random, 9)) : 0;
  p->block = PICK(random, blocks);
  p->topk = 1 + below(random, one_in(random, 4) ? 40 : 4);
  p->lengths = one_in(random, 3) ? 1 + one_in(random, 4) : 0;
  p->query_start = one_in(random, 3) ? 1 + one_in(random, 4) : 0;
}

static void draw_memory(test_random *random, torture_problem *p) {
  int64_t first = below(random, 4);
  for (int i = 0; i < 3; ++i) p->layout[i] = one_in(random, 2) ? TEST_BNHD : first == TEST_QKV ? TEST_QKV : below(random, 3);
  p->offset = one_in(random, 4) ? 1 + below(random, 33) : 0;
  p->wrap_host = one_in(random, 4);
  p->larger_plan = one_in(random, 3);
}

void torture_draw(uint64_t seed, int64_t round, torture_problem *p) {
  static const double scales[] = {0.2, -0.3, 1.0, 1e-6};
  static const int64_t spreads[] = {10, 10, 10, 1, 30, 300, 0};
  test_random family = test_random_open(seed + (uint64_t)(round / FAMILY) * 0x9e3779b97f4a7c15u, "family");
  test_random random = test_random_open(seed + (uint64_t)round * 0xd1342543de82ef95u, "problem");
  memset(p, 0, sizeof *p);
  draw_family(&family, p);
  p->seed = test_random_next(&random);
  draw_sizes(&random, p);
  draw_visibility(&random, p);
  draw_memory(&random, p);
  p->scale = one_in(&random, 4) ? PICK(&random, scales) : 0;
  p->gate_sa_shape = one_in(&random, 4);
  p->gate_swa_shape = one_in(&random, 4);
  p->gate_dtype = one_in(&random, 2) ? SATTN_FP32 : p->dtype;
  p->sink_logits = one_in(&random, 4);
  p->spread = PICK(&random, spreads);
  p->garbage = one_in(&random, 4) ? 1 + below(&random, 3) : 0;
  p->garbage_in = 1 + below(&random, 15);
  p->form = one_in(&random, 6) ? FORM_HOST : one_in(&random, 8) ? FORM_TWICE : FORM_PLAN;
  torture_fix(p);
}
