/* Arrays of one size on a device, and timed calls on them; what `bench` and `compare` have in common. */
#ifndef SATTN_TOOL_WORKLOAD_H
#define SATTN_TOOL_WORKLOAD_H

#include "report.h"

typedef enum sattn_layout { SATTN_LAYOUT_BNHD = 0, SATTN_LAYOUT_BHND = 1 } sattn_layout;

enum { SATTN_WORKLOAD_BUFFERS = 24 };

/* One set of arrays serves every mode: calls run one after the other. */
typedef struct sattn_workload {
  /* --- to be set --- */
  sattn_context *context; /* borrowed */
  sattn_dtype dtype;
  sattn_layout layout;
  sattn_sizes sizes;
  int64_t heads, kv_heads, head_dim;
  bool gated;    /* gate logits and the branches' arrays are needed */
  bool backward; /* so are gradients */
  /* --- made by sattn_workload_create --- */
  sattn_tensor query, key, value, out, gate_sa, gate_swa;
  sattn_array lse, lse_sa, lse_swa, y_sa, y_swa;
  sattn_tensor grad_out, grad_query, grad_key, grad_value, grad_gate_sa, grad_gate_swa;
  int buffer_count;
  sattn_buffer *buffers[SATTN_WORKLOAD_BUFFERS];
} sattn_workload;

/* Makes the arrays. query, key, value (host arrays in the dtype, packed in the layout) may be NULL: random numbers from `seed` then. */
bool sattn_workload_create(sattn_workload *workload, const void *query, const void *key, const void *value, uint64_t seed,
                           sattn_report *report);
void sattn_workload_destroy(sattn_workload *workload);

/* ---- one mode and pass on a workload ---- */

typedef struct sattn_run {
  sattn_workload *workload; /* borrowed */
  sattn_attention attention;
  sattn_pass pass;
  sattn_plan *plan;
  sattn_permutation *permutation; /* NULL in modes without one */
  sattn_permutation_key key;
  sattn_buffer *selected; /* MOBA */
  sattn_saved saved;
  double compile_seconds; /* of making the plan */
  uint64_t workspace_bytes;
} sattn_run;

/* Makes plan and permutation. run->attention and run->pass are the caller's; has_... options are not used here. */
bool sattn_run_create(sattn_run *run, sattn_workload *workload, sattn_report *report);
void sattn_run_destroy(sattn_run *run);

/* One call, from the caller's wish to the last byte of the result. Forward draws the permutation anew (step = `step`), which is part of the
 * time; backward runs a forward pass first, which is not, and with the permutation as it is. */
bool sattn_run_once(sattn_run *run, sattn_buffer *workspace, uint32_t step, double *out_seconds, sattn_report *report);

/* The same with the library's profiling on: seconds for the permutation (drawing, upload, sorting on the device; NAN in modes without one)
 * and for packing. Leaves the blocks that MOBA selected in run->selected. */
bool sattn_run_profile(sattn_run *run, sattn_buffer *workspace, uint32_t step, double *out_permute, double *out_pack, sattn_report *report);

/* A workspace that serves every run of the list. */
bool sattn_run_make_workspace(sattn_context *context, const sattn_run *const *runs, int count, sattn_buffer **out_workspace,
                              sattn_report *report);

#endif
