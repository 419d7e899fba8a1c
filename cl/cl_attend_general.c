/* The general path: one plain kernel for every mode, option, head_dim and layout (kernels/attend_general.cl). */
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_program.h"
#include "cl_select.h"
#include "cl_slots.h"
#include "kernel_args.h"

typedef struct general_state {
  sattn_cl_slots slots;
  sattn_cl_select select;
  cl_kernel attend;
} general_state;

/* ---- arguments ---- */

/* args NULL: every array is a NULL pointer, for the launch on an empty range. */
static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_general_params *params, const sattn_forward_args *args,
                         const sattn_buffer *order, const sattn_buffer *selected, sattn_error *error) {
  static const sattn_forward_args no_args;
  if (!args) args = &no_args;
  const sattn_buffer *y_sa = args->saved ? args->saved->y_sa.buffer : NULL;
  const sattn_buffer *y_swa = args->saved ? args->saved->y_swa.buffer : NULL;
  const sattn_buffer *buffers[] = {args->query.buffer,
                                   args->key.buffer,
                                   args->value.buffer,
                                   args->out.buffer,
                                   args->lse.buffer,
                                   args->lse_sa.buffer,
                                   args->lse_swa.buffer,
                                   y_sa,
                                   y_swa,
                                   order,
                                   args->workspace, /* slots */
                                   args->lengths.buffer,
                                   args->query_start.buffer,
                                   args->sink_logits.buffer,
                                   args->gate_sa.buffer,
                                   args->gate_swa.buffer,
                                   selected};
  return sattn_cl_bind_all(context, kernel, params, sizeof *params, buffers, sizeof buffers / sizeof buffers[0], error);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  general_state *state = opaque;
  sattn_cl_slots_destroy(context, &state->slots);
  sattn_cl_select_destroy(context, &state->select);
  sattn_cl_kernel_release(context, &state->attend);
}

static sattn_status prepare_attend(const sattn_plan *plan, general_state *state, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements.cl", "visible.cl", "attend_general.cl", NULL};
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  char options[64];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d", (int)plan->problem.head_dim, (int)plan->problem.dtype);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_general", &state->attend, error);
  sattn_general_params none;
  memset(&none, 0, sizeof none);
  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  if (status == SATTN_OK) status = bind(context, state->attend, &none, NULL, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->attend, 3, local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  general_state *state = opaque;
  sattn_status status = prepare_attend(plan, state, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cl_slots_prepare(plan->context, &state->slots, error);
  if (status == SATTN_OK && plan->problem.mode == SATTN_MOBA) status = sattn_cl_select_prepare(plan, false, &state->select, error);
  return status;
}

/* ---- execution ---- */

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  general_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  uint64_t end = (uint64_t)args->workspace_offset;
  sattn_general_layout layout = sattn_general_carve(problem, &args->sizes, &end);
  sattn_general_params params;
  sattn_general_describe(problem, args, &params);

  sattn_status status = SATTN_OK;
  const sattn_buffer *order = NULL, *selected = NULL;
  if (problem->uses_sa) {
    status = sattn_cl_slots_enqueue(&state->slots, plan, &args->sizes, args->permutation, &args->lengths, args->workspace, &layout.slots,
                                    chain, &params, &order, error);
  }
  if (status == SATTN_OK && problem->mode == SATTN_MOBA) {
    status = sattn_cl_select_enqueue(&state->select, plan, args, &layout.select, &params, chain, &selected, error);
  }
  const size_t local[3] = {sattn_cl_plain_group(plan->context), 1, 1};
  const size_t global[3] = {sattn_cl_axis(args->sizes.queries, local[0]), sattn_cl_axis(problem->heads, 1),
                            sattn_cl_axis(args->sizes.batch, 1)};
  if (status == SATTN_OK) status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = bind(plan->context, state->attend, &params, args, order, selected, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, state->attend, 3, global, local, error);
  return status;
}

const sattn_cl_attend sattn_cl_attend_general = {
    .common =
        {
            .name = "attend_general",
            .family = SATTN_KERNELS_GENERAL,
            .path = SATTN_PATH_GENERAL,
            .pass = SATTN_PASS_FORWARD,
            .supports = sattn_supports_all,
            .workspace = sattn_general_workspace,
        },
    .state_bytes = sizeof(general_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_forward = enqueue,
};
