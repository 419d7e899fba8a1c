#include "cl_plan.h"

#include <stdlib.h>
#include <string.h>

#include "cl_amx.h"
#include "cl_attend.h"

/* Fastest first; the general ones last. */
static const sattn_implementation *const implementations[] = {
    &sattn_cl_attend_decode.common,  &sattn_cl_attend_amx.common,          &sattn_cl_attend_cpu.common,
    &sattn_cl_attend_gpu.common,     &sattn_cl_attend_cpu_grad.common,     &sattn_cl_attend_gpu_grad.common,
    &sattn_cl_attend_general.common, &sattn_cl_attend_general_grad.common,
};

/* plan->impl. The lock is held while arguments are set and kernels enqueued, never while anything is waited for: two threads that bind one
 * cl_kernel launch each other's arguments. */
typedef struct cl_plan_state {
  pthread_mutex_t lock;
  const sattn_cl_attend *forward, *backward; /* NULL: pass not asked for */
  void *forward_state, *backward_state;
} cl_plan_state;

/* Work-group tiles gain only where local memory is really local and groups are wide. */
static sattn_kernel_family family_of(const sattn_context *context) {
  if (context->kernels != SATTN_KERNELS_AUTO) return context->kernels;
  const sattn_device_info *device = &context->device;
  return device->local_memory_bytes >= 16384 && device->max_work_group >= 64 ? SATTN_KERNELS_GPU : SATTN_KERNELS_CPU;
}

sattn_status sattn_cl_plan_query(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                 sattn_plan_info *info, sattn_error *error) {
  const sattn_dispatch dispatch = {context, family_of(context), implementations, sizeof implementations / sizeof implementations[0]};
  sattn_choice choice;
  if (problem->dtype == SATTN_BF16 && passes & SATTN_PASS_FORWARD) sattn_cl_amx_find(context);
  return sattn_dispatch_choose(&dispatch, problem, maxima, passes, &choice, info, error);
}

/* ---- life ---- */

/* What the query chose for a pass, by its name; NULL: not asked for. `common` is the first member, so its address is the whole
 * implementation's. */
static const sattn_cl_attend *chosen(const sattn_plan *plan, sattn_pass pass, const char *name) {
  if (!(plan->passes & (uint32_t)pass)) return NULL;
  for (size_t i = 0; i < sizeof implementations / sizeof implementations[0]; ++i) {
    if (strcmp(implementations[i]->name, name) == 0) return (const sattn_cl_attend *)implementations[i];
  }
  return NULL;
}

sattn_status sattn_cl_plan_prepare(sattn_plan *plan, sattn_error *error) {
  sattn_context *context = plan->context;
  sattn_status status = sattn_cl_context_usable(context, error);
  if (status != SATTN_OK) return status;
  cl_plan_state *state = calloc(1, sizeof *state);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a plan of %zu bytes", sizeof *state);
  pthread_mutex_init(&state->lock, NULL);
  plan->impl = state;
  const sattn_cl_attend *forward = chosen(plan, SATTN_PASS_FORWARD, plan->info.forward_kernel);
  const sattn_cl_attend *backward = chosen(plan, SATTN_PASS_BACKWARD, plan->info.backward_kernel);
  if (status == SATTN_OK && forward) {
    status = sattn_cl_attend_open(forward, plan, &state->forward_state, error);
    if (status == SATTN_OK) state->forward = forward;
  }
  if (status == SATTN_OK && backward) {
    status = sattn_cl_attend_open(backward, plan, &state->backward_state, error);
    if (status == SATTN_OK) state->backward = backward;
  }
  if (status != SATTN_OK) sattn_cl_plan_destroy(plan);
  return status;
}

void sattn_cl_plan_destroy(sattn_plan *plan) {
  cl_plan_state *state = plan->impl;
  if (!state) return;
  sattn_cl_attend_close(state->forward, plan->context, state->forward_state);
  sattn_cl_attend_close(state->backward, plan->context, state->backward_state);
  pthread_mutex_destroy(&state->lock);
  free(state);
  plan->impl = NULL;
}

/* ---- execution ---- */

/* Profiling writes into the plan, which is otherwise constant while calls are made; plan.h forbids calls in flight together with it. */
static sattn_profile *profile_of(const sattn_plan *plan) {
  return plan->profiling ? &((sattn_plan *)plan)->profile : NULL;
}

sattn_status sattn_cl_forward(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission,
                              sattn_error *error) {
  cl_plan_state *state = plan->impl;
  sattn_cl_chain chain;
  sattn_status status = sattn_cl_chain_begin(&chain, plan->context, submission, profile_of(plan), error);
  if (status == SATTN_OK) {
    pthread_mutex_lock(&state->lock);
    status = state->forward->enqueue_forward(plan, state->forward_state, args, &chain, error);
    pthread_mutex_unlock(&state->lock);
  }
  return sattn_cl_chain_end(&chain, status, error);
}

sattn_status sattn_cl_backward(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission,
                               sattn_error *error) {
  cl_plan_state *state = plan->impl;
  if (!state->backward) return sattn_unsupported(plan->context, "backward", error);
  sattn_cl_chain chain;
  sattn_status status = sattn_cl_chain_begin(&chain, plan->context, submission, profile_of(plan), error);
  if (status == SATTN_OK) {
    pthread_mutex_lock(&state->lock);
    status = state->backward->enqueue_backward(plan, state->backward_state, args, &chain, error);
    pthread_mutex_unlock(&state->lock);
  }
  return sattn_cl_chain_end(&chain, status, error);
}
