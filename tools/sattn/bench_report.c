/* Results of `sattn bench`, for people and for programs. */
#include <inttypes.h>
#include <math.h>

#include "bench.h"
#include "json.h"

static const char *layout_name(const sattn_bench *b) {
  return b->layout == SATTN_LAYOUT_BHND ? "bhnd" : "bnhd";
}
static const char *pass_name(const sattn_bench_row *row) {
  return row->run.pass == SATTN_PASS_FORWARD ? "forward" : "backward";
}

static void print_number(double value, const char *format, const char *absent) {
  if (isnan(value))
    fputs(absent, stdout);
  else
    printf(format, value);
}

void sattn_bench_print_table(const sattn_bench *b) {
  const sattn_device_info *device = sattn_context_device(b->context);
  printf("device   %s, %s (%s)\n", device->id, device->name, device->driver);
  fputs("peak     ", stdout);
  if (isnan(b->peak))
    printf("not measured: %s\n", b->peak_reason);
  else
    printf("%.1f GFLOP/s, fused multiply-add in fp32\n", b->peak);
  for (int t = SATTN_FP16; t <= SATTN_BF16; t++)
    if (!isnan(b->peak_mma[t])) printf("         %.1f GFLOP/s, matrix units in %s\n", b->peak_mma[t], sattn_dtype_name((sattn_dtype)t));
  if (!isnan(b->bandwidth)) printf("         %.1f GB/s, memory\n", b->bandwidth);
  printf("compile  %.2f s\n", b->compile_seconds);
  printf("problem  batch %" PRId64 ", heads %" PRId64 " / %" PRId64 ", layout %s, %s, window %" PRId64 ", seed %" PRIu64
         ", fastest of %" PRId64 " rounds\n\n",
         b->batch, b->heads, b->kv_heads, layout_name(b), b->causal ? "causal" : "two-way", b->window, b->seed, b->repeat);
  printf("%-6s %-8s %-5s %4s %8s %8s %12s %12s %10s %10s %10s %8s %9s\n", "mode", "pass", "dtype", "d", "n", "queries", "ms min",
         "ms median", "ms permute", "ms pack", "GFLOP/s", "of peak", "vs full");
  for (int i = 0; i < b->row_count; i++) {
    const sattn_bench_row *row = &b->rows[i];
    const sattn_workload *w = row->run.workload;
    printf("%-6s %-8s %-5s %4" PRId64 " %8" PRId64 " %8" PRId64 " %12.3f %12.3f ", sattn_mode_name(row->run.attention.mode), pass_name(row),
           sattn_dtype_name(w->dtype), w->head_dim, w->sizes.keys, w->sizes.queries, row->seconds_min * 1e3, row->seconds_median * 1e3);
    print_number(row->permute_seconds * 1e3, "%10.3f ", "         - ");
    print_number(row->pack_seconds * 1e3, "%10.3f ", "         - ");
    printf("%10.1f ", row->useful_gflops);
    print_number(row->fraction_of_peak * 100, "%7.1f%% ", "       - ");
    print_number(row->speedup_over_full, "%8.2fx\n", "        -\n");
  }
}

static void put_count(sattn_json *json, const char *key, bool present, int64_t value) {
  if (present)
    sattn_json_integer(json, key, value);
  else
    sattn_json_null(json, key);
}

static void put_row(const sattn_bench *b, const sattn_bench_row *row, sattn_json *json) {
  const sattn_attention *a = &row->run.attention;
  const sattn_workload *w = row->run.workload;
  sattn_json_open(json, NULL, '{');
  sattn_json_text(json, "mode", sattn_mode_name(a->mode));
  sattn_json_text(json, "pass", pass_name(row));
  sattn_json_text(json, "dtype", sattn_dtype_name(w->dtype));
  sattn_json_text(json, "layout", layout_name(b));
  sattn_json_bool(json, "causal", b->causal);
  sattn_json_integer(json, "batch", b->batch);
  sattn_json_integer(json, "heads", b->heads);
  sattn_json_integer(json, "kv_heads", b->kv_heads);
  sattn_json_integer(json, "head_dim", w->head_dim);
  sattn_json_integer(json, "n", w->sizes.keys);
  sattn_json_integer(json, "queries", w->sizes.queries);
  put_count(json, "window", a->mode != SATTN_FULL && a->mode != SATTN_MOBA, b->window);
  put_count(json, "block", a->mode == SATTN_MOBA, a->block);
  put_count(json, "topk", a->mode == SATTN_MOBA, a->topk);
  sattn_json_integer(json, "sink_tokens", a->sink_tokens);
  sattn_json_unsigned(json, "visible_pairs", row->visible_pairs);
  sattn_json_real(json, "seconds_min", row->seconds_min);
  sattn_json_real(json, "seconds_median", row->seconds_median);
  sattn_json_real(json, "permute_seconds", row->permute_seconds);
  sattn_json_real(json, "pack_seconds", row->pack_seconds);
  sattn_json_real(json, "useful_gflops", row->useful_gflops);
  sattn_json_real(json, "fraction_of_peak", row->fraction_of_peak);
  sattn_json_real(json, "speedup_over_full", row->speedup_over_full);
  sattn_json_close(json, '}');
}

static void put_mma_peaks(const sattn_bench *b, sattn_json *json) {
  if (isnan(b->peak_mma[SATTN_FP16]) && isnan(b->peak_mma[SATTN_BF16])) {
    sattn_json_null(json, "peak_mma_gflops"); /* no matrix units are measured */
    return;
  }
  sattn_json_open(json, "peak_mma_gflops", '{');
  for (int t = SATTN_FP16; t <= SATTN_BF16; t++)
    if (!isnan(b->peak_mma[t])) sattn_json_real(json, sattn_dtype_name((sattn_dtype)t), b->peak_mma[t]);
  sattn_json_close(json, '}');
}

void sattn_bench_print_json(const sattn_bench *b) {
  const sattn_device_info *device = sattn_context_device(b->context);
  sattn_json json;
  sattn_json_begin(&json, stdout);
  sattn_json_open(&json, NULL, '{');
  sattn_json_text(&json, "backend", sattn_backend_name(device->backend));
  sattn_json_text(&json, "device", device->name);
  sattn_json_real(&json, "peak_fma_gflops", b->peak);
  put_mma_peaks(b, &json);
  sattn_json_real(&json, "bandwidth_gbytes", b->bandwidth);
  sattn_json_real(&json, "compile_seconds", b->compile_seconds);
  sattn_json_open(&json, "rows", '[');
  for (int i = 0; i < b->row_count; i++) put_row(b, &b->rows[i], &json);
  sattn_json_close(&json, ']');
  sattn_json_close(&json, '}');
}
