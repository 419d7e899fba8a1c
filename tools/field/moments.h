/* Mean and spread of numbers as they come (Welford). */
#ifndef SATTN_TOOLS_FIELD_MOMENTS_H
#define SATTN_TOOLS_FIELD_MOMENTS_H

#include <stdint.h>

typedef struct {
  uint64_t count;
  double mean, squares, min, max;
} sattn_field_moments;

void sattn_field_moments_add(sattn_field_moments *moments, double value);

/* Standard deviation of the numbers; 0 below two of them. */
double sattn_field_deviation(const sattn_field_moments *moments);

#endif
