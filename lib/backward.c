#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "region.h"

void sattn_backward_args_init(sattn_backward_args *args) {
  if (args == NULL) return;
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}

static sattn_status mismatch(sattn_error *error, const char *field, uint64_t saved, const char *rule, uint64_t expected) {
  return sattn_fail(error, SATTN_MISMATCH, field, "%s is %" PRIu64 ": %s %" PRIu64, field, saved, rule, expected);
}

/* Backward must continue what forward began, with the same plan and a permutation that has not been redrawn since. */
static sattn_status check_saved(const sattn_plan *plan, const sattn_saved *saved, sattn_error *error) {
  if (saved->plan_id == 0) {
    return sattn_fail(error, SATTN_MISMATCH, "saved", "saved was not filled by a forward call: give it to sattn_forward first");
  }
  if (saved->plan_id != plan->id) return mismatch(error, "saved.plan_id", saved->plan_id, "the plan of this backward call has", plan->id);
  const sattn_sizes *n = &saved->sizes;
  const sattn_sizes *most = &plan->maxima;
  if (sattn_sizes_validate("saved.sizes", n, &plan->problem, NULL) != SATTN_OK || n->batch > most->batch || n->queries > most->queries ||
      n->keys > most->keys) {
    return sattn_fail(error, SATTN_MISMATCH, "saved.sizes",
                      "saved.sizes is batch %" PRId64 ", queries %" PRId64 ", keys %" PRId64 ": the plan was made for at most %" PRId64
                      ", %" PRId64 ", %" PRId64,
                      n->batch, n->queries, n->keys, most->batch, most->queries, most->keys);
  }
  const sattn_permutation *permutation = saved->permutation;
  uint64_t id = permutation != NULL ? permutation->id : 0, hash = permutation != NULL ? permutation->hash : 0;
  if (saved->permutation_id != id) return mismatch(error, "saved.permutation_id", saved->permutation_id, "the permutation has", id);
  if (saved->permutation_hash != hash) {
    return mismatch(error, "saved.permutation_hash", saved->permutation_hash, "the permutation was redrawn since and has", hash);
  }
  bool empty = n->batch == 0 || n->queries == 0;
  if (empty && permutation == NULL) return SATTN_OK;
  sattn_status status = sattn_permutation_check(plan, n, permutation, error);
  if (status != SATTN_OK && error != NULL) error->status = SATTN_MISMATCH;
  return status != SATTN_OK ? SATTN_MISMATCH : SATTN_OK;
}

static sattn_presence needed(bool condition) {
  return condition ? SATTN_REQUIRED : SATTN_ABSENT;
}

/* Without queries no input is read, so none is asked for. */
static sattn_presence asked(bool condition, const sattn_saved *saved) {
  if (!condition) return SATTN_ABSENT;
  return saved->sizes.batch == 0 || saved->sizes.queries == 0 ? SATTN_OPTIONAL : SATTN_REQUIRED;
}

