#include <inttypes.h>
#include <string.h>

#include "calls.h"
#include "region.h"

void sattn_forward_args_init(sattn_forward_args *args) {
  if (args == NULL) return;
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}

int64_t sattn_gate_width(const sattn_problem *problem, sattn_gate_shape shape) {
  return shape == SATTN_GATE_PER_ELEMENT ? problem->head_dim : 1;
}

sattn_status sattn_submission_check(const sattn_event *wait_list, size_t wait_count, sattn_error *error) {
  if (wait_count == 0 || wait_list != NULL) return SATTN_OK;
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "wait_list", "wait_list is NULL: it must hold the %zu events of wait_count", wait_count);
}

static sattn_status refuse(sattn_error *error, const char *field, int64_t value, const char *rule, int64_t expected) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation", "permutation has %s %" PRId64 ": %s %" PRId64, field, value, rule,
                    expected);
}

sattn_status sattn_permutation_check(const sattn_plan *plan, const sattn_sizes *sizes, const sattn_permutation *permutation,
                                     sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  if (!problem->uses_sa) {
    if (permutation == NULL) return SATTN_OK;
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation", "permutation is given: mode %s has none",
                      sattn_mode_name(problem->mode));
  }
  if (permutation == NULL) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation", "permutation is missing: mode %s needs one",
                      sattn_mode_name(problem->mode));
  }
  if (permutation->context != plan->context) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation",
                      "permutation is of another context: it must be made from the context of the plan");
  }
  int64_t length = problem->order_length > 0 ? problem->order_length : sizes->keys;
  if (permutation->length != length) {
    return refuse(
        error, "length", permutation->length,
        problem->order_length > 0 ? "it must order exactly the tokens of order_length," : "it must order exactly the keys of the call,",
        length);
  }
  if (permutation->sharing != problem->sharing) {
    return refuse(error, "sharing", (int64_t)permutation->sharing, "it must be shared as the plan says,", (int64_t)problem->sharing);
  }
  bool per_head = problem->sharing == SATTN_PER_HEAD || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
  bool per_batch = problem->sharing == SATTN_PER_BATCH || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
  if (per_head && permutation->kv_heads != problem->kv_heads) {
    return refuse(error, "kv_heads", permutation->kv_heads, "it must have one order per key/value head,", problem->kv_heads);
  }
  if (per_batch && permutation->batch != sizes->batch) {
    return refuse(error, "batch", permutation->batch, "it must have one order per batch entry of the call,", sizes->batch);
  }
  return SATTN_OK;
}

static sattn_status check_maximum(const char *field, int64_t value, int64_t maximum, sattn_error *error) {
  if (value <= maximum) return SATTN_OK;
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, field, "sizes.%s is %" PRId64 ": the plan was made for at most %" PRId64, field, value,
                    maximum);
}

static sattn_status check_sizes(const sattn_plan *plan, const sattn_sizes *sizes, sattn_error *error) {
  sattn_status status = sattn_sizes_validate("sizes", sizes, &plan->problem, error);
  if (status == SATTN_OK) status = check_maximum("batch", sizes->batch, plan->maxima.batch, error);
  if (status == SATTN_OK) status = check_maximum("queries", sizes->queries, plan->maxima.queries, error);
  if (status == SATTN_OK) status = check_maximum("keys", sizes->keys, plan->maxima.keys, error);
  return status;
}

static sattn_presence needed(bool condition) {
  return condition ? SATTN_REQUIRED : SATTN_ABSENT;
}

static void add_inputs(sattn_region_set *set, const sattn_problem *p, sattn_forward_args *a) {
  size_t element = sattn_dtype_size(p->dtype), gate_element = sattn_dtype_size(p->gate_dtype);
  const sattn_sizes *n = &a->sizes;
  sattn_presence gated = needed(p->mode == SATTN_GATED);
  const sattn_extent query = {"query", SATTN_REQUIRED, false, element, n->batch, n->queries, p->heads, p->head_dim};
  const sattn_extent key = {"key", SATTN_REQUIRED, false, element, n->batch, n->keys, p->kv_heads, p->head_dim};
  const sattn_extent value = {"value", SATTN_REQUIRED, false, element, n->batch, n->keys, p->kv_heads, p->head_dim};
  const sattn_extent gate_sa = {"gate_sa", gated,      false,    gate_element,
                                n->batch,  n->queries, p->heads, sattn_gate_width(p, p->gate_sa_shape)};
  const sattn_extent gate_swa = {"gate_swa", gated,      false,    gate_element,
                                 n->batch,   n->queries, p->heads, sattn_gate_width(p, p->gate_swa_shape)};
  sattn_region_add_tensor(set, &query, &a->query);
  sattn_region_add_tensor(set, &key, &a->key);
  sattn_region_add_tensor(set, &value, &a->value);
  sattn_region_add_tensor(set, &gate_sa, &a->gate_sa);
  sattn_region_add_tensor(set, &gate_swa, &a->gate_swa);
  sattn_region_add_array(set, "lengths", needed(p->has_lengths), false, sizeof(int32_t), (uint64_t)n->batch, &a->lengths);
  sattn_region_add_array(set, "query_start", needed(p->has_query_start), false, sizeof(int32_t), (uint64_t)n->batch, &a->query_start);
  sattn_region_add_array(set, "sink_logits", needed(p->has_sink_logits), false, sizeof(float), (uint64_t)p->heads, &a->sink_logits);
}

