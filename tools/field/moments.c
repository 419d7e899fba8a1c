#include "moments.h"

#include <math.h>

void sattn_field_moments_add(sattn_field_moments *moments, double value) {
  if (moments->count == 0 || value < moments->min) {
    moments->min = value;
  }
  if (moments->count == 0 || value > moments->max) {
    moments->max = value;
  }
  moments->count++;
  const double from_old = value - moments->mean;
  moments->mean += from_old / (double)moments->count;
  moments->squares += from_old * (value - moments->mean);
}

double sattn_field_deviation(const sattn_field_moments *moments) {
  return moments->count < 2 ? 0.0 : sqrt(moments->squares / (double)(moments->count - 1));
}
