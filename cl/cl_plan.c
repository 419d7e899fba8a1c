#include "cl_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_attend.h"
#include "trace.h"

/* Fastest first; the general ones last. */
static const sattn_cl_attend *const implementations[] = {
    &sattn_cl_attend_general,
};

#define IMPLEMENTATION_COUNT (sizeof implementations / sizeof implementations[0])

/* plan->impl. The lock is held while arguments are set and kernels enqueued, never while anything is waited for: two threads that bind one
 * cl_kernel launch each other's arguments. */
typedef struct cl_plan_state {
  pthread_mutex_t lock;
  const sattn_cl_attend *forward, *backward; /* NULL: pass not asked for */
  void *forward_state, *backward_state;
} cl_plan_state;

/* ---- choice ---- */

/* Work-group tiles gain only where local memory is really local and groups are wide. */
static sattn_kernel_family family_of(const sattn_context *context) {
  if (context->kernels != SATTN_KERNELS_AUTO) return context->kernels;
  const sattn_device_info *device = &context->device;
  return device->local_memory_bytes >= 16384 && device->max_work_group >= 64 ? SATTN_KERNELS_GPU : SATTN_KERNELS_CPU;
}

static const char *family_name(sattn_kernel_family family) {
  switch (family) {
    case SATTN_KERNELS_CPU:
      return "cpu";
    case SATTN_KERNELS_GPU:
      return "gpu";
    case SATTN_KERNELS_GENERAL:
      return "general";
    case SATTN_KERNELS_AUTO:
      break;
  }
  return "auto";
}

static void add_reason(char *reasons, size_t capacity, const char *name, const char *reason) {
  size_t used = strlen(reasons);
  snprintf(reasons + used, capacity - used, "%s%s: %s", used ? "; " : "", name, reason);
}

/* NULL: none can. `reasons` holds why those before the chosen one were passed over. */
static const sattn_cl_attend *choose(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, sattn_pass pass,
                                     char *reasons, size_t capacity) {
  sattn_kernel_family family = family_of(context);
  for (size_t i = 0; i < IMPLEMENTATION_COUNT; ++i) {
    const sattn_cl_attend *candidate = implementations[i];
    if (candidate->pass != pass) continue;
    char reason[SATTN_CL_REASON_BYTES] = "";
    bool can = false;
    if (candidate->family != SATTN_KERNELS_GENERAL && candidate->family != family) {
      snprintf(reason, sizeof reason, "family %s is not the chosen family %s", family_name(candidate->family), family_name(family));
    } else {
      can = candidate->supports(context, problem, maxima, reason);
    }
    if (can) {
      sattn_trace(context->trace, SATTN_TRACE_DISPATCH, "%s on %s (%s): mode %s, pass %s", candidate->name, context->device.id,
                  context->device.name, sattn_mode_name(problem->mode), pass == SATTN_PASS_FORWARD ? "forward" : "backward");
      return candidate;
    }
    sattn_trace(context->trace, SATTN_TRACE_DISPATCH, "not %s: %s", candidate->name, reason);
    add_reason(reasons, capacity, candidate->name, reason);
  }
  return NULL;
}

static sattn_status unsupported(const sattn_context *context, const char *pass, const char *reasons, sattn_error *error) {
  if (!*reasons) return sattn_unsupported(context, pass, error);
  return sattn_fail(error, SATTN_UNSUPPORTED, NULL, "backend opencl cannot do pass %s of this problem on device %s: %s", pass,
                    context->device.id, reasons);
}

static sattn_status choose_all(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                               const sattn_cl_attend **forward, const sattn_cl_attend **backward, char *reasons, size_t capacity,
                               sattn_error *error) {
  *forward = *backward = NULL;
  *reasons = '\0';
  if (passes & SATTN_PASS_FORWARD) {
    *forward = choose(context, problem, maxima, SATTN_PASS_FORWARD, reasons, capacity);
    if (!*forward) return unsupported(context, "forward", reasons, error);
  }
  if (passes & SATTN_PASS_BACKWARD) {
    *backward = choose(context, problem, maxima, SATTN_PASS_BACKWARD, reasons, capacity);
    if (!*backward) return unsupported(context, "backward", reasons, error);
  }
  return SATTN_OK;
}

sattn_status sattn_cl_plan_query(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                 sattn_plan_info *info, sattn_error *error) {
  const sattn_cl_attend *forward, *backward;
  sattn_plan_info chosen;
  memset(&chosen, 0, sizeof chosen);
  chosen.struct_size = info->struct_size;
  sattn_status status = choose_all(context, problem, maxima, passes, &forward, &backward, chosen.reason, sizeof chosen.reason, error);
  if (status != SATTN_OK) return status;
  if (forward) {
    chosen.forward_path = forward->path;
    chosen.forward_workspace = forward->workspace(context, problem, maxima);
    snprintf(chosen.forward_kernel, sizeof chosen.forward_kernel, "%s", forward->name);
  }
  if (backward) {
    chosen.backward_path = backward->path;
    chosen.backward_workspace = backward->workspace(context, problem, maxima);
    snprintf(chosen.backward_kernel, sizeof chosen.backward_kernel, "%s", backward->name);
  }
  *info = chosen;
  return SATTN_OK;
}

/* ---- life ---- */

sattn_status sattn_cl_plan_prepare(sattn_plan *plan, sattn_error *error) {
  sattn_context *context = plan->context;
  sattn_status status = sattn_cl_context_usable(context, error);
  if (status != SATTN_OK) return status;
  cl_plan_state *state = calloc(1, sizeof *state);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a plan of %zu bytes", sizeof *state);
  pthread_mutex_init(&state->lock, NULL);
  plan->impl = state;
  char reasons[sizeof plan->info.reason];
  const sattn_cl_attend *forward, *backward;
  status = choose_all(context, &plan->problem, &plan->maxima, plan->passes, &forward, &backward, reasons, sizeof reasons, error);
  if (status == SATTN_OK && forward) {
    status = forward->prepare(plan, &state->forward_state, error);
    if (status == SATTN_OK) state->forward = forward;
  }
  if (status == SATTN_OK && backward) {
    status = backward->prepare(plan, &state->backward_state, error);
    if (status == SATTN_OK) state->backward = backward;
  }
  if (status != SATTN_OK) sattn_cl_plan_destroy(plan);
  return status;
}

void sattn_cl_plan_destroy(sattn_plan *plan) {
  cl_plan_state *state = plan->impl;
  if (!state) return;
  if (state->forward) state->forward->destroy(plan->context, state->forward_state);
  if (state->backward) state->backward->destroy(plan->context, state->backward_state);
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
