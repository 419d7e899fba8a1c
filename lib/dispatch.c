#include "dispatch.h"

#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "trace.h"

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

static bool passes_fit(const sattn_implementation *candidate, uint32_t passes, char *reason) {
  if (!candidate->apart || !(passes & SATTN_PASS_BACKWARD)) return true;
  snprintf(reason, SATTN_REASON_BYTES, "the plan also differentiates, and %s", candidate->apart);
  return false;
}

static bool family_fits(const sattn_implementation *candidate, sattn_kernel_family family, char *reason) {
  if (candidate->family == SATTN_KERNELS_GENERAL || candidate->family == family) return true;
  snprintf(reason, SATTN_REASON_BYTES, "family %s is not the chosen family %s", family_name(candidate->family), family_name(family));
  return false;
}

/* NULL: none can. `reasons` collects why those before the chosen one were passed over. */
static const sattn_implementation *choose_pass(const sattn_dispatch *dispatch, const sattn_problem *problem, const sattn_sizes *maxima,
                                               uint32_t passes, sattn_pass pass, char *reasons, size_t capacity) {
  const sattn_context *context = dispatch->context;
  for (size_t i = 0; i < dispatch->count; ++i) {
    const sattn_implementation *candidate = dispatch->list[i];
    if (candidate->pass != pass) continue;
    char reason[SATTN_REASON_BYTES] = "";
    if (family_fits(candidate, dispatch->family, reason) && passes_fit(candidate, passes, reason) &&
        candidate->supports(context, problem, maxima, reason)) {
      sattn_trace(context->trace, SATTN_TRACE_DISPATCH, "%s on %s (%s): mode %s, pass %s", candidate->name, context->device.id,
                  context->device.name, sattn_mode_name(problem->mode), pass == SATTN_PASS_FORWARD ? "forward" : "backward");
      return candidate;
    }
    sattn_trace(context->trace, SATTN_TRACE_DISPATCH, "not %s: %s", candidate->name, reason);
    add_reason(reasons, capacity, candidate->name, reason);
  }
  return NULL;
}

static sattn_status nothing_fits(const sattn_context *context, const char *pass, const char *reasons, sattn_error *error) {
  if (!*reasons) return sattn_unsupported(context, pass, error);
  return sattn_fail(error, SATTN_UNSUPPORTED, NULL, "backend %s cannot do pass %s of this problem on device %s: %s",
                    sattn_backend_name(context->device.backend), pass, context->device.id, reasons);
}

sattn_status sattn_dispatch_choose(const sattn_dispatch *dispatch, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                   sattn_choice *out_choice, sattn_plan_info *info, sattn_error *error) {
  const sattn_context *context = dispatch->context;
  sattn_choice choice = {NULL, NULL};
  sattn_plan_info chosen;
  memset(&chosen, 0, sizeof chosen);
  chosen.struct_size = info->struct_size;
  if (passes & SATTN_PASS_FORWARD) {
    choice.forward = choose_pass(dispatch, problem, maxima, passes, SATTN_PASS_FORWARD, chosen.reason, sizeof chosen.reason);
    if (!choice.forward) return nothing_fits(context, "forward", chosen.reason, error);
    chosen.forward_path = choice.forward->path;
    chosen.forward_workspace = choice.forward->workspace(context, problem, maxima);
    snprintf(chosen.forward_kernel, sizeof chosen.forward_kernel, "%s", choice.forward->name);
  }
  if (passes & SATTN_PASS_BACKWARD) {
    choice.backward = choose_pass(dispatch, problem, maxima, passes, SATTN_PASS_BACKWARD, chosen.reason, sizeof chosen.reason);
    if (!choice.backward) return nothing_fits(context, "backward", chosen.reason, error);
    chosen.backward_path = choice.backward->path;
    chosen.backward_workspace = choice.backward->workspace(context, problem, maxima);
    snprintf(chosen.backward_kernel, sizeof chosen.backward_kernel, "%s", choice.backward->name);
  }
  *out_choice = choice;
  *info = chosen;
  return SATTN_OK;
}

uint64_t sattn_carve(uint64_t *end, uint64_t rows, uint64_t entries, uint64_t element) {
  uint64_t bytes = 0, at = 0;
  bool fits =
      sattn_checked_multiply(rows, entries, &bytes) && sattn_checked_multiply(bytes, element, &bytes) && sattn_checked_add(*end, 255, &at);
  at = at / 256 * 256;
  if (!fits || !sattn_checked_add(at, bytes, end)) *end = UINT64_MAX;
  return at;
}

static uint64_t bytes_of(int64_t batch, int64_t tokens, int64_t heads, uint64_t width) {
  uint64_t bytes = width;
  bool fits = sattn_checked_multiply(bytes, (uint64_t)batch, &bytes) && sattn_checked_multiply(bytes, (uint64_t)tokens, &bytes) &&
              sattn_checked_multiply(bytes, (uint64_t)heads, &bytes);
  return fits ? bytes : UINT64_MAX;
}

sattn_array_bytes sattn_problem_array_bytes(const sattn_problem *problem, const sattn_sizes *maxima) {
  uint64_t row = (uint64_t)problem->head_dim * sattn_dtype_size(problem->dtype);
  sattn_array_bytes bytes;
  bytes.query = bytes_of(maxima->batch, maxima->queries, problem->heads, row);
  bytes.key = bytes_of(maxima->batch, maxima->keys, problem->kv_heads, row);
  bytes.lse = bytes_of(maxima->batch, maxima->queries, problem->heads, sizeof(float));
  return bytes;
}
