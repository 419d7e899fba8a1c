#include "half.h"

#include <math.h>
#include <string.h>

typedef struct format {
  int mantissa; /* stored bits */
  int exponent; /* bits */
  int bias;
} format;

static format format_of(sattn_dtype dtype) {
  if (dtype == SATTN_FP16) return (format){10, 5, 15};
  if (dtype == SATTN_BF16) return (format){7, 8, 127};
  return (format){23, 8, 127};
}

uint32_t test_encode(sattn_dtype dtype, double value) {
  format f = format_of(dtype);
  uint32_t sign = (uint32_t)(signbit(value) != 0) << (f.mantissa + f.exponent);
  uint32_t infinity = ((1u << f.exponent) - 1) << f.mantissa;
  if (isnan(value)) return sign | infinity | 1u << (f.mantissa - 1);
  double size = fabs(value);
  if (isinf(size)) return sign | infinity;
  int power = 0;
  frexp(size, &power);
  int exponent = power - 1 < 1 - f.bias ? 1 - f.bias : power - 1;
  /* Counted in units of the last place, subnormals included; nearbyint rounds ties to even. */
  double units = nearbyint(ldexp(size, f.mantissa - exponent));
  uint32_t whole = (uint32_t)units;
  uint32_t hidden = 1u << f.mantissa;
  if (whole < hidden) return sign | whole;
  /* A carry out of the mantissa moves into the exponent by itself. */
  uint32_t bits = ((uint32_t)(exponent + f.bias) << f.mantissa) + (whole - hidden);
  return sign | (bits > infinity ? infinity : bits);
}

double test_decode(sattn_dtype dtype, uint32_t bits) {
  format f = format_of(dtype);
  uint32_t hidden = 1u << f.mantissa;
  uint32_t mantissa = bits & (hidden - 1);
  int exponent = (int)(bits >> f.mantissa & ((1u << f.exponent) - 1));
  double sign = bits >> (f.mantissa + f.exponent) & 1u ? -1.0 : 1.0;
  if (exponent == (1 << f.exponent) - 1) return mantissa ? (double)NAN : sign * (double)INFINITY;
  if (exponent == 0) return sign * ldexp(mantissa, 1 - f.bias - f.mantissa);
  return sign * ldexp((double)(mantissa + hidden), exponent - f.bias - f.mantissa);
}

double test_round(sattn_dtype dtype, double value) {
  if (dtype == SATTN_FP32) return (double)(float)value;
  /* Through fp32 first, as every implementation does that sums in fp32. */
  return test_decode(dtype, test_encode(dtype, (double)(float)value));
}

double test_epsilon(sattn_dtype dtype) {
  return ldexp(1.0, dtype == SATTN_FP32 ? -24 : dtype == SATTN_FP16 ? -11 : -8);
}

void test_store(sattn_dtype dtype, const float *values, size_t count, void *storage) {
  if (dtype == SATTN_FP32) {
    memcpy(storage, values, count * sizeof *values);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = (uint16_t)test_encode(dtype, (double)values[i]);
    memcpy((unsigned char *)storage + i * sizeof bits, &bits, sizeof bits);
  }
}

void test_load(sattn_dtype dtype, const void *storage, size_t count, float *values) {
  if (dtype == SATTN_FP32) {
    memcpy(values, storage, count * sizeof *values);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    memcpy(&bits, (const unsigned char *)storage + i * sizeof bits, sizeof bits);
    values[i] = (float)test_decode(dtype, bits);
  }
}
