#include "number.h"

#include <cmath>

namespace sattn_sim {

uint16_t float_to_half(float f, bool toward_zero) {
  uint32_t u = bits<uint32_t>(f);
  const uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return 0x7fff;
  if (u == 0x7f800000u) return sign | 0x7c00;
  if (toward_zero) {
    if (u >= 0x47800000u) return sign | 0x7bff;
    if (u < 0x38800000u) return (uint16_t)(sign | (uint32_t)std::trunc(bits<float>(u) * 0x1p24f));
    return (uint16_t)(sign | ((u >> 13) - (112 << 10)));
  }
  if (u >= 0x477ff000u) return sign | 0x7c00;
  if (u < 0x38800000u) {
    // adding one half makes the float unit round at the last bit of a subnormal half
    const float rounded = bits<float>(u) + 0.5f;
    return (uint16_t)(sign | (bits<uint32_t>(rounded) - 0x3f000000u));
  }
  u += 0xfffu + (u >> 13 & 1);
  return (uint16_t)(sign | ((u >> 13) - (112 << 10)));
}

uint16_t float_to_bf16(float f, bool toward_zero) {
  const uint32_t u = bits<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (uint16_t)((toward_zero ? u : u + 0x7fff + (u >> 16 & 1)) >> 16);
}

uint16_t double_to_half(double d) {
  // Rounding to odd first keeps the second rounding from tipping a tie.
  float f = (float)d;
  if (!std::isnan(d) && !std::isinf(f) && (double)f != d) {
    if (std::fabs((double)f) > std::fabs(d)) f = std::nextafterf(f, 0.0f);
    f = bits<float>(bits<uint32_t>(f) | 1u);
  }
  return float_to_half(f);
}

}  // namespace sattn_sim
