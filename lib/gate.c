#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "region.h"

void sattn_gate_options_init(sattn_gate_options *options) {
  if (options == NULL) return;
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
  options->has_bias = 1;
}

void sattn_gate_args_init(sattn_gate_args *args) {
  if (args == NULL) return;
  memset(args, 0, sizeof *args);
  args->struct_size = sizeof *args;
}

static sattn_status refuse(sattn_error *error, const char *argument, int64_t value, const char *rule) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, argument, "%s is %" PRId64 ": %s", argument, value, rule);
}

static sattn_status check_options(const sattn_gate_options *options, sattn_error *error) {
  if (options->max_rows < 0) return refuse(error, "max_rows", options->max_rows, "it must be 0 or more");
  /* BLAS interfaces count in 32 bits. */
  if (options->max_rows > INT32_MAX) return refuse(error, "max_rows", options->max_rows, "it must be below 2^31");
  if (options->inputs < 1 || options->inputs > INT32_MAX) return refuse(error, "inputs", options->inputs, "it must be 1 to 2147483647");
  if (options->outputs < 1 || options->outputs > INT32_MAX) return refuse(error, "outputs", options->outputs, "it must be 1 to 2147483647");
  if (options->has_bias != 0 && options->has_bias != 1) return refuse(error, "has_bias", options->has_bias, "it must be 0 or 1");
  return SATTN_OK;
}

static sattn_status create(sattn_context *context, const sattn_gate_options *options, sattn_gate_plan **out_plan, sattn_error *error) {
  if (out_plan == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "out_plan", "out_plan is NULL: it must point to a handle");
  sattn_gate_options chosen;
  sattn_gate_options_init(&chosen);
  sattn_status status = sattn_copy_struct("options", options, sizeof chosen, &chosen, error);
  if (status == SATTN_OK) status = check_options(&chosen, error);
  if (status != SATTN_OK) return status;
  sattn_gate_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL)
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "the host has no memory for a gate plan of %zu bytes", sizeof *plan);
  plan->context = context;
  plan->max_rows = chosen.max_rows;
  plan->inputs = chosen.inputs;
  plan->outputs = chosen.outputs;
  plan->has_bias = chosen.has_bias != 0;
  status = context->ops->gate_prepare(plan, error);
  if (status != SATTN_OK) {
    free(plan);
    return status;
  }
  *out_plan = plan;
  return SATTN_OK;
}

sattn_status sattn_gate_plan_create(sattn_context *context, const sattn_gate_options *options, sattn_gate_plan **out_plan,
                                    sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, create(context, options, out_plan, error), error);
}

void sattn_gate_plan_destroy(sattn_gate_plan **plan) {
  if (plan == NULL || *plan == NULL) return;
  (*plan)->context->ops->gate_destroy(*plan);
  free(*plan);
  *plan = NULL;
}

uint64_t sattn_gate_plan_workspace(const sattn_gate_plan *plan) {
  return plan != NULL ? plan->workspace : 0;
}

/* Arrays that the pass does not read may be given all the same: one args struct can serve both passes. */
static sattn_presence read_by(bool condition) {
  return condition ? SATTN_REQUIRED : SATTN_OPTIONAL;
}

static void add_arrays(sattn_region_set *set, const sattn_gate_plan *plan, const sattn_gate_args *a, int backward) {
  uint64_t inputs = (uint64_t)a->rows * (uint64_t)plan->inputs, outputs = (uint64_t)a->rows * (uint64_t)plan->outputs;
  uint64_t weights = (uint64_t)plan->inputs * (uint64_t)plan->outputs, biases = (uint64_t)plan->outputs;
  bool wants_input = a->grad_input.buffer != NULL, wants_weight = a->grad_weight.buffer != NULL;
  size_t element = sizeof(float);
  sattn_region_add_array(set, "input", read_by(!backward || wants_weight), false, element, inputs, &a->input);
  sattn_region_add_array(set, "weight", read_by(!backward || wants_input), false, element, weights, &a->weight);
  sattn_presence bias = !plan->has_bias ? SATTN_ABSENT : read_by(!backward);
  sattn_region_add_array(set, "bias", bias, false, element, biases, &a->bias);
  sattn_region_add_array(set, "logits", read_by(!backward), !backward, element, outputs, &a->logits);
  sattn_region_add_array(set, "grad_logits", read_by(backward), false, element, outputs, &a->grad_logits);
  sattn_region_add_array(set, "grad_input", SATTN_OPTIONAL, backward, element, inputs, &a->grad_input);
  sattn_region_add_array(set, "grad_weight", SATTN_OPTIONAL, backward, element, weights, &a->grad_weight);
  sattn_presence grad_bias = plan->has_bias ? SATTN_OPTIONAL : SATTN_ABSENT;
  sattn_region_add_array(set, "grad_bias", grad_bias, backward, element, biases, &a->grad_bias);
}

static sattn_status run(const sattn_gate_plan *plan, const sattn_gate_args *caller, int backward, const sattn_submission *submission,
                        sattn_error *error) {
  sattn_gate_args args;
  sattn_gate_args_init(&args);
  sattn_status status = sattn_copy_struct("args", caller, sizeof args, &args, error);
  if (status == SATTN_OK) status = sattn_submission_check(submission->wait_list, submission->wait_count, error);
  if (status != SATTN_OK) return status;
  if (args.rows < 0 || args.rows > plan->max_rows) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "rows", "rows is %" PRId64 ": the plan was made for 0 to %" PRId64, args.rows,
                      plan->max_rows);
  }
  sattn_region_set set;
  sattn_region_begin(&set, plan->context, "this pass of the gate plan", error);
  add_arrays(&set, plan, &args, backward);
  sattn_region_add_workspace(&set, plan->workspace, args.workspace, args.workspace_offset);
  status = sattn_region_end(&set);
  if (status != SATTN_OK) return status;
  /* Backward without rows still writes zeros to the gradients of weight and bias. */
  bool works = args.rows > 0 || (backward && (args.grad_weight.buffer != NULL || args.grad_bias.buffer != NULL));
  if (works) return plan->context->ops->gate_run(plan, &args, backward, submission, error);
  if (submission->out_event != NULL) submission->out_event->native = NULL;
  return SATTN_OK;
}

static sattn_status submit(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward, const sattn_submission *submission,
                           sattn_error *out_error) {
  if (plan == NULL) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "plan", "plan is NULL: make one by sattn_gate_plan_create");
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(plan->context, run(plan, args, backward, submission, error), error);
}

sattn_status sattn_gate_forward(const sattn_gate_plan *plan, const sattn_gate_args *args, sattn_queue queue, const sattn_event *wait_list,
                                size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return submit(plan, args, 0, &submission, out_error);
}

sattn_status sattn_gate_backward(const sattn_gate_plan *plan, const sattn_gate_args *args, sattn_queue queue, const sattn_event *wait_list,
                                 size_t wait_count, sattn_event *out_event, sattn_error *out_error) {
  const sattn_submission submission = {queue, wait_list, wait_count, out_event};
  return submit(plan, args, 1, &submission, out_error);
}