static void add_inputs(sattn_region_set *set, const sattn_problem *p, sattn_backward_args *a, const sattn_saved *saved) {
  size_t element = sattn_dtype_size(p->dtype), gate_element = sattn_dtype_size(p->gate_dtype);
  const sattn_sizes *n = &saved->sizes;
  sattn_presence always = asked(true, saved), gated = asked(p->mode == SATTN_GATED, saved);
  int64_t gate_sa_width = sattn_gate_width(p, p->gate_sa_shape), gate_swa_width = sattn_gate_width(p, p->gate_swa_shape);
  const sattn_extent query = {"query", always, false, element, n->batch, n->queries, p->heads, p->head_dim};
  const sattn_extent key = {"key", always, false, element, n->batch, n->keys, p->kv_heads, p->head_dim};
  const sattn_extent value = {"value", always, false, element, n->batch, n->keys, p->kv_heads, p->head_dim};
  const sattn_extent gate_sa = {"gate_sa", gated, false, gate_element, n->batch, n->queries, p->heads, gate_sa_width};
  const sattn_extent gate_swa = {"gate_swa", gated, false, gate_element, n->batch, n->queries, p->heads, gate_swa_width};
  const sattn_extent grad_out = {"grad_out", always, false, element, n->batch, n->queries, p->heads, p->head_dim};
  sattn_region_add_tensor(set, &query, &a->query);
  sattn_region_add_tensor(set, &key, &a->key);
  sattn_region_add_tensor(set, &value, &a->value);
  sattn_region_add_tensor(set, &gate_sa, &a->gate_sa);
  sattn_region_add_tensor(set, &gate_swa, &a->gate_swa);
  sattn_region_add_tensor(set, &grad_out, &a->grad_out);
  uint64_t batch = (uint64_t)n->batch;
  sattn_region_add_array(set, "lengths", asked(p->has_lengths, saved), false, sizeof(int32_t), batch, &a->lengths);
  sattn_region_add_array(set, "query_start", asked(p->has_query_start, saved), false, sizeof(int32_t), batch, &a->query_start);
  sattn_region_add_array(set, "sink_logits", asked(p->has_sink_logits, saved), false, sizeof(float), (uint64_t)p->heads, &a->sink_logits);
}

static void add_saved(sattn_region_set *set, const sattn_problem *p, const sattn_backward_args *a, sattn_saved *saved) {
  size_t element = sattn_dtype_size(p->dtype);
  const sattn_sizes *n = &saved->sizes;
  bool gated = p->mode == SATTN_GATED;
  uint64_t rows = (uint64_t)n->batch * (uint64_t)n->queries * (uint64_t)p->heads, branch = rows * (uint64_t)p->head_dim;
  const sattn_extent out = {"saved.out", SATTN_REQUIRED, false, element, n->batch, n->queries, p->heads, p->head_dim};
  sattn_region_add_tensor(set, &out, &saved->out);
  sattn_region_add_array(set, "saved.lse", needed(!gated), false, sizeof(float), rows, &saved->lse);
  sattn_region_add_array(set, "saved.lse_sa", needed(gated), false, sizeof(float), rows, &saved->lse_sa);
  sattn_region_add_array(set, "saved.lse_swa", needed(gated), false, sizeof(float), rows, &saved->lse_swa);
  sattn_region_add_array(set, "saved.y_sa", needed(gated), false, element, branch, &saved->y_sa);
  sattn_region_add_array(set, "saved.y_swa", needed(gated), false, element, branch, &saved->y_swa);
  sattn_region_add_array(set, "saved.selected", needed(p->mode == SATTN_MOBA), false, sizeof(uint32_t), rows * (uint64_t)p->topk,
                         &saved->selected);
  sattn_region_add_array(set, "grad_lse", gated ? SATTN_ABSENT : SATTN_OPTIONAL, false, sizeof(float), rows, &a->grad_lse);
  sattn_region_add_array(set, "grad_lse_sa", gated ? SATTN_OPTIONAL : SATTN_ABSENT, false, sizeof(float), rows, &a->grad_lse_sa);
  sattn_region_add_array(set, "grad_lse_swa", gated ? SATTN_OPTIONAL : SATTN_ABSENT, false, sizeof(float), rows, &a->grad_lse_swa);
}

