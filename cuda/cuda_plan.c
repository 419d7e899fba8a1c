#include "cuda_plan.h"

#include <stdlib.h>

#include "cuda_attend.h"
#include "cuda_program.h"
#include "kernels/general_params.h"

/* Fastest first; the general ones last. */
static const sattn_implementation *const implementations[] = {
    &sattn_cuda_attend_mma.common,      &sattn_cuda_attend_fp32.common,         &sattn_cuda_attend_general.common,
    &sattn_cuda_attend_mma_grad.common, &sattn_cuda_attend_general_grad.common,
};

/* plan->impl */
typedef struct cuda_plan_state {
  const sattn_cuda_attend *forward, *backward; /* NULL: pass not asked for */
  void *forward_state, *backward_state;
} cuda_plan_state;

/* ---- choice ---- */

static sattn_status choose(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                           sattn_choice *choice, sattn_plan_info *info, sattn_error *error) {
  sattn_dispatch dispatch;
  dispatch.context = context;
  dispatch.family = context->kernels == SATTN_KERNELS_AUTO ? SATTN_KERNELS_GPU : context->kernels;
  dispatch.list = implementations;
  dispatch.count = sizeof implementations / sizeof implementations[0];
  return sattn_dispatch_choose(&dispatch, problem, maxima, passes, choice, info, error);
}

/* A grid has so many blocks, and the kernels need at most one for each row or, where all are general, one for as many rows as it has warps.
 */
static sattn_status check_rows(const sattn_problem *problem, const sattn_sizes *maxima, const sattn_plan_info *info, sattn_error *error) {
  bool general = info->forward_path != SATTN_PATH_FAST && info->backward_path != SATTN_PATH_FAST;
  uint64_t most = (uint64_t)SATTN_CUDA_MOST_BLOCKS * (general ? SATTN_GENERAL_THREADS / 32 : 1), rows = 0;
  uint64_t tokens = (uint64_t)(maxima->queries > maxima->keys ? maxima->queries : maxima->keys);
  if (sattn_checked_multiply(tokens, (uint64_t)maxima->batch, &rows) && sattn_checked_multiply(rows, (uint64_t)problem->heads, &rows) &&
      rows <= most) {
    return SATTN_OK;
  }
  return sattn_fail(error, SATTN_UNSUPPORTED, "maxima",
                    "maxima have %lld batch entries and %llu tokens, heads is %d: at most %llu rows, their product, fit into one launch",
                    (long long)maxima->batch, (unsigned long long)tokens, (int)problem->heads, (unsigned long long)most);
}

sattn_status sattn_cuda_plan_query(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                   sattn_plan_info *info, sattn_error *error) {
  sattn_choice choice;
  sattn_plan_info chosen = *info;
  sattn_status status = sattn_cuda_images_check(error);
  if (status == SATTN_OK) status = choose(context, problem, maxima, passes, &choice, &chosen, error);
  if (status == SATTN_OK) status = check_rows(problem, maxima, &chosen, error);
  if (status == SATTN_OK) *info = chosen;
  return status;
}

/* ---- life ---- */

static sattn_status prepare_passes(sattn_plan *plan, cuda_plan_state *state, const sattn_choice *choice, sattn_error *error) {
  const sattn_cuda_attend *forward = (const sattn_cuda_attend *)choice->forward;
  const sattn_cuda_attend *backward = (const sattn_cuda_attend *)choice->backward;
  sattn_status status = SATTN_OK;
  if (forward) {
    status = sattn_cuda_attend_open(forward, plan, &state->forward_state, error);
    if (status == SATTN_OK) state->forward = forward;
  }
  if (status == SATTN_OK && backward) {
    status = sattn_cuda_attend_open(backward, plan, &state->backward_state, error);
    if (status == SATTN_OK) state->backward = backward;
  }
  return status;
}

sattn_status sattn_cuda_plan_prepare(sattn_plan *plan, sattn_error *error) {
  sattn_choice choice;
  sattn_plan_info info = plan->info;
  sattn_status status = sattn_cuda_context_usable(plan->context, error);
  if (status == SATTN_OK) status = choose(plan->context, &plan->problem, &plan->maxima, plan->passes, &choice, &info, error);
  if (status != SATTN_OK) return status;
  cuda_plan_state *state = calloc(1, sizeof *state);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a plan of %zu bytes", sizeof *state);
  plan->impl = state;
  status = sattn_cuda_enter(plan->context, error);
  if (status == SATTN_OK) status = sattn_cuda_leave(plan->context, prepare_passes(plan, state, &choice, error), error);
  if (status != SATTN_OK) sattn_cuda_plan_destroy(plan);
  return status;
}

void sattn_cuda_plan_destroy(sattn_plan *plan) {
  cuda_plan_state *state = plan->impl;
  if (!state) return;
  bool entered = sattn_cuda_enter(plan->context, NULL) == SATTN_OK;
  sattn_cuda_attend_close(state->forward, plan->context, state->forward_state);
  sattn_cuda_attend_close(state->backward, plan->context, state->backward_state);
  if (entered) sattn_cuda_leave(plan->context, SATTN_OK, NULL);
  free(state);
  plan->impl = NULL;
}

/* ---- execution ---- */

/* Profiling writes into the plan, which is otherwise constant while calls are made; plan.h forbids calls in flight together with it. */
static sattn_profile *profile_of(const sattn_plan *plan) {
  return plan->profiling ? &((sattn_plan *)plan)->profile : NULL;
}

sattn_status sattn_cuda_forward(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission,
                                sattn_error *error) {
  cuda_plan_state *state = plan->impl;
  sattn_cuda_chain chain;
  sattn_status status = sattn_cuda_chain_begin(&chain, plan->context, submission, profile_of(plan), error);
  if (status == SATTN_OK) status = state->forward->enqueue_forward(plan, state->forward_state, args, &chain, error);
  return sattn_cuda_chain_end(&chain, status, error);
}

sattn_status sattn_cuda_backward(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission,
                                 sattn_error *error) {
  cuda_plan_state *state = plan->impl;
  if (!state->backward) return sattn_unsupported(plan->context, "backward", error);
  sattn_cuda_chain chain;
  sattn_status status = sattn_cuda_chain_begin(&chain, plan->context, submission, profile_of(plan), error);
  if (status == SATTN_OK) status = state->backward->enqueue_backward(plan, state->backward_state, args, &chain, error);
  return sattn_cuda_chain_end(&chain, status, error);
}
