#include "reference_merge.h"

#include <math.h>

#include "reference_array.h"

/* Adds exp(lse_part - lse) * O_part. A part without keys is not even read: its O may hold anything. */
static void add_part(const sattn_tensor *part, double lse_part, double lse, const sattn_merge_args *args, int64_t b, int64_t i, int64_t h,
                     double *out) {
  double row[SATTN_REFERENCE_MAX_WIDTH], weight = exp(lse_part - lse);
  if (lse_part == -INFINITY) return;
  sattn_reference_load_row(part, args->dtype, b, i, h, args->head_dim, row);
  for (int64_t c = 0; c < args->head_dim; ++c) out[c] += weight * row[c];
}

static double merged_lse(double a, double b) {
  double largest = a > b ? a : b, smallest = a > b ? b : a;
  if (largest == -INFINITY) return -INFINITY;
  return largest + log1p(exp(smallest - largest));
}

sattn_status sattn_reference_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission,
                                   sattn_error *error) {
  (void)context;
  (void)error;
  for (int64_t b = 0; b < args->batch; ++b) {
    for (int64_t h = 0; h < args->heads; ++h) {
      for (int64_t i = 0; i < args->queries; ++i) {
        /* Both parts are read before anything is written: outputs may be the same arrays. */
        int64_t index = (b * args->heads + h) * args->queries + i;
        double lse_a = sattn_reference_load(&args->lse_a, SATTN_FP32, index), lse_b = sattn_reference_load(&args->lse_b, SATTN_FP32, index);
        double lse = merged_lse(lse_a, lse_b), out[SATTN_REFERENCE_MAX_WIDTH] = {0};
        add_part(&args->out_a, lse_a, lse, args, b, i, h, out);
        add_part(&args->out_b, lse_b, lse, args, b, i, h, out);
        sattn_reference_store_row(&args->out, args->dtype, b, i, h, args->head_dim, out);
        if (args->lse.buffer) sattn_reference_store(&args->lse, SATTN_FP32, index, lse);
      }
    }
  }
  if (submission->out_event) *submission->out_event = (sattn_event){NULL};
  return SATTN_OK;
}
