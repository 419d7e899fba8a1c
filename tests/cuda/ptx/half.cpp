// f16, bf16 and their pairs: computed in double, rounded once.
#include "decoder.h"
#include "warp.h"

#include <cmath>

namespace sattn_sim {

namespace {

double decode_half(uint16_t h, bool bf16) {
  return bf16 ? bf16_to_float(h) : half_to_float(h);
}

uint16_t encode_half(double x, bool bf16) {
  if (!bf16) return double_to_half(x);
  float f = (float)x;
  // rounding to odd in between keeps the second rounding right
  if (!std::isnan(f) && !std::isinf(f) && (double)f != x) {
    if (std::fabs((double)f) > std::fabs(x)) f = std::nextafterf(f, 0.0f);
    f = bits<float>(bits<uint32_t>(f) | 1u);
  }
  return float_to_bf16(f);
}

enum Half_op { half_add, half_sub, half_mul, half_fma, half_neg, half_abs, half_min, half_max, half_ex2, half_tanh };

double compute(const Instruction &i, double a, double b, double c) {
  double r = 0;
  switch ((Half_op)i.option) {
    case half_add:
      r = a + b;
      break;
    case half_sub:
      r = a - b;
      break;
    case half_mul:
      r = a * b;
      break;
    case half_fma:
      r = std::fma(a, b, c);
      break;
    case half_neg:
      return -a;
    case half_abs:
      return std::fabs(a);
    case half_min:
      r = i.nan && (a != a || b != b) ? NAN : std::fmin(a, b);
      break;
    case half_max:
      r = i.nan && (a != a || b != b) ? NAN : std::fmax(a, b);
      break;
    case half_ex2:
      r = std::exp2(a);
      break;
    case half_tanh:
      r = std::tanh(a);
      break;
  }
  if (i.saturate) r = r > 0 ? std::fmin(r, 1.0) : 0.0;
  if (i.relu) r = r > 0 ? r : (r != r ? r : 0.0);
  return r;
}

void run_half(Warp &w, const Instruction &i) {
  const bool bf16 = i.type.kind == Kind::bfloat;
  const unsigned halves = i.type.packed ? 2 : 1;
  each_lane(w.lanes, [&](unsigned l) {
    uint32_t r = 0;
    for (unsigned h = 0; h < halves; ++h) {
      double x[3] = {};
      for (unsigned k = 0; k < i.s_count; ++k) x[k] = decode_half((uint16_t)(w.value(i.s[k], l) >> (16 * h)), bf16);
      r |= (uint32_t)encode_half(compute(i, x[0], x[1], x[2]), bf16) << (16 * h);
    }
    w.set(i.d[0], l, r);
  });
}

}  // namespace

bool decode_half(Decoder &d) {
  static const struct {
    const char *mnemonic;
    unsigned sources;
  } ops[] = {{"add", 2}, {"sub", 2}, {"mul", 2}, {"fma", 3}, {"neg", 1}, {"abs", 1}, {"min", 2}, {"max", 2}, {"ex2", 1}, {"tanh", 1}};
  if (!(d.has("f16") || d.has("bf16") || d.has("f16x2") || d.has("bf16x2"))) return false;
  for (unsigned k = 0; k < sizeof ops / sizeof *ops; ++k)
    if (d.mnemonic() == ops[k].mnemonic) {
      Instruction &i = d.i;
      d.simple(ops[k].sources, d.type());
      i.option = (uint8_t)k;
      i.saturate = d.has("sat");
      i.relu = d.has("relu");
      i.nan = d.has("NaN");
      d.has("rn");
      if (k >= half_ex2) {
        d.has("approx");
        if (i.type.kind == Kind::bfloat) d.has("ftz");
      }
      i.run = run_half;
      return true;
    }
  return false;
}

}  // namespace sattn_sim
