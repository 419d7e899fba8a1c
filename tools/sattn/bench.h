/* The parts of `sattn bench`: what is asked for, the rows that come of it, and how they are shown. */
#ifndef SATTN_TOOL_BENCH_H
#define SATTN_TOOL_BENCH_H

#include "describe.h"
#include "place.h"
#include "workload.h"

typedef struct sattn_bench {
  /* as asked for */
  sattn_choice_list modes, dtypes;
  sattn_int64_list lengths, head_dims;
  int64_t queries, window, batch, heads, kv_heads, block, topk, sink_tokens, repeat;
  bool queries_given, kv_heads_given, causal, backward, json;
  int layout;
  uint64_t seed;
  sattn_place place;
  /* as found */
  sattn_context *context;
  double peak;                     /* GFLOP/s; NAN where it is not measured, as the next two */
  double peak_mma[SATTN_BF16 + 1]; /* by dtype */
  double bandwidth;                /* GB/s */
  const char *peak_reason;
  double compile_seconds;
  int workload_count;
  sattn_workload *workloads;
  int row_count;
  struct sattn_bench_row *rows;
} sattn_bench;

typedef struct sattn_bench_row {
  sattn_run run;
  bool ready;                                                        /* run was created */
  double *seconds;                                                   /* [repeat] */
  double seconds_min, seconds_median, permute_seconds, pack_seconds; /* NAN where absent */
  uint32_t best_step;                                                /* of the permutation in the fastest round */
  uint64_t visible_pairs;
  double useful_gflops, fraction_of_peak, speedup_over_full; /* NAN where absent */
} sattn_bench_row;

bool sattn_bench_read_options(sattn_bench *bench, int argc, char **argv, bool *out_help, sattn_report *report);

/* Makes every workload and row: all plans exist before anything is timed. */
bool sattn_bench_prepare(sattn_bench *bench, sattn_report *report);
/* Times all rows in turn, `repeat` times, with the peak measured in every round. */
bool sattn_bench_measure(sattn_bench *bench, sattn_report *report);
void sattn_bench_free(sattn_bench *bench);

void sattn_bench_print_table(const sattn_bench *bench);
void sattn_bench_print_json(const sattn_bench *bench);

#endif
