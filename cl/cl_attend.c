#include "cl_attend.h"

#include <stdlib.h>

sattn_status sattn_cl_attend_open(const sattn_cl_attend *attend, const sattn_plan *plan, void **out_state, sattn_error *error) {
  *out_state = NULL;
  void *state = calloc(1, attend->state_bytes);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a plan of %zu bytes", attend->state_bytes);
  sattn_status status = attend->prepare(plan, state, error);
  if (status == SATTN_OK) {
    *out_state = state;
  } else {
    sattn_cl_attend_close(attend, plan->context, state);
  }
  return status;
}

void sattn_cl_attend_close(const sattn_cl_attend *attend, sattn_context *context, void *state) {
  if (!state) return;
  attend->destroy(context, state);
  free(state);
}
