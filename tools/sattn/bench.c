/* sattn bench: prepares every plan, then lets all of them take turns. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "commands.h"
#include "peak.h"
#include "visible.h"

static bool contains(const sattn_choice_list *list, int value) {
  for (int i = 0; i < list->count; i++)
    if (list->values[i] == value) return true;
  return false;
}

static void describe(const sattn_bench *b, sattn_mode mode, sattn_attention *attention) {
  bool swa = mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION || mode == SATTN_GATED;
  bool sa = mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED;
  sattn_attention_init(attention);
  attention->mode = mode;
  attention->causal = b->causal;
  if (sa) attention->window_sa = sattn_window_width(b->window);
  if (swa) attention->window_swa = sattn_window_width(b->window);
  if (mode != SATTN_FULL) attention->sink_tokens = b->sink_tokens;
  if (mode == SATTN_MOBA) attention->block = b->block;
  if (mode == SATTN_MOBA) attention->topk = b->topk;
}

static bool prepare_rows(sattn_bench *b, sattn_workload *workload, sattn_report *report) {
  for (int pass = SATTN_PASS_FORWARD; pass <= (b->backward ? SATTN_PASS_BACKWARD : SATTN_PASS_FORWARD); pass++)
    for (int m = 0; m < b->modes.count; m++) {
      sattn_bench_row *row = &b->rows[b->row_count++];
      sattn_progress(b->row_count - 1, b->workload_count * b->modes.count * (b->backward ? 2 : 1), "making plans");
      describe(b, (sattn_mode)(b->modes.values[m] + 1), &row->run.attention);
      row->run.pass = (sattn_pass)pass;
      row->run.key.seed = b->seed;
      row->seconds = sattn_tool_allocate(report, "seconds", (uint64_t)b->repeat, sizeof *row->seconds);
      if (!row->seconds) return false;
      row->ready = true; /* half-made parts are destroyed as well */
      if (!sattn_run_create(&row->run, workload, report)) return false;
      b->compile_seconds += row->run.compile_seconds;
    }
  return true;
}

static bool prepare_workloads(sattn_bench *b, sattn_report *report) {
  int at = 0;
  for (int t = 0; t < b->dtypes.count; t++)
    for (int d = 0; d < b->head_dims.count; d++)
      for (int n = 0; n < b->lengths.count; n++) {
        sattn_workload *w = &b->workloads[at++];
        w->context = b->context;
        w->dtype = (sattn_dtype)(b->dtypes.values[t] + 1);
        w->layout = (sattn_layout)b->layout;
        w->sizes = (sattn_sizes){b->batch, b->queries_given ? b->queries : b->lengths.values[n], b->lengths.values[n]};
        w->heads = b->heads;
        w->kv_heads = b->kv_heads;
        w->head_dim = b->head_dims.values[d];
        w->gated = contains(&b->modes, SATTN_GATED - 1);
        w->backward = b->backward;
        if (!sattn_workload_create(w, NULL, NULL, NULL, b->seed, report) || !prepare_rows(b, w, report)) return false;
      }
  return true;
}

bool sattn_bench_prepare(sattn_bench *b, sattn_report *report) {
  double start = sattn_clock_seconds();
  if (!sattn_place_open(&b->place, &b->context, report)) return false;
  b->compile_seconds = sattn_clock_seconds() - start;
  b->workload_count = b->dtypes.count * b->head_dims.count * b->lengths.count;
  int rows = b->workload_count * b->modes.count * (b->backward ? 2 : 1);
  b->workloads = sattn_tool_allocate(report, "workloads", (uint64_t)b->workload_count, sizeof *b->workloads);
  b->rows = b->workloads ? sattn_tool_allocate(report, "rows", (uint64_t)rows, sizeof *b->rows) : NULL;
  return b->rows && prepare_workloads(b, report);
}

/* ---- measuring ---- */

