#include "accuracy.h"

#include <math.h>
#include <string.h>

double sattn_accuracy_largest(const float *values, uint64_t count) {
  double largest = 0;
  for (uint64_t i = 0; i < count; i++)
    if (isfinite(values[i]) && fabs((double)values[i]) > largest) largest = fabs((double)values[i]);
  return largest;
}

double sattn_accuracy_largest_row(const float *values, uint64_t count, int64_t width) {
  double largest = 0;
  for (uint64_t row = 0; width > 0 && row < count / (uint64_t)width; row++) {
    double sum = 0;
    for (int64_t i = 0; i < width; i++)
      sum += (double)values[row * (uint64_t)width + (uint64_t)i] * (double)values[row * (uint64_t)width + (uint64_t)i];
    if (isfinite(sum) && sum > largest) largest = sum;
  }
  return sqrt(largest);
}

/* What fp32 rounding puts into a score of this size. */
static double score_error(double score) {
  return 8 * 0x1p-24 * score;
}

double sattn_accuracy_output_bound(sattn_dtype dtype, double score, double largest_value, bool gated) {
  double unit = dtype == SATTN_FP16 ? 0x1p-11 : dtype == SATTN_BF16 ? 0x1p-8 : 0;
  double branches = gated ? 2 : 1;
  return ((2e-6 + 2 * score_error(score)) + 4 * unit * branches) * largest_value;
}

double sattn_accuracy_lse_bound(double score, double largest_lse) {
  return 2e-6 * fmax(1, largest_lse) + score_error(score);
}

double sattn_accuracy_difference(const float *a, const float *b, uint64_t count) {
  double largest = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (isinf(a[i]) && a[i] == b[i]) continue;
    double difference = fabs((double)a[i] - (double)b[i]);
    if (!(difference <= largest)) largest = isfinite(difference) ? difference : (double)INFINITY;
  }
  return largest;
}

void sattn_accuracy_widen(const void *storage, sattn_dtype dtype, uint64_t count, float *out_values) {
  const uint16_t *halves = storage;
  if (dtype == SATTN_FP32) {
    memcpy(out_values, storage, (size_t)count * sizeof *out_values);
    return;
  }
  for (uint64_t i = 0; i < count; i++)
    out_values[i] = dtype == SATTN_FP16 ? sattn_fp16_to_float(halves[i]) : sattn_bf16_to_float(halves[i]);
}
