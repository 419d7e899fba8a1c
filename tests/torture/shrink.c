#include "shrink.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Fields in the order of what helps a reader most, each with its simplest value. Numbers go there at once, then by halves, then by ones. */
typedef struct field {
  size_t at;
  int64_t simplest;
} field;

#define FIELD(member, simplest) \
  { offsetof(torture_problem, member), simplest }
static const field fields[] = {
    FIELD(form, FORM_PLAN), FIELD(garbage, 0),     FIELD(garbage_in, 0),  FIELD(layout[0], 0),     FIELD(layout[1], 0),
    FIELD(layout[2], 0),    FIELD(offset, 0),      FIELD(wrap_host, 0),   FIELD(larger_plan, 0),   FIELD(batch, 1),
    FIELD(keys, 1),         FIELD(queries, 1),     FIELD(kv_heads, 1),    FIELD(heads, 1),         FIELD(backward, 0),
    FIELD(lengths, 0),      FIELD(query_start, 0), FIELD(sink_logits, 0), FIELD(sink_tokens, 0),   FIELD(wrap, 0),
    FIELD(order_extra, -1), FIELD(sharing, 0),     FIELD(own_orders, 0),  FIELD(gate_sa_shape, 0), FIELD(gate_swa_shape, 0),
    FIELD(gate_dtype, 1),   FIELD(spread, 10),     FIELD(topk, 1),        FIELD(block, 1),         FIELD(dtype, SATTN_FP32),
    FIELD(causal, 1),       FIELD(head_dim, 1),
};
#undef FIELD

typedef struct work {
  torture_judge *judge;
  int target;
  torture_problem *problem;
  double end;
  char *report;
  size_t capacity;
  int taken;
} work;

/* Keeps the candidate if it differs and fails, too. */
static int keep_if_wrong(work *w, torture_problem candidate) {
  char report[512];
  torture_fix(&candidate);
  if (memcmp(&candidate, w->problem, sizeof candidate) == 0 || now() > w->end) return 0;
  if (!torture_judge_run(w->judge, w->target, &candidate, report, sizeof report)) return 0;
  *w->problem = candidate;
  snprintf(w->report, w->capacity, "%s", report);
  ++w->taken;
  return 1;
}

static int try_value(work *w, size_t at, int64_t value) {
  torture_problem candidate = *w->problem;
  memcpy((char *)&candidate + at, &value, sizeof value);
  return keep_if_wrong(w, candidate);
}

static int64_t value_of(const work *w, size_t at) {
  int64_t value;
  memcpy(&value, (const char *)w->problem + at, sizeof value);
  return value;
}

static int shrink_field(work *w, const field *f) {
  int64_t value = value_of(w, f->at);
  int64_t distance = value - f->simplest;
  if (distance == 0) return 0;
  if (try_value(w, f->at, f->simplest)) return 1;
  if (distance / 2 && try_value(w, f->at, f->simplest + distance / 2)) return 1;
  return try_value(w, f->at, value - (distance > 0 ? 1 : -1));
}

static int shrink_window(work *w, size_t at) {
  sattn_window window;
  memcpy(&window, (const char *)w->problem + at, sizeof window);
  if (window.kind == SATTN_WINDOW_NONE) return 0;
  int64_t size = window.kind == SATTN_WINDOW_WIDTH ? window.width : window.left;
  const sattn_window smaller[] = {sattn_window_width(1),
                                  sattn_window_width(size / 2 + 1),
                                  sattn_window_width(size - 1),
                                  sattn_window_sides(0, 0),
                                  sattn_window_sides(window.left / 2, window.right),
                                  sattn_window_sides(window.left, window.right / 2)};
  for (size_t i = window.kind == SATTN_WINDOW_WIDTH ? 0 : 3; i < (window.kind == SATTN_WINDOW_WIDTH ? 3 : 6); ++i) {
    torture_problem candidate = *w->problem;
    if (smaller[i].kind == SATTN_WINDOW_WIDTH && (smaller[i].width < 1 || smaller[i].width >= window.width)) continue;
    memcpy((char *)&candidate + at, &smaller[i], sizeof window);
    if (keep_if_wrong(w, candidate)) return 1;
  }
  return 0;
}

static int shrink_rest(work *w) {
  static const int simpler[7] = {0, 0, SATTN_FULL, SATTN_SLIDING_WINDOW, SATTN_STOCHASTIC, SATTN_STOCHASTIC, SATTN_FULL};
  torture_problem candidate = *w->problem;
  if (simpler[candidate.mode]) {
    candidate.mode = simpler[candidate.mode];
    if (keep_if_wrong(w, candidate)) return 1;
  }
  candidate = *w->problem;
  candidate.softcap = candidate.scale = 0;
  if (keep_if_wrong(w, candidate)) return 1;
  return shrink_window(w, offsetof(torture_problem, window_sa)) || shrink_window(w, offsetof(torture_problem, window_swa));
}

int torture_shrink(torture_judge *judge, int target, torture_problem *problem, double seconds, char *report, size_t capacity) {
  work w = {judge, target, problem, now() + seconds, report, capacity, 0};
  int again = 1;
  while (again) {
    again = 0;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) again |= shrink_field(&w, &fields[i]);
    again |= shrink_rest(&w);
    if (now() > w.end) break;
  }
  return w.taken;
}
