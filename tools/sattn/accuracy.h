/* How far a result may be from the reference, and how far it is (contract: finite first, element by element, a NaN never passes). */
#ifndef SATTN_TOOL_ACCURACY_H
#define SATTN_TOOL_ACCURACY_H

#include "report.h"

/* Largest finite |value|; 0 when there is none. */
double sattn_accuracy_largest(const float *values, uint64_t count);

/* Largest Euclidean norm of the rows of `width` values: with the scale, the product of those of Q and K bounds every score. */
double sattn_accuracy_largest_row(const float *values, uint64_t count, int64_t width);

/* Allowed error of O: fp32 rounding in scores up to `score`, and for the half types the roundings of P, of GATED's branches and of O
 * itself. */
double sattn_accuracy_output_bound(sattn_dtype dtype, double score, double largest_value, bool gated);
double sattn_accuracy_lse_bound(double score, double largest_lse);

/* Largest |a - b|; infinity if one is NaN or infinite and the other is not the same infinity. */
double sattn_accuracy_difference(const float *a, const float *b, uint64_t count);

/* Storage of the dtype as floats. */
void sattn_accuracy_widen(const void *storage, sattn_dtype dtype, uint64_t count, float *out_values);

#endif