static void add_outputs(sattn_region_set *set, const sattn_problem *p, sattn_forward_args *a) {
  size_t element = sattn_dtype_size(p->dtype);
  const sattn_sizes *n = &a->sizes;
  bool gated = p->mode == SATTN_GATED;
  uint64_t rows = (uint64_t)n->batch * (uint64_t)n->queries * (uint64_t)p->heads;
  sattn_presence optional = a->saved != NULL ? SATTN_REQUIRED : SATTN_OPTIONAL;
  const sattn_extent out = {"out", SATTN_REQUIRED, true, element, n->batch, n->queries, p->heads, p->head_dim};
  sattn_region_add_tensor(set, &out, &a->out);
  sattn_region_add_array(set, "lse", gated ? SATTN_ABSENT : optional, true, sizeof(float), rows, &a->lse);
  sattn_region_add_array(set, "lse_sa", gated ? optional : SATTN_ABSENT, true, sizeof(float), rows, &a->lse_sa);
  sattn_region_add_array(set, "lse_swa", gated ? optional : SATTN_ABSENT, true, sizeof(float), rows, &a->lse_swa);
  if (a->saved == NULL) return;
  uint64_t branch = rows * (uint64_t)p->head_dim;
  sattn_region_add_array(set, "saved.y_sa", needed(gated), true, element, branch, &a->saved->y_sa);
  sattn_region_add_array(set, "saved.y_swa", needed(gated), true, element, branch, &a->saved->y_swa);
  sattn_region_add_array(set, "saved.selected", needed(p->mode == SATTN_MOBA), true, sizeof(uint32_t), rows * (uint64_t)p->topk,
                         &a->saved->selected);
}

sattn_status sattn_forward_check(const sattn_plan *plan, const sattn_forward_args *args, sattn_forward_call *call, sattn_error *error) {
  call->empty = true;
  sattn_forward_args_init(&call->args);
  sattn_saved_init(&call->saved);
  if (plan == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "plan", "plan is NULL: make one by sattn_plan_create");
  if ((plan->passes & SATTN_PASS_FORWARD) == 0) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "plan", "plan is without the forward pass: create it with SATTN_PASS_FORWARD");
  }
  sattn_status status = sattn_copy_struct("args", args, sizeof call->args, &call->args, error);
  if (status == SATTN_OK && call->args.saved != NULL) {
    status = sattn_copy_struct("saved", call->args.saved, sizeof call->saved, &call->saved, error);
    call->args.saved = &call->saved;
  }
  if (status == SATTN_OK) status = check_sizes(plan, &call->args.sizes, error);
  if (status != SATTN_OK) return status;
  call->empty = call->args.sizes.batch == 0 || call->args.sizes.queries == 0;
  /* A call without queries reads and writes nothing; only what backward will find in `saved` has to make sense. */
  if (!call->empty || call->args.permutation != NULL) {
    status = sattn_permutation_check(plan, &call->args.sizes, call->args.permutation, error);
    if (status != SATTN_OK) return status;
  }
  if (call->empty) return SATTN_OK;
  sattn_region_set set;
  sattn_region_begin(&set, plan->context, "the plan", error);
  add_inputs(&set, &plan->problem, &call->args);
  add_outputs(&set, &plan->problem, &call->args);
  sattn_region_add_workspace(&set, plan->info.forward_workspace, call->args.workspace, call->args.workspace_offset);
  return sattn_region_end(&set);
}

static sattn_status forward(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission,
                            sattn_error *error) {
  sattn_forward_call call;
  sattn_status status = sattn_forward_check(plan, args, &call, error);
  if (status == SATTN_OK) status = sattn_submission_check(submission->wait_list, submission->wait_count, error);
  /* The check refuses a NULL plan; analysers that do not look into it are told again. */
  if (status != SATTN_OK || plan == NULL) return status;
  if (!call.empty) {
    status = plan->context->ops->forward(plan, &call.args, submission, error);
    if (status != SATTN_OK) return status;
  } else if (submission->out_event != NULL) {
    submission->out_event->native = NULL;
  }
  if (call.args.saved != NULL) {
    sattn_saved_fill(plan, &call.args, &call.saved);
    sattn_return_struct(&call.saved, args->saved);
  }
  return SATTN_OK;
}

sattn_status sattn_forward(const sattn_plan *plan, const sattn_forward_args *args, sattn_queue queue, const sattn_event *wait_list,
                           size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return sattn_context_report(plan != NULL ? plan->context : NULL, forward(plan, args, &submission, error), error);
}
