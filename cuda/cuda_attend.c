#include "cuda_attend.h"

#include <stdlib.h>

sattn_status sattn_cuda_attend_open(const sattn_cuda_attend *attend, const sattn_plan *plan, void **out_state, sattn_error *error) {
  *out_state = NULL;
  void *state = calloc(1, attend->state_bytes);
  if (!state) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a plan of %zu bytes", attend->state_bytes);
  sattn_status status = attend->prepare(plan, state, error);
  if (status == SATTN_OK) {
    *out_state = state;
  } else {
    sattn_cuda_attend_close(attend, plan->context, state);
  }
  return status;
}

void sattn_cuda_attend_close(const sattn_cuda_attend *attend, sattn_context *context, void *state) {
  if (!state) return;
  if (attend->destroy) attend->destroy(context, state);
  free(state);
}
