/* fp16 (5 exponent bits, 10 of mantissa) and bf16 (8 and 7) to and from fp32, on the bits, so that no hardware support, rounding mode or
 * flush-to-zero setting of the process changes a result. Rounding is to nearest, ties to even. A NaN stays a NaN and becomes quiet. */
#include <string.h>

#include <sattn/attention.h>

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* value / 2^shift, nearest, ties to even; 1 <= shift <= 31. A carry out of the mantissa runs into the exponent, as it must. */
static uint32_t shift_right_to_even(uint32_t value, uint32_t shift) {
  uint32_t kept = value >> shift;
  uint32_t rest = value & ((1u << shift) - 1u);
  uint32_t half = 1u << (shift - 1u);
  if (rest > half || (rest == half && (kept & 1u) != 0)) ++kept;
  return kept;
}

uint16_t sattn_fp16_from_float(float value) {
  uint32_t bits = bits_of(value);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
  if (magnitude >= 0x38800000u) {                                  /* 2^-14: normal in fp16; exponent bias 127 -> 15 */
    return (uint16_t)(sign | shift_right_to_even(magnitude - (112u << 23), 13));
  }
  uint32_t exponent = magnitude >> 23;
  if (exponent < 102u) return (uint16_t)sign; /* below 2^-25, half of the smallest subnormal */
  uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  return (uint16_t)(sign | shift_right_to_even(mantissa, 126u - exponent));
}

float sattn_fp16_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31u) return float_of(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  if (mantissa == 0) return float_of(sign);
  /* Subnormal in fp16, normal in fp32: move the leading one to its place. */
  exponent = 113u;
  while ((mantissa & 0x400u) == 0) {
    mantissa <<= 1;
    --exponent;
  }
  return float_of(sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13));
}

uint16_t sattn_bf16_from_float(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
  return (uint16_t)shift_right_to_even(bits, 16);
}

float sattn_bf16_to_float(uint16_t half) {
  return float_of((uint32_t)half << 16);
}
