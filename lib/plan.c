#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "dispatch.h"

void sattn_plan_info_init(sattn_plan_info *info) {
  if (info == NULL) return;
  memset(info, 0, sizeof *info);
  info->struct_size = sizeof *info;
}

void sattn_profile_init(sattn_profile *profile) {
  if (profile == NULL) return;
  memset(profile, 0, sizeof *profile);
  profile->struct_size = sizeof *profile;
}

static sattn_status check_passes(uint32_t passes, sattn_error *error) {
  if (passes >= 1 && passes <= (SATTN_PASS_FORWARD | SATTN_PASS_BACKWARD)) return SATTN_OK;
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "passes",
                    "passes is %" PRIu32 ": it must be SATTN_PASS_FORWARD, SATTN_PASS_BACKWARD or their sum", passes);
}

static sattn_status check_allocation(const sattn_context *context, const char *what, uint64_t bytes, sattn_error *error) {
  uint64_t most = context->device.max_allocation_bytes; /* 0: not known; UINT64_MAX bytes are too many for any */
  if (bytes < UINT64_MAX && (most == 0 || bytes <= most)) return SATTN_OK;
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, "maxima",
                    "maxima need %" PRIu64 " bytes for %s: device %s allows at most %" PRIu64 " bytes in one allocation", bytes, what,
                    context->device.id, most);
}

/* Arrays at the maxima must fit into one allocation of the device each. */
static sattn_status check_arrays(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima,
                                 sattn_error *error) {
  sattn_array_bytes bytes = sattn_problem_array_bytes(problem, maxima);
  sattn_status status = check_allocation(context, "query", bytes.query, error);
  if (status == SATTN_OK) status = check_allocation(context, "key", bytes.key, error);
  return status == SATTN_OK ? check_allocation(context, "lse", bytes.lse, error) : status;
}

static sattn_status check_workspaces(const sattn_context *context, const sattn_plan_info *info, sattn_error *error) {
  sattn_status status = check_allocation(context, "the forward workspace", info->forward_workspace, error);
  return status == SATTN_OK ? check_allocation(context, "the backward workspace", info->backward_workspace, error) : status;
}

/* Everything that query and create have in common, so that they cannot differ. */
static sattn_status choose(sattn_context *context, const sattn_attention *attention, const sattn_sizes *maxima, uint32_t passes,
                           sattn_problem *problem, sattn_plan_info *info, sattn_error *error) {
  sattn_status status = sattn_problem_resolve(attention, problem, error);
  if (status == SATTN_OK) status = sattn_sizes_validate("maxima", maxima, problem, error);
  if (status == SATTN_OK) status = check_passes(passes, error);
  sattn_plan_info_init(info);
  if (status == SATTN_OK) status = check_arrays(context, problem, maxima, error);
  if (status == SATTN_OK) status = context->ops->plan_query(context, problem, maxima, passes, info, error);
  if (status == SATTN_OK) status = check_workspaces(context, info, error);
  return status;
}

sattn_status sattn_plan_query(sattn_context *context, const sattn_attention *attention, const sattn_sizes *maxima, uint32_t passes,
                              sattn_plan_info *out_info, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  sattn_problem problem;
  sattn_plan_info info;
  sattn_status status = sattn_check_struct("out_info", out_info, sizeof info, error);
  if (status == SATTN_OK) status = choose(context, attention, maxima, passes, &problem, &info, error);
  if (status == SATTN_OK) sattn_return_struct(&info, out_info);
  return sattn_context_report(context, status, error);
}

static sattn_status create(sattn_context *context, const sattn_attention *attention, const sattn_sizes *maxima, uint32_t passes,
                           sattn_plan **out_plan, sattn_error *error) {
  if (out_plan == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "out_plan", "out_plan is NULL: it must point to a handle");
  sattn_problem problem;
  sattn_plan_info info;
  sattn_status status = choose(context, attention, maxima, passes, &problem, &info, error);
  if (status != SATTN_OK) return status;
  sattn_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "the host has no memory for a plan of %zu bytes", sizeof *plan);
  plan->context = context;
  plan->problem = problem;
  plan->maxima = *maxima;
  plan->passes = passes;
  plan->info = info;
  plan->id = sattn_context_new_id(context);
  sattn_profile_init(&plan->profile);
  status = context->ops->plan_prepare(plan, error);
  if (status != SATTN_OK) {
    free(plan);
    return status;
  }
  *out_plan = plan;
  return SATTN_OK;
}

sattn_status sattn_plan_create(sattn_context *context, const sattn_attention *attention, const sattn_sizes *maxima, uint32_t passes,
                               sattn_plan **out_plan, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, create(context, attention, maxima, passes, out_plan, error), error);
}

void sattn_plan_destroy(sattn_plan **plan) {
  if (plan == NULL || *plan == NULL) return;
  (*plan)->context->ops->plan_destroy(*plan);
  free(*plan);
  *plan = NULL;
}

sattn_status sattn_plan_get_info(const sattn_plan *plan, sattn_plan_info *out_info, sattn_error *out_error) {
  if (plan == NULL) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "plan", "plan is NULL: make one by sattn_plan_create");
  sattn_status status = sattn_check_struct("out_info", out_info, sizeof *out_info, out_error);
  if (status == SATTN_OK) sattn_return_struct(&plan->info, out_info);
  return status;
}

uint64_t sattn_plan_workspace(const sattn_plan *plan, sattn_pass pass) {
  if (plan == NULL) return 0;
  return pass == SATTN_PASS_FORWARD ? plan->info.forward_workspace : pass == SATTN_PASS_BACKWARD ? plan->info.backward_workspace : 0;
}

void sattn_plan_set_profiling(sattn_plan *plan, int on) {
  if (plan != NULL) plan->profiling = on != 0;
}

void sattn_plan_get_profile(const sattn_plan *plan, sattn_profile *out_profile) {
  if (plan == NULL || sattn_check_struct("out_profile", out_profile, sizeof *out_profile, NULL) != SATTN_OK) return;
  sattn_return_struct(&plan->profile, out_profile);
}

sattn_status sattn_unsupported(const sattn_context *context, const char *operation, sattn_error *error) {
  return sattn_fail(error, SATTN_UNSUPPORTED, "operation", "operation is %s: backend %s cannot do it, the reference backend can", operation,
                    sattn_backend_name(context->ops->backend));
}
