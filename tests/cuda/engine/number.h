// 16-bit floating point on the host: conversions that round to nearest even, as
// the hardware's do.
#ifndef SATTN_SIM_NUMBER_H
#define SATTN_SIM_NUMBER_H

#include <cstdint>
#include <cstring>

namespace sattn_sim {

template <class To, class From>
inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// Multiplying by 2^112 moves the exponent's bias and makes subnormals normal in one
// step; only infinities and NaN need a second look. Branch-free, so loops vectorise.
inline float half_to_float(uint16_t h) {
  const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
  const float scaled = bits<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return bits<float>(bits<uint32_t>(scaled) | special | (uint32_t)(h & 0x8000) << 16);
}

inline float bf16_to_float(uint16_t h) {
  return bits<float>((uint32_t)h << 16);
}

// toward_zero: cvt.rz instead of cvt.rn
uint16_t float_to_half(float f, bool toward_zero = false);
uint16_t float_to_bf16(float f, bool toward_zero = false);
uint16_t double_to_half(double d);

// The float nearest below or at |x| in magnitude: what .ftz does to a subnormal.
inline float flush(float x) {
  const uint32_t u = bits<uint32_t>(x);
  return (u & 0x7f800000u) ? x : bits<float>(u & 0x80000000u);
}

}  // namespace sattn_sim
#endif
