/* Mean and spread of numbers as they come (Welford), and numbers in JSON. */
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

typedef struct {
  char text[32];
} sattn_field_number;

/* The number as JSON has it: `null` where it is not finite. Valid as long as the value it returns. */
sattn_field_number sattn_field_json(double value);

#endif
