/* The general path: one plain kernel for every mode, option, head_dim and layout (kernels/attend_general.cu). */
#include <stdio.h>
#include <string.h>

#include "cuda_attend.h"
#include "cuda_buffer.h"
#include "cuda_program.h"
#include "cuda_select.h"
#include "cuda_slots.h"

#define ROWS_PER_BLOCK (SATTN_GENERAL_THREADS / 32)

typedef struct general_state {
  sattn_cuda_slots_kernels slots;
  sattn_cuda_select_kernels select;
  sattn_cu_function attend;
} general_state;

static sattn_status prepare_kernels(const sattn_plan *plan, general_state *state, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  char name[64];
  snprintf(name, sizeof name, "attend_general_%s", sattn_dtype_name(plan->problem.dtype));
  sattn_status status = sattn_cuda_program_get(plan->context, "attend_general", &program, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(plan->context, program, name, 0, &state->attend, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cuda_slots_prepare(plan->context, &state->slots, error);
  if (status == SATTN_OK && plan->problem.mode == SATTN_MOBA) status = sattn_cuda_select_prepare(plan, &state->select, error);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  return prepare_kernels(plan, opaque, error);
}

static void *address(const sattn_buffer *buffer) {
  return (void *)(uintptr_t)sattn_cuda_address(buffer, 0);
}

static void bind_arrays(const sattn_forward_args *args, sattn_cuda_general *call) {
  call->query = address(args->query.buffer);
  call->key = address(args->key.buffer);
  call->value = address(args->value.buffer);
  call->out = address(args->out.buffer);
  call->lse = address(args->lse.buffer);
  call->lse_sa = address(args->lse_sa.buffer);
  call->lse_swa = address(args->lse_swa.buffer);
  call->lengths = address(args->lengths.buffer);
  call->query_start = address(args->query_start.buffer);
  call->sink_logits = address(args->sink_logits.buffer);
  call->gate_sa = address(args->gate_sa.buffer);
  call->gate_swa = address(args->gate_swa.buffer);
  call->slots = address(args->workspace);
  call->means = call->scores = address(args->workspace);
  call->selected = address(args->workspace);
  if (args->saved) {
    call->y_sa = address(args->saved->y_sa.buffer);
    call->y_swa = address(args->saved->y_swa.buffer);
    call->selected = address(args->saved->selected.buffer);
  }
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cuda_chain *chain,
                            sattn_error *error) {
  const general_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  uint64_t end = (uint64_t)args->workspace_offset;
  sattn_general_layout layout = sattn_general_carve(problem, &args->sizes, &end);
  sattn_cuda_general call;
  memset(&call, 0, sizeof call);
  sattn_general_describe(problem, args, &call.params);
  call.head_dim = problem->head_dim;
  bind_arrays(args, &call);
  sattn_status status = SATTN_OK;
  if (problem->uses_sa) {
    sattn_slots_result slots;
    status = sattn_cuda_slots_enqueue(&state->slots, problem, &args->sizes, args->permutation, &args->lengths,
                                      sattn_cuda_address(args->workspace, 0), &layout.slots, chain, &slots, error);
    call.order = slots.compacted ? call.slots : address(args->permutation->device_order);
    call.params.order = slots.order;
    call.params.slots = slots.slots;
    call.params.order_length = slots.order_length;
  }
  if (problem->mode == SATTN_MOBA) sattn_select_describe(problem, args, &layout.select, &call.params);
  if (status == SATTN_OK && problem->mode == SATTN_MOBA) status = sattn_cuda_select_enqueue(&state->select, &call, chain, error);
  uint64_t rows = (uint64_t)args->sizes.batch * (uint64_t)problem->heads * (uint64_t)args->sizes.queries;
  sattn_cuda_grid grid = {(rows + ROWS_PER_BLOCK - 1) / ROWS_PER_BLOCK, SATTN_GENERAL_THREADS, 0};
  if (status == SATTN_OK) status = sattn_cuda_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(chain, state->attend, &grid, &call, error);
  return status;
}

const sattn_cuda_attend sattn_cuda_attend_general = {
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
    .enqueue_forward = enqueue,
};
