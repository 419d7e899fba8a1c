/* sattn compare: Stochastic Attention beside sliding-window and full attention on the Q, K, V of a real layer. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "arrays.h"
#include "clock.h"
#include "commands.h"
#include "describe.h"
#include "place.h"
#include "visible.h"
#include "workload.h"

enum { ROWS = 3, QUERY = 0, KEY = 1, VALUE = 2, INPUTS = 3 };

static const struct {
  sattn_mode mode;
  const char *title;
} MODES[ROWS] = {{SATTN_STOCHASTIC, "stochastic (sa)"}, {SATTN_SLIDING_WINDOW, "sliding window (swa)"}, {SATTN_FULL, "full"}};

typedef struct row {
  sattn_run run;
  double seconds, error, allowed;
  uint64_t pairs;
} row;

typedef struct comparison {
  const char *paths[INPUTS];
  int64_t window, repeat;
  uint64_t seed;
  uint32_t layer;
  bool causal;
  sattn_place place;
  sattn_npy inputs[INPUTS]; /* in the storage of the dtype */
  sattn_extents extents;
  sattn_dtype dtype;
  sattn_context *context;
  sattn_workload workload;
  sattn_buffer *workspace;
  row rows[ROWS];
  double score, largest_value; /* for the bounds of the error */
} comparison;

static bool read_inputs(comparison *c, sattn_report *report) {
  static const char *const names[INPUTS] = {"q", "k", "v"}, *const letters[INPUTS] = {"BqHd", "BkGd", "BkGd"};
  for (int i = 0; i < INPUTS; i++) {
    if (!c->paths[i]) return sattn_tool_misuse(report, "--%s: needed", names[i]);
    if (!sattn_npy_read(c->paths[i], &c->inputs[i], report)) return false;
  }
  sattn_extents_init(&c->extents);
  c->extents.has_batch = c->inputs[QUERY].dimensions != 3;
  if (!c->extents.has_batch) c->extents.batch = 1;
  c->dtype = c->inputs[QUERY].type == SATTN_NPY_FLOAT16 ? SATTN_FP16 : SATTN_FP32;
  for (int i = 0; i < INPUTS; i++) {
    if (!sattn_extents_match(&c->extents, names[i], &c->inputs[i], letters[i], report)) return false;
    if (c->inputs[i].type != c->inputs[QUERY].type)
      return sattn_tool_refuse(report, "%s is %s but q is %s: they must agree", names[i], sattn_npy_type_name(c->inputs[i].type),
                               sattn_npy_type_name(c->inputs[QUERY].type));
    if (!sattn_to_storage(&c->inputs[i], c->dtype, names[i], report)) return false;
  }
  if (c->inputs[QUERY].count == 0 || c->inputs[KEY].count == 0) return sattn_tool_refuse(report, "q or k is empty: nothing to compare");
  return true;
}

static void describe(comparison *c, int index) {
  sattn_attention *a = &c->rows[index].run.attention;
  sattn_attention_init(a);
  a->mode = MODES[index].mode;
  a->dtype = c->dtype;
  a->causal = c->causal;
  a->heads = c->extents.heads;
  a->kv_heads = c->extents.kv_heads;
  a->head_dim = c->extents.head_dim;
  if (a->mode == SATTN_STOCHASTIC) a->window_sa = sattn_window_width(c->window);
  if (a->mode == SATTN_SLIDING_WINDOW) a->window_swa = sattn_window_width(c->window);
  c->rows[index].run.pass = SATTN_PASS_FORWARD;
  c->rows[index].run.key = (sattn_permutation_key){c->seed, c->layer, 0, 0};
}

static bool prepare(comparison *c, sattn_report *report) {
  const sattn_run *runs[ROWS];
  sattn_workload *w = &c->workload;
  if (!sattn_place_open(&c->place, &c->context, report)) return false;
  w->context = c->context;
  w->dtype = c->dtype;
  w->sizes = (sattn_sizes){c->extents.batch, c->extents.queries, c->extents.keys};
  w->heads = c->extents.heads;
  w->kv_heads = c->extents.kv_heads;
  w->head_dim = c->extents.head_dim;
  if (!sattn_workload_create(w, c->inputs[QUERY].data, c->inputs[KEY].data, c->inputs[VALUE].data, 0, report)) return false;
  for (int i = 0; i < ROWS; i++) {
    sattn_progress(i, ROWS, "making plans");
    runs[i] = &c->rows[i].run;
    describe(c, i);
    if (!sattn_run_create(&c->rows[i].run, w, report)) return false;
  }
  return sattn_run_make_workspace(c->context, runs, ROWS, &c->workspace, report);
}

