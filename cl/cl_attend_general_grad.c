/* Backward of the general path: dQ by query rows, then dK and dV by key rows (kernels/attend_general_grad.cl). */
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_program.h"
#include "cl_slots.h"
#include "kernel_args.h"

typedef struct grad_state {
  sattn_cl_slots slots;
  cl_kernel query, key_value, sinks;
} grad_state;

/* Everything that the three kernels are bound to. */
typedef struct grad_call {
  sattn_general_grad_params params;
  const sattn_backward_args *args;
  const sattn_saved *saved;
  const sattn_buffer *lse[2], *grad_lse[2];
  const sattn_buffer *order;
} grad_call;

/* ---- arguments ---- */

static void bind_common(sattn_cl_binder *binder, const grad_call *call) {
  const sattn_buffer *buffers[] = {call->args->query.buffer,    call->args->key.buffer, call->args->value.buffer,
                                   call->args->grad_out.buffer, call->lse[0],           call->lse[1]};
  sattn_cl_bind_value(binder, &call->params, sizeof call->params);
  sattn_cl_bind_buffers(binder, buffers, sizeof buffers / sizeof buffers[0]);
}

static void bind_relation(sattn_cl_binder *binder, const grad_call *call) {
  const sattn_buffer *buffers[] = {call->order,
                                   call->args->workspace, /* slots */
                                   call->saved->selected.buffer,
                                   call->args->gate_sa.buffer,
                                   call->args->gate_swa.buffer,
                                   call->args->lengths.buffer,
                                   call->args->query_start.buffer};
  sattn_cl_bind_buffers(binder, buffers, sizeof buffers / sizeof buffers[0]);
}