static void add_outputs(sattn_region_set *set, const sattn_problem *p, sattn_backward_args *a, const sattn_saved *saved) {
  size_t element = sattn_dtype_size(p->dtype), gate_element = sattn_dtype_size(p->gate_dtype);
  const sattn_sizes *n = &saved->sizes;
  sattn_presence gated = needed(p->mode == SATTN_GATED);
  int64_t gate_sa_width = sattn_gate_width(p, p->gate_sa_shape), gate_swa_width = sattn_gate_width(p, p->gate_swa_shape);
  const sattn_extent query = {"grad_query", SATTN_REQUIRED, true, element, n->batch, n->queries, p->heads, p->head_dim};
  const sattn_extent key = {"grad_key", SATTN_REQUIRED, true, element, n->batch, n->keys, p->kv_heads, p->head_dim};
  const sattn_extent value = {"grad_value", SATTN_REQUIRED, true, element, n->batch, n->keys, p->kv_heads, p->head_dim};
  const sattn_extent gate_sa = {"grad_gate_sa", gated, true, gate_element, n->batch, n->queries, p->heads, gate_sa_width};
  const sattn_extent gate_swa = {"grad_gate_swa", gated, true, gate_element, n->batch, n->queries, p->heads, gate_swa_width};
  sattn_region_add_tensor(set, &query, &a->grad_query);
  sattn_region_add_tensor(set, &key, &a->grad_key);
  sattn_region_add_tensor(set, &value, &a->grad_value);
  sattn_region_add_tensor(set, &gate_sa, &a->grad_gate_sa);
  sattn_region_add_tensor(set, &gate_swa, &a->grad_gate_swa);
  sattn_region_add_array(set, "grad_sink_logits", needed(p->has_sink_logits), true, sizeof(float), (uint64_t)p->heads,
                         &a->grad_sink_logits);
}

sattn_status sattn_backward_check(const sattn_plan *plan, const sattn_backward_args *args, sattn_backward_call *call, sattn_error *error) {
  call->empty = true;
  if (plan == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "plan", "plan is NULL: make one by sattn_plan_create");
  if ((plan->passes & SATTN_PASS_BACKWARD) == 0) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "plan", "plan is without the backward pass: create it with SATTN_PASS_BACKWARD");
  }
  sattn_backward_args_init(&call->args);
  sattn_saved_init(&call->saved);
  sattn_status status = sattn_copy_struct("args", args, sizeof call->args, &call->args, error);
  if (status == SATTN_OK) status = sattn_copy_struct("saved", call->args.saved, sizeof call->saved, &call->saved, error);
  if (status == SATTN_OK) status = check_saved(plan, &call->saved, error);
  if (status != SATTN_OK) return status;
  call->args.saved = &call->saved;
  bool has_keys = call->saved.sizes.batch > 0 && call->saved.sizes.keys > 0;
  call->empty = !has_keys && !plan->problem.has_sink_logits;
  sattn_region_set set;
  sattn_region_begin(&set, plan->context, "the plan", error);
  add_inputs(&set, &plan->problem, &call->args, &call->saved);
  add_saved(&set, &plan->problem, &call->args, &call->saved);
  add_outputs(&set, &plan->problem, &call->args, &call->saved);
  sattn_region_add_workspace(&set, call->empty ? 0 : plan->info.backward_workspace, call->args.workspace, call->args.workspace_offset);
  status = sattn_region_end(&set);
  if (status != SATTN_OK) return status;
  /* Without a batch the gradient of the sink logits is still an output: the call is one entry that has no tokens. */
  if (call->saved.sizes.batch == 0) call->saved.sizes = (sattn_sizes){1, 0, 0};
  return SATTN_OK;
}

static sattn_status backward(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission,
                             sattn_error *error) {
  sattn_backward_call call;
  sattn_status status = sattn_backward_check(plan, args, &call, error);
  if (status == SATTN_OK) status = sattn_submission_check(submission->wait_list, submission->wait_count, error);
  /* The check refuses a NULL plan; analysers that do not look into it are told again. */
  if (status != SATTN_OK || plan == NULL) return status;
  if (!call.empty) return plan->context->ops->backward(plan, &call.args, submission, error);
  if (submission->out_event != NULL) submission->out_event->native = NULL;
  return SATTN_OK;
}

sattn_status sattn_backward(const sattn_plan *plan, const sattn_backward_args *args, sattn_queue queue, const sattn_event *wait_list,
                            size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return sattn_context_report(plan != NULL ? plan->context : NULL, backward(plan, args, &submission, error), error);
}