/* The modes take turns, so that a busy moment of the machine hits all of them. Each round draws the same permutation anew. */
static bool measure(comparison *c, sattn_report *report) {
  for (int64_t r = 0; r <= c->repeat; r++)
    for (int i = 0; i < ROWS; i++) {
      double seconds = 0;
      sattn_progress((int)r * ROWS + i, ((int)c->repeat + 1) * ROWS, MODES[i].title);
      if (!sattn_run_once(&c->rows[i].run, c->workspace, 0, &seconds, report)) return false;
      if (r == 1 || seconds < c->rows[i].seconds) c->rows[i].seconds = seconds;
      if (r == 0) c->rows[i].seconds = (double)INFINITY; /* warming up */
    }
  sattn_progress(1, 1, "");
  return true;
}

static bool count_pairs(comparison *c, row *r, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  const sattn_attention *a = &r->run.attention;
  sattn_visibility v;
  memset(&v, 0, sizeof v);
  v.mode = a->mode;
  v.causal = c->causal;
  v.keys = c->extents.keys;
  v.queries = c->extents.queries;
  v.planes = c->extents.batch * c->extents.heads;
  sattn_status status = SATTN_OK;
  if (a->mode == SATTN_STOCHASTIC) {
    status = sattn_window_resolve(SATTN_BAND_SA, a->causal, a->window_sa, &v.left_sa, &v.right_sa, &error);
    v.order = sattn_permutation_order(r->run.permutation, 0);
  } else if (a->mode == SATTN_SLIDING_WINDOW) {
    status = sattn_window_resolve(SATTN_BAND_SWA, a->causal, a->window_swa, &v.left_swa, &v.right_swa, &error);
  }
  return sattn_tool_check(report, status, &error) && sattn_visible_pairs(&v, &r->pairs, report);
}

/* ---- error against the reference backend ---- */

static bool reference_output(const comparison *c, int index, sattn_context *reference, void *out, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_host_call call;
  sattn_host_call_init(&call);
  call.context = reference;
  call.attention = c->rows[index].run.attention;
  call.batch = c->extents.batch;
  call.queries = c->extents.queries;
  call.keys = c->extents.keys;
  call.query.data = c->inputs[QUERY].data;
  call.key.data = c->inputs[KEY].data;
  call.value.data = c->inputs[VALUE].data;
  call.permutation_key = c->rows[index].run.key;
  call.out.data = out;
  return sattn_tool_check(report, sattn_attention_host(&call, &error), &error);
}

static bool compare_row(comparison *c, int index, sattn_context *reference, void *storage, float *found, float *right,
                        sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  double seconds = 0;
  uint64_t count = c->inputs[QUERY].count;
  row *r = &c->rows[index];
  if (!sattn_run_once(&r->run, c->workspace, 0, &seconds, report)) return false;
  if (!sattn_tool_check(report, sattn_buffer_read(c->workload.out.buffer, 0, storage, count * sattn_dtype_size(c->dtype), &error), &error))
    return false;
  sattn_accuracy_widen(storage, c->dtype, count, found);
  if (!reference_output(c, index, reference, storage, report)) return false;
  sattn_accuracy_widen(storage, c->dtype, count, right);
  r->error = sattn_accuracy_difference(found, right, count);
  r->allowed = sattn_accuracy_output_bound(c->dtype, c->score, c->largest_value, false);
  return true;
}

/* The product of the longest rows of Q and K bounds every score. */
static bool find_sizes(comparison *c, sattn_report *report) {
  double longest[2] = {0, 0};
  for (int i = 0; i < INPUTS; i++) {
    float *wide = sattn_tool_allocate(report, "inputs", c->inputs[i].count, sizeof *wide);
    if (!wide) return false;
    sattn_accuracy_widen(c->inputs[i].data, c->dtype, c->inputs[i].count, wide);
    if (i == VALUE)
      c->largest_value = sattn_accuracy_largest(wide, c->inputs[i].count);
    else
      longest[i] = sattn_accuracy_largest_row(wide, c->inputs[i].count, c->extents.head_dim);
    free(wide);
  }
  c->score = longest[QUERY] * longest[KEY] / sqrt((double)c->extents.head_dim);
  return true;
}

static bool compare_all(comparison *c, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_context *reference = NULL;
  uint64_t count = c->inputs[QUERY].count;
  float *found = sattn_tool_allocate(report, "output", count, sizeof *found);
  float *right = found ? sattn_tool_allocate(report, "output", count, sizeof *right) : NULL;
  void *storage = right ? sattn_tool_allocate(report, "output", count, sizeof(float)) : NULL;
  const char *id = sattn_backend_name(SATTN_BACKEND_REFERENCE);
  bool fine = storage && find_sizes(c, report) && sattn_tool_check(report, sattn_context_create(id, NULL, &reference, &error), &error);
  for (int i = 0; fine && i < ROWS; i++) {
    sattn_progress(i, ROWS, "reference");
    fine = compare_row(c, i, reference, storage, found, right, report);
  }
  sattn_progress(1, 1, "");
  sattn_context_destroy(&reference);
  free(found);
  free(right);
  free(storage);
  return fine;
}

