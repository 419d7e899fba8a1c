/* Timed calls of one mode on a workload. */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "workload.h"

static bool has_permutation(sattn_mode mode) {
  return mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED;
}

static bool make_permutation(sattn_run *run, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_permutation_options options;
  sattn_permutation_options_init(&options);
  options.length = run->workload->sizes.keys;
  options.key = run->key;
  return sattn_tool_check(report, sattn_permutation_create(run->workload->context, &options, &run->permutation, &error), &error);
}

static bool make_selected(sattn_run *run, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  const sattn_sizes *n = &run->workload->sizes;
  uint64_t entries = (uint64_t)(n->batch * run->workload->heads * n->queries) * (uint64_t)run->attention.topk;
  return sattn_tool_check(report, sattn_buffer_create(run->workload->context, entries * sizeof(uint32_t), &run->selected, &error), &error);
}

bool sattn_run_create(sattn_run *run, sattn_workload *workload, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  uint32_t passes = run->pass == SATTN_PASS_BACKWARD ? SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD : SATTN_PASS_FORWARD;
  run->workload = workload;
  run->plan = NULL;
  run->permutation = NULL;
  run->selected = NULL;
  run->attention.dtype = workload->dtype;
  run->attention.heads = workload->heads;
  run->attention.kv_heads = workload->kv_heads;
  run->attention.head_dim = workload->head_dim;
  double start = sattn_clock_seconds();
  if (!sattn_tool_check(report, sattn_plan_create(workload->context, &run->attention, &workload->sizes, passes, &run->plan, &error),
                        &error))
    return false;
  run->compile_seconds = sattn_clock_seconds() - start;
  uint64_t forward = sattn_plan_workspace(run->plan, SATTN_PASS_FORWARD);
  uint64_t backward = run->pass == SATTN_PASS_BACKWARD ? sattn_plan_workspace(run->plan, SATTN_PASS_BACKWARD) : 0;
  run->workspace_bytes = forward > backward ? forward : backward;
  if (has_permutation(run->attention.mode) && !make_permutation(run, report)) return false;
  return run->attention.mode != SATTN_MOBA || make_selected(run, report);
}

void sattn_run_destroy(sattn_run *run) {
  sattn_buffer_destroy(&run->selected);
  sattn_permutation_destroy(&run->permutation);
  sattn_plan_destroy(&run->plan);
}

bool sattn_run_make_workspace(sattn_context *context, const sattn_run *const *runs, int count, sattn_buffer **out_workspace,
                              sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  uint64_t bytes = 0;
  for (int i = 0; i < count; i++)
    if (runs[i]->workspace_bytes > bytes) bytes = runs[i]->workspace_bytes;
  return sattn_tool_check(report, sattn_buffer_create(context, bytes, out_workspace, &error), &error);
}

static bool wait_for(const sattn_run *run, sattn_event *event, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_status status = sattn_event_wait(run->workload->context, *event, &error);
  sattn_event_release(run->workload->context, event);
  return sattn_tool_check(report, status, &error);
}

static bool forward(sattn_run *run, sattn_buffer *workspace, bool save, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_workload *w = run->workload;
  sattn_forward_args args;
  sattn_event event = {NULL};
  bool gated = run->attention.mode == SATTN_GATED;
  sattn_forward_args_init(&args);
  args.sizes = w->sizes;
  args.query = w->query;
  args.key = w->key;
  args.value = w->value;
  args.permutation = run->permutation;
  args.out = w->out;
  if (gated) {
    args.gate_sa = w->gate_sa;
    args.gate_swa = w->gate_swa;
    args.lse_sa = w->lse_sa;
    args.lse_swa = w->lse_swa;
  } else {
    args.lse = w->lse;
  }
  args.workspace = workspace;
  if (save) {
    sattn_saved_init(&run->saved);
    run->saved.selected.buffer = run->selected;
    if (gated) run->saved.y_sa = w->y_sa, run->saved.y_swa = w->y_swa;
    args.saved = &run->saved;
  }
  sattn_queue queue = {NULL};
  if (!sattn_tool_check(report, sattn_forward(run->plan, &args, queue, NULL, 0, &event, &error), &error)) return false;
  return wait_for(run, &event, report);
}

static bool backward(sattn_run *run, sattn_buffer *workspace, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_workload *w = run->workload;
  sattn_backward_args args;
  sattn_event event = {NULL};
  sattn_backward_args_init(&args);
  args.saved = &run->saved;
  args.query = w->query;
  args.key = w->key;
  args.value = w->value;
  args.grad_out = w->grad_out;
  args.grad_query = w->grad_query;
  args.grad_key = w->grad_key;
  args.grad_value = w->grad_value;
  if (run->attention.mode == SATTN_GATED) {
    args.gate_sa = w->gate_sa;
    args.gate_swa = w->gate_swa;
    args.grad_gate_sa = w->grad_gate_sa;
    args.grad_gate_swa = w->grad_gate_swa;
  }
  args.workspace = workspace;
  sattn_queue queue = {NULL};
  if (!sattn_tool_check(report, sattn_backward(run->plan, &args, queue, NULL, 0, &event, &error), &error)) return false;
  return wait_for(run, &event, report);
}

static bool redraw(sattn_run *run, uint32_t step, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  if (!run->permutation) return true;
  run->key.step = step;
  return sattn_tool_check(report, sattn_permutation_redraw(run->permutation, &run->key, &error), &error);
}

bool sattn_run_once(sattn_run *run, sattn_buffer *workspace, uint32_t step, double *out_seconds, sattn_report *report) {
  bool is_backward = run->pass == SATTN_PASS_BACKWARD;
  if (is_backward && !forward(run, workspace, true, report)) return false;
  double start = sattn_clock_seconds();
  bool fine = is_backward ? backward(run, workspace, report) : redraw(run, step, report) && forward(run, workspace, false, report);
  *out_seconds = sattn_clock_seconds() - start;
  return fine;
}

bool sattn_run_profile(sattn_run *run, sattn_buffer *workspace, uint32_t step, double *out_permute, double *out_pack,
                       sattn_report *report) {
  sattn_profile profile;
  bool is_backward = run->pass == SATTN_PASS_BACKWARD;
  bool save = is_backward || run->attention.mode == SATTN_MOBA;
  double start = sattn_clock_seconds(), drawing = 0;
  if (!is_backward && !redraw(run, step, report)) return false;
  if (!is_backward) drawing = sattn_clock_seconds() - start;
  sattn_plan_set_profiling(run->plan, 1);
  bool fine = forward(run, workspace, save, report) && (!is_backward || backward(run, workspace, report));
  sattn_profile_init(&profile);
  sattn_plan_get_profile(run->plan, &profile);
  sattn_plan_set_profiling(run->plan, 0);
  *out_permute = run->permutation ? drawing + profile.permute_seconds : (double)NAN;
  *out_pack = profile.pack_seconds;
  return fine;
}