static bool count_pairs(const sattn_bench *b, sattn_bench_row *row, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  const sattn_attention *a = &row->run.attention;
  const sattn_workload *w = row->run.workload;
  sattn_visibility v;
  memset(&v, 0, sizeof v);
  v.mode = a->mode;
  v.causal = b->causal;
  v.keys = w->sizes.keys;
  v.queries = w->sizes.queries;
  v.sink_tokens = a->sink_tokens;
  v.block = a->block;
  v.topk = a->topk;
  v.planes = b->batch * b->heads;
  if (a->window_sa.kind != SATTN_WINDOW_NONE &&
      !sattn_tool_check(report, sattn_window_resolve(SATTN_BAND_SA, a->causal, a->window_sa, &v.left_sa, &v.right_sa, &error), &error))
    return false;
  if (a->window_swa.kind != SATTN_WINDOW_NONE &&
      !sattn_tool_check(report, sattn_window_resolve(SATTN_BAND_SWA, a->causal, a->window_swa, &v.left_swa, &v.right_swa, &error), &error))
    return false;
  if (row->run.permutation) v.order = sattn_permutation_order(row->run.permutation, 0);
  uint32_t *selected = NULL;
  bool fine = true;
  if (sattn_visible_needs_selected(&v)) {
    uint64_t bytes = sattn_buffer_size(row->run.selected);
    selected = sattn_tool_allocate(report, "selected blocks", bytes, 1);
    fine = selected && sattn_tool_check(report, sattn_buffer_read(row->run.selected, 0, selected, bytes, &error), &error);
    v.selected = selected;
  }
  fine = fine && sattn_visible_pairs(&v, &row->visible_pairs, report);
  free(selected);
  return fine;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void summarise_seconds(const sattn_bench *b, sattn_bench_row *row) {
  row->seconds_min = row->seconds[0];
  row->best_step = 1;
  for (int64_t r = 1; r < b->repeat; r++)
    if (row->seconds[r] < row->seconds_min) row->seconds_min = row->seconds[r], row->best_step = (uint32_t)r + 1;
  qsort(row->seconds, (size_t)b->repeat, sizeof *row->seconds, by_size);
  row->seconds_median = (row->seconds[(b->repeat - 1) / 2] + row->seconds[b->repeat / 2]) / 2;
}

/* The row of full attention that this one is compared with: same workload, same pass. */
static const sattn_bench_row *full_row(const sattn_bench *b, const sattn_bench_row *row) {
  for (int i = 0; i < b->row_count; i++)
    if (b->rows[i].run.attention.mode == SATTN_FULL && b->rows[i].run.workload == row->run.workload && b->rows[i].run.pass == row->run.pass)
      return &b->rows[i];
  return NULL;
}

static void derive(const sattn_bench *b, sattn_bench_row *row) {
  double per_pair = (row->run.pass == SATTN_PASS_FORWARD ? 4.0 : 10.0) * (double)row->run.workload->head_dim;
  const sattn_bench_row *full = full_row(b, row);
  row->useful_gflops = (double)row->visible_pairs * per_pair / row->seconds_min * 1e-9;
  double mma = b->peak_mma[row->run.workload->dtype];
  row->fraction_of_peak = row->useful_gflops / (isnan(mma) ? b->peak : mma); /* NAN stays NAN */
  row->speedup_over_full = full ? full->seconds_min / row->seconds_min : (double)NAN;
}

enum { PEAK_RUNS = 3 }; /* a round; each is short, and a busy machine only ever slows one down */

static void measure_peaks(sattn_bench *b, sattn_peak *peak) {
  b->peak = fmax(b->peak, peak->measure(peak)); /* fmax passes over a NAN */
  for (int t = SATTN_FP16; t <= SATTN_BF16; t++)
    if (peak->measure_mma && contains(&b->dtypes, t - 1)) b->peak_mma[t] = fmax(b->peak_mma[t], peak->measure_mma(peak, (sattn_dtype)t));
  if (peak->measure_bandwidth) b->bandwidth = fmax(b->bandwidth, peak->measure_bandwidth(peak));
}

static bool rounds(sattn_bench *b, sattn_peak *peak, sattn_buffer *workspace, sattn_report *report) {
  double seconds = 0;
  int done = 0, total = (int)(b->repeat + 1) * b->row_count;
  b->peak = b->bandwidth = (double)NAN;
  for (int t = 0; t <= SATTN_BF16; t++) b->peak_mma[t] = (double)NAN;
  for (int64_t r = 0; r <= b->repeat; r++) { /* round 0 warms up */
    for (int i = 0; peak && i < PEAK_RUNS; i++) measure_peaks(b, peak);
    for (int i = 0; i < b->row_count; i++) {
      sattn_progress(done++, total, SATTN_MODE_WORDS[b->rows[i].run.attention.mode - 1]);
      if (!sattn_run_once(&b->rows[i].run, workspace, (uint32_t)r, &seconds, report)) return false;
      if (r > 0) b->rows[i].seconds[r - 1] = seconds;
    }
  }
  sattn_progress(1, 1, "");
  return true;
}

bool sattn_bench_measure(sattn_bench *b, sattn_report *report) {
  sattn_peak *peak = NULL;
  sattn_buffer *workspace = NULL;
  const sattn_run **runs = sattn_tool_allocate(report, "runs", (uint64_t)b->row_count, sizeof *runs);
  bool fine = runs && sattn_peak_create(b->context, &peak, &b->peak_reason, report);
  for (int i = 0; fine && i < b->row_count; i++) runs[i] = &b->rows[i].run;
  fine = fine && sattn_run_make_workspace(b->context, runs, b->row_count, &workspace, report) && rounds(b, peak, workspace, report);
  for (int i = 0; fine && i < b->row_count; i++) {
    sattn_bench_row *row = &b->rows[i];
    summarise_seconds(b, row);
    fine = sattn_run_profile(&row->run, workspace, row->best_step, &row->permute_seconds, &row->pack_seconds, report) &&
           count_pairs(b, row, report);
  }
  for (int i = 0; fine && i < b->row_count; i++) derive(b, &b->rows[i]);
  sattn_buffer_destroy(&workspace);
  sattn_peak_destroy(&peak);
  free(runs);
  return fine;
}

void sattn_bench_free(sattn_bench *b) {
  for (int i = 0; b->rows && i < b->row_count; i++) {
    if (b->rows[i].ready) sattn_run_destroy(&b->rows[i].run);
    free(b->rows[i].seconds);
  }
  for (int i = 0; b->workloads && i < b->workload_count; i++) sattn_workload_destroy(&b->workloads[i]);
  free(b->rows);
  free(b->workloads);
  sattn_context_destroy(&b->context);
}

bool sattn_command_bench(int argc, char **argv, sattn_report *report) {
  sattn_bench bench;
  bool help = false;
  memset(&bench, 0, sizeof bench);
  bool fine = sattn_bench_read_options(&bench, argc, argv, &help, report);
  if (fine && !help) {
    fine = sattn_bench_prepare(&bench, report) && sattn_bench_measure(&bench, report);
    if (fine && bench.json) sattn_bench_print_json(&bench);
    if (fine && !bench.json) sattn_bench_print_table(&bench);
  }
  sattn_bench_free(&bench);
  return fine;
}
