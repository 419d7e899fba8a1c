/* Backward of the general path: dQ by query rows, then dK and dV by key rows (kernels/attend_general_grad.cu), then the gradient of the
 * sink logits (kernels/grad_sinks.cu). */
#include <stdio.h>
#include <string.h>

#include "cuda_attend.h"
#include "cuda_buffer.h"
#include "cuda_program.h"
#include "cuda_slots.h"
#include "kernel_args.h"
#include "kernels/general_params.h"

#define ROWS_PER_BLOCK (SATTN_GENERAL_THREADS / 32)

typedef struct grad_state {
  sattn_cuda_slots_kernels slots;
  sattn_cu_function query, key_value, sinks;
} grad_state;

/* ---- life ---- */

static sattn_status get_kernel(const sattn_plan *plan, sattn_cuda_program *program, const char *what, sattn_cu_function *out_kernel,
                               sattn_error *error) {
  char name[64];
  snprintf(name, sizeof name, "%s_%s", what, sattn_dtype_name(plan->problem.dtype));
  return sattn_cuda_kernel_get(plan->context, program, name, 0, out_kernel, error);
}

static sattn_status prepare_kernels(const sattn_plan *plan, grad_state *state, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  sattn_cuda_program *program = NULL;
  sattn_status status = sattn_cuda_program_get(plan->context, "attend_general_grad", &program, error);
  if (status == SATTN_OK) status = get_kernel(plan, program, "grad_query", &state->query, error);
  if (status == SATTN_OK) status = get_kernel(plan, program, "grad_key_value", &state->key_value, error);
  if (status == SATTN_OK && problem->uses_sa) status = sattn_cuda_slots_prepare(plan->context, &state->slots, error);
  if (status != SATTN_OK || !problem->has_sink_logits) return status;
  status = sattn_cuda_program_get(plan->context, "grad_sinks", &program, error);
  return status == SATTN_OK ? sattn_cuda_kernel_get(plan->context, program, "grad_sinks", 0, &state->sinks, error) : status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  return prepare_kernels(plan, opaque, error);
}

/* ---- arguments ---- */

static void *address(const sattn_buffer *buffer) {
  return (void *)(uintptr_t)sattn_cuda_address(buffer, 0);
}

static void bind_inputs(const sattn_problem *problem, const sattn_backward_args *args, sattn_cuda_general_grad *call) {
  const sattn_saved *saved = args->saved;
  bool gated = problem->mode == SATTN_GATED;
  call->query = address(args->query.buffer);
  call->key = address(args->key.buffer);
  call->value = address(args->value.buffer);
  call->grad_out = address(args->grad_out.buffer);
  call->lse_0 = address(gated ? saved->lse_sa.buffer : saved->lse.buffer);
  call->lse_1 = address(saved->lse_swa.buffer);
  call->grad_lse_0 = address(gated ? args->grad_lse_sa.buffer : args->grad_lse.buffer);
  call->grad_lse_1 = address(args->grad_lse_swa.buffer);
  call->slots = address(args->workspace);
  call->selected = address(saved->selected.buffer);
  call->gate_sa = address(args->gate_sa.buffer);
  call->gate_swa = address(args->gate_swa.buffer);
  call->y_sa = address(saved->y_sa.buffer);
  call->y_swa = address(saved->y_swa.buffer);
  call->lengths = address(args->lengths.buffer);
  call->query_start = address(args->query_start.buffer);
  call->sink_logits = address(args->sink_logits.buffer);
}

static void bind_outputs(const sattn_backward_args *args, sattn_cuda_general_grad *call) {
  call->grad_query = address(args->grad_query.buffer);
  call->grad_key = address(args->grad_key.buffer);
  call->grad_value = address(args->grad_value.buffer);
  call->grad_gate_sa = address(args->grad_gate_sa.buffer);
  call->grad_gate_swa = address(args->grad_gate_swa.buffer);
  call->grad_sink_logits = address(args->grad_sink_logits.buffer);
  call->deltas = address(args->workspace);
}

/* ---- execution ---- */

static sattn_status enqueue_slots(const sattn_plan *plan, const grad_state *state, const sattn_backward_args *args,
                                  const sattn_grad_layout *layout, sattn_cuda_chain *chain, sattn_cuda_general_grad *call,
                                  sattn_error *error) {
  const sattn_permutation *permutation = args->saved->permutation;
  sattn_slots_result slots;
  sattn_status status = sattn_cuda_slots_enqueue(&state->slots, &plan->problem, &args->saved->sizes, permutation, &args->lengths,
                                                 sattn_cuda_address(args->workspace, 0), &layout->slots, chain, &slots, error);
  if (status != SATTN_OK) return status;
  call->order = slots.compacted ? call->slots : address(permutation->device_order);
  call->params.forward.order = slots.order;
  call->params.forward.slots = slots.slots;
  call->params.forward.order_length = slots.order_length;
  return SATTN_OK;
}

/* One warp a row. */
static sattn_status launch_rows(sattn_cuda_chain *chain, sattn_cu_function kernel, int64_t batch, int64_t heads, int64_t rows,
                                sattn_cuda_general_grad *call, sattn_error *error) {
  uint64_t warps = (uint64_t)batch * (uint64_t)heads * (uint64_t)rows;
  sattn_cuda_grid grid = {(warps + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK, SATTN_GENERAL_THREADS, 0};
  return sattn_cuda_chain_launch(chain, kernel, &grid, call, error);
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_backward_args *args, sattn_cuda_chain *chain,
                            sattn_error *error) {
  const grad_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  const sattn_sizes *sizes = &args->saved->sizes;
  uint64_t end = (uint64_t)args->workspace_offset;
  sattn_grad_layout layout = sattn_grad_carve(problem, sizes, &end);
  sattn_cuda_general_grad call;
  memset(&call, 0, sizeof call);
  sattn_grad_describe(problem, args, &layout, &call.params);
  call.head_dim = problem->head_dim;
  bind_inputs(problem, args, &call);
  bind_outputs(args, &call);
  sattn_status status = SATTN_OK;
  /* Without queries there may be no permutation either; dK, dV and dsink are zeros then. */
  if (problem->uses_sa && sizes->queries > 0) status = enqueue_slots(plan, state, args, &layout, chain, &call, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = launch_rows(chain, state->query, sizes->batch, problem->heads, sizes->queries, &call, error);
  if (status == SATTN_OK) status = launch_rows(chain, state->key_value, sizes->batch, problem->kv_heads, sizes->keys, &call, error);
  if (status == SATTN_OK && problem->has_sink_logits) status = launch_rows(chain, state->sinks, 1, problem->heads, 1, &call, error);
  return status;
}

const sattn_cuda_attend sattn_cuda_attend_general_grad = {
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
    .enqueue_backward = enqueue,
};
