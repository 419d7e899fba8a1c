#include "reference_rows.h"

#include <string.h>

#include "reference_array.h"

/* gather: target[s] = source[order[s]]; scatter: target[order[s]] = source[s]. Bytes are moved as they are, NaN included. */
sattn_status sattn_reference_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                       sattn_error *error) {
  (void)context;
  (void)error;
  const sattn_permutation *permutation = args->permutation;
  size_t size = sattn_dtype_size(args->dtype), bytes = (size_t)args->head_dim * size;
  for (int64_t b = 0; b < args->batch; ++b) {
    for (int64_t head = 0; head < args->heads; ++head) {
      int64_t index = sattn_permutation_index(permutation->sharing, args->heads, b, head);
      const uint32_t *order = permutation->order + index * permutation->length;
      for (int64_t s = 0; s < args->tokens; ++s) {
        int64_t from = inverse ? s : order[s], to = inverse ? order[s] : s;
        memcpy(sattn_reference_row_address(&args->target, size, b, to, head),
               sattn_reference_row_address(&args->source, size, b, from, head), bytes);
      }
    }
  }
  if (submission->out_event) *submission->out_event = (sattn_event){NULL};
  return SATTN_OK;
}