static bool show(const comparison *c, sattn_report *report) {
  const sattn_device_info *device = sattn_context_device(c->context);
  const sattn_extents *n = &c->extents;
  double full = c->rows[ROWS - 1].seconds;
  bool fine = true;
  printf("device   %s, %s (%s)\n", device->id, device->name, device->driver);
  printf("input    n = %" PRId64 " keys, %" PRId64 " queries, batch %" PRId64 ", heads %" PRId64 " / %" PRId64 ", head_dim %" PRId64
         ", %s, %s\n",
         n->keys, n->queries, n->batch, n->heads, n->kv_heads, n->head_dim, sattn_dtype_name(c->dtype), c->causal ? "causal" : "two-way");
  printf("window   w = %" PRId64 ", permutation seed %" PRIu64 ", layer %" PRIu32 "\n\n", c->window, c->seed, c->layer);
  printf("%-22s %14s %12s %12s %12s %24s\n", "mode", "visible pairs", "milliseconds", "against full", "of full", "error (allowed)");
  for (int i = 0; i < ROWS; i++) {
    const row *r = &c->rows[i];
    bool right = r->error <= r->allowed;
    printf("%-22s %14" PRIu64 " %12.3f %11.2fx %11.1f%% %12.2e (%.1e)%s\n", MODES[i].title, r->pairs, r->seconds * 1e3, full / r->seconds,
           100 * r->seconds / full, r->error, r->allowed, right ? "" : " WRONG");
    fine = fine && right;
  }
  printf("\nTimes: fastest of %" PRId64
         " rounds in turn; for sa with drawing the permutation, sorting, packing and writing back.\n"
         "Error: largest difference in the output from the reference backend, which computes in double.\n",
         c->repeat);
  return fine || sattn_tool_refuse(report, "%s differs from the reference by more than allowed", device->id);
}

static void end_comparison(comparison *c) {
  for (int i = 0; i < ROWS; i++)
    if (c->rows[i].run.workload) sattn_run_destroy(&c->rows[i].run);
  sattn_buffer_destroy(&c->workspace);
  sattn_workload_destroy(&c->workload);
  sattn_context_destroy(&c->context);
  for (int i = 0; i < INPUTS; i++) sattn_npy_free(&c->inputs[i]);
}

bool sattn_command_compare(int argc, char **argv, sattn_report *report) {
  comparison c;
  bool help = false;
  memset(&c, 0, sizeof c);
  c.window = 256;
  c.repeat = 5;
  c.causal = true;
  const sattn_option options[] = {
      {SATTN_OPTION_TEXT, "--q", "F", &c.paths[QUERY], NULL, NULL, "queries [B, n, H, d] or [n, H, d], float32 or float16"},
      {SATTN_OPTION_TEXT, "--k", "F", &c.paths[KEY], NULL, NULL, "keys [B, n, H_kv, d]"},
      {SATTN_OPTION_TEXT, "--v", "F", &c.paths[VALUE], NULL, NULL, "values, shaped as the keys"},
      {SATTN_OPTION_INT64, "--window", "W", &c.window, NULL, NULL, "width of both windows (default 256)"},
      {SATTN_OPTION_UINT64, "--seed", "S", &c.seed, NULL, NULL, "of the permutation (default 0)"},
      {SATTN_OPTION_UINT32, "--layer", "L", &c.layer, NULL, NULL, "of the permutation (default 0)"},
      {SATTN_OPTION_FLAG, "--causal", NULL, &c.causal, NULL, NULL, "default"},
      {SATTN_OPTION_CLEAR, "--no-causal", NULL, &c.causal, NULL, NULL, "keys on both sides"},
      {SATTN_OPTION_INT64, "--repeat", "N", &c.repeat, NULL, NULL, "timed rounds (default 5)"},
      SATTN_PLACE_OPTIONS(&c.place),
      {SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  const sattn_command command = {
      "compare --q F --k F --v F [OPTION]...",
      "Runs stochastic, sliding-window and full attention on the same arrays and device and shows what they look at, how "
      "long they take, and how far the output is from the reference backend's.",
      options};
  if (!sattn_options_read(options, argc, argv, &help, report)) return false;
  if (help) return sattn_options_print_help(&command), true;
  if (c.repeat < 1 || c.repeat > 100000) return sattn_tool_misuse(report, "--repeat %" PRId64 ": must be from 1 to 100000", c.repeat);
  bool fine = read_inputs(&c, report) && prepare(&c, report) && measure(&c, report);
  for (int i = 0; fine && i < ROWS; i++) fine = count_pairs(&c, &c.rows[i], report);
  fine = fine && compare_all(&c, report) && show(&c, report);
  end_comparison(&c);
  return fine;
}