static sattn_status bind_query(const sattn_context *context, cl_kernel kernel, const grad_call *call, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  bind_common(&binder, call);
  sattn_cl_bind_buffer(&binder, call->grad_lse[0]);
  sattn_cl_bind_buffer(&binder, call->grad_lse[1]);
  bind_relation(&binder, call);
  sattn_cl_bind_buffer(&binder, call->saved->y_sa.buffer);
  sattn_cl_bind_buffer(&binder, call->saved->y_swa.buffer);
  sattn_cl_bind_buffer(&binder, call->args->grad_query.buffer);
  sattn_cl_bind_buffer(&binder, call->args->grad_gate_sa.buffer);
  sattn_cl_bind_buffer(&binder, call->args->grad_gate_swa.buffer);
  sattn_cl_bind_buffer(&binder, call->args->workspace); /* deltas */
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status bind_key_value(const sattn_context *context, cl_kernel kernel, const grad_call *call, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  bind_common(&binder, call);
  bind_relation(&binder, call);
  sattn_cl_bind_buffer(&binder, call->args->workspace); /* deltas */
  sattn_cl_bind_buffer(&binder, call->args->grad_key.buffer);
  sattn_cl_bind_buffer(&binder, call->args->grad_value.buffer);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status bind_sinks(const sattn_context *context, cl_kernel kernel, const grad_call *call, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, &call->params, sizeof call->params);
  sattn_cl_bind_buffer(&binder, call->lse[0]);
  sattn_cl_bind_buffer(&binder, call->lse[1]);
  sattn_cl_bind_buffer(&binder, call->args->sink_logits.buffer);
  sattn_cl_bind_buffer(&binder, call->args->workspace); /* deltas */
  sattn_cl_bind_buffer(&binder, call->args->grad_sink_logits.buffer);
  return sattn_cl_bind_status(&binder, error);
}

static void describe(const sattn_problem *problem, const sattn_backward_args *args, const sattn_grad_layout *layout, grad_call *call) {
  memset(call, 0, sizeof *call);
  bool gated = problem->mode == SATTN_GATED;
  call->args = args;
  call->saved = args->saved;
  call->lse[0] = gated ? args->saved->lse_sa.buffer : args->saved->lse.buffer;
  call->lse[1] = gated ? args->saved->lse_swa.buffer : NULL;
  call->grad_lse[0] = gated ? args->grad_lse_sa.buffer : args->grad_lse.buffer;
  call->grad_lse[1] = gated ? args->grad_lse_swa.buffer : NULL;
  sattn_grad_describe(problem, args, layout, &call->params);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  grad_state *state = opaque;
  sattn_cl_slots_destroy(context, &state->slots);
  sattn_cl_kernel_release(context, &state->query);
  sattn_cl_kernel_release(context, &state->key_value);
  sattn_cl_kernel_release(context, &state->sinks);
}

static sattn_status launch_empty(sattn_context *context, grad_state *state, sattn_error *error) {
  static const sattn_backward_args no_args;
  static const sattn_saved no_saved;
  grad_call none;
  memset(&none, 0, sizeof none);
  none.args = &no_args;
  none.saved = &no_saved;
  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  sattn_status status = bind_query(context, state->query, &none, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->query, 3, local, error);
  if (status == SATTN_OK) status = bind_key_value(context, state->key_value, &none, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->key_value, 3, local, error);
  if (status == SATTN_OK) status = bind_sinks(context, state->sinks, &none, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->sinks, 1, local, error);
  return status;
}

static sattn_status prepare_kernels(const sattn_plan *plan, grad_state *state, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements.cl", "visible.cl", "attend_general_grad.cl", NULL};
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  char options[64];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d", (int)plan->problem.head_dim, (int)plan->problem.dtype);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "grad_query", &state->query, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "grad_key_value", &state->key_value, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "grad_sinks", &state->sinks, error);
  if (status == SATTN_OK) status = launch_empty(context, state, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  grad_state *state = opaque;
  sattn_status status = prepare_kernels(plan, state, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cl_slots_prepare(plan->context, &state->slots, error);
  return status;
}

/* ---- execution ---- */

static sattn_status enqueue_query(const sattn_plan *plan, grad_state *state, const grad_call *call, sattn_cl_chain *chain,
                                  sattn_error *error) {
  const size_t local[3] = {sattn_cl_plain_group(plan->context), 1, 1};
  const size_t global[3] = {sattn_cl_axis(call->saved->sizes.queries, local[0]), sattn_cl_axis(plan->problem.heads, 1),
                            sattn_cl_axis(call->saved->sizes.batch, 1)};
  sattn_status status = bind_query(plan->context, state->query, call, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->query, 3, global, local, error) : status;
}

static sattn_status enqueue_key_value(const sattn_plan *plan, grad_state *state, const grad_call *call, sattn_cl_chain *chain,
                                      sattn_error *error) {
  const size_t local[3] = {sattn_cl_plain_group(plan->context), 1, 1};
  const size_t global[3] = {sattn_cl_axis(call->saved->sizes.keys, local[0]), sattn_cl_axis(plan->problem.kv_heads, 1),
                            sattn_cl_axis(call->saved->sizes.batch, 1)};
  sattn_status status = bind_key_value(plan->context, state->key_value, call, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->key_value, 3, global, local, error) : status;
}

static sattn_status enqueue_sinks(const sattn_plan *plan, grad_state *state, const grad_call *call, sattn_cl_chain *chain,
                                  sattn_error *error) {
  const size_t local = sattn_cl_plain_group(plan->context), global = sattn_cl_axis(plan->problem.heads, local);
  sattn_status status = bind_sinks(plan->context, state->sinks, call, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->sinks, 1, &global, &local, error) : status;
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_backward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  grad_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  const sattn_sizes *sizes = &args->saved->sizes;
  uint64_t end = (uint64_t)args->workspace_offset;
  sattn_grad_layout layout = sattn_grad_carve(problem, sizes, &end);
  grad_call call;
  describe(problem, args, &layout, &call);
  sattn_status status = SATTN_OK;
  /* Without queries there may be no permutation either; dK, dV and dsink are zeros then. */
  if (problem->uses_sa && sizes->queries > 0) {
    status = sattn_cl_slots_enqueue(&state->slots, plan, sizes, args->saved->permutation, &args->lengths, args->workspace, &layout.slots,
                                    chain, &call.params.forward, &call.order, error);
  }
  if (status == SATTN_OK) status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK && sizes->queries > 0) status = enqueue_query(plan, state, &call, chain, error);
  if (status == SATTN_OK) status = enqueue_key_value(plan, state, &call, chain, error);
  if (status == SATTN_OK && problem->has_sink_logits) status = enqueue_sinks(plan, state, &call, chain, error);
  return status;
}

const sattn_cl_attend sattn_cl_attend_general_grad = {
    .common =
        {
            .name = "attend_general_grad",
            .family = SATTN_KERNELS_GENERAL,
            .path = SATTN_PATH_GENERAL,
            .pass = SATTN_PASS_BACKWARD,
            .supports = sattn_supports_all,
            .workspace = sattn_grad_workspace,
        },
    .state_bytes = sizeof(grad_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_backward = enqueue,
};
