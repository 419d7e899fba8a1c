#include "reference_merge.h"

#include <math.h>

#include "reference_array.h"

/* Rows of any width are merged, in pieces of this many elements. */
enum { PIECE = 256 };

typedef struct merge_row {
  const sattn_merge_args *args;
  int64_t b, i, h;
  double lse_a, lse_b, lse;
} merge_row;

/* Adds exp(lse_part - lse) * O_part; the weight comes from the difference of the two parts, which stays exact where the sum of both in lse
 * has no digits left. A part without keys is not even read: its O may hold anything. */
static void add_part(const merge_row *row, sattn_tensor part, double lse_part, double lse_other, int64_t first, int64_t width,
                     double *out) {
  double values[PIECE], weight = 1.0 / (1.0 + exp(lse_other - lse_part));
  if (lse_part == -INFINITY) return;
  part.offset += first;
  sattn_reference_load_row(&part, row->args->dtype, row->b, row->i, row->h, width, values);
  for (int64_t c = 0; c < width; ++c) out[c] += weight * values[c];
}

static double merged_lse(double a, double b) {
  double largest = a > b ? a : b, smallest = a > b ? b : a;
  if (largest == -INFINITY && smallest == -INFINITY) return -INFINITY;
  return largest + log1p(exp(smallest - largest));
}

/* Both parts of a piece are read before it is written: outputs may be the same arrays. */
static void merge_one(const merge_row *row) {
  const sattn_merge_args *args = row->args;
  for (int64_t first = 0; first < args->head_dim; first += PIECE) {
    int64_t width = args->head_dim - first < PIECE ? args->head_dim - first : PIECE;
    double out[PIECE] = {0};
    sattn_tensor target = args->out;
    target.offset += first;
    add_part(row, args->out_a, row->lse_a, row->lse_b, first, width, out);
    add_part(row, args->out_b, row->lse_b, row->lse_a, first, width, out);
    sattn_reference_store_row(&target, args->dtype, row->b, row->i, row->h, width, out);
  }
}

sattn_status sattn_reference_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission,
                                   sattn_error *error) {
  (void)context;
  (void)error;
  for (int64_t b = 0; b < args->batch; ++b) {
    for (int64_t h = 0; h < args->heads; ++h) {
      for (int64_t i = 0; i < args->queries; ++i) {
        int64_t index = (b * args->heads + h) * args->queries + i;
        merge_row row = {.args = args, .b = b, .i = i, .h = h};
        row.lse_a = sattn_reference_load(&args->lse_a, SATTN_FP32, index);
        row.lse_b = sattn_reference_load(&args->lse_b, SATTN_FP32, index);
        row.lse = merged_lse(row.lse_a, row.lse_b);
        merge_one(&row);
        if (args->lse.buffer) sattn_reference_store(&args->lse, SATTN_FP32, index, row.lse);
      }
    }
  }
  if (submission->out_event) *submission->out_event = (sattn_event){NULL};
  return SATTN_OK;
}
