// cvt and cvta.
#include "decoder.h"
#include "warp.h"

#include <cmath>

namespace sattn_sim {

namespace {

// The frequent integer conversions, without a switch in the loop.
template <class From, class To>
void integer(Warp &w, const Instruction &i) {
  const auto *a = w.in<typename Stored<From>::S>(i.s[0]);
  auto *d = w.out<typename Stored<To>::S>(i.d[0]);
  if (w.lanes == all_lanes) {
#pragma GCC ivdep
    for (unsigned l = 0; l < warp_size; ++l) d[l] = Stored<To>::put((To)Stored<From>::get(a[l]));
  } else {
    each_lane(w.lanes, [&](unsigned l) { d[l] = Stored<To>::put((To)Stored<From>::get(a[l])); });
  }
}

struct Value {
  bool is_float;
  double f;
  bool negative;  // of an integer
  uint64_t magnitude;
};

Value read(uint64_t raw, const Type &t) {
  Value v{t.is_float(), 0, false, 0};
  if (t.is_float()) {
    if (t.bits == 64) v.f = bits<double>(raw);
    if (t.bits == 32) v.f = bits<float>((uint32_t)raw);
    if (t.bits == 16) v.f = t.kind == Kind::bfloat ? bf16_to_float((uint16_t)raw) : half_to_float((uint16_t)raw);
    return v;
  }
  const uint64_t mask = t.bits == 64 ? ~0ull : (1ull << t.bits) - 1;
  raw &= mask;
  v.negative = t.is_signed() && raw >> (t.bits - 1);
  v.magnitude = v.negative ? (0 - raw) & mask : raw;
  return v;
}

double rounded_to_integer(double x, Rounding r) {
  switch (r) {
    case Rounding::zero:
      return std::trunc(x);
    case Rounding::down:
      return std::floor(x);
    case Rounding::up:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

// Out of range clamps, as the hardware does; NaN becomes 0.
uint64_t to_integer(double x, const Type &t) {
  if (x != x) return 0;
  const double top = std::ldexp(1.0, t.is_signed() ? t.bits - 1 : t.bits);
  if (t.is_signed()) {
    if (x >= top) return (uint64_t)((1ull << (t.bits - 1)) - 1);
    if (x < -top) return (uint64_t)0 - (1ull << (t.bits - 1));
    return (uint64_t)(int64_t)x;
  }
  if (x >= top) return t.bits == 64 ? ~0ull : (1ull << t.bits) - 1;
  return x < 0 ? 0 : (uint64_t)x;
}

uint64_t saturated_integer(const Value &v, const Type &t) {
  const uint64_t signed_top = (1ull << (t.bits - 1)) - 1, unsigned_top = t.bits == 64 ? ~0ull : (1ull << t.bits) - 1;
  if (!t.is_signed()) return v.negative ? 0 : std::min(v.magnitude, unsigned_top);
  if (v.negative) return 0 - std::min(v.magnitude, signed_top + 1);
  return std::min(v.magnitude, signed_top);
}

// One rounding from an exact value (integer or double) to float.
float to_float(const Value &v, Rounding r) {
  const long double exact = v.is_float ? (long double)v.f : v.negative ? -(long double)v.magnitude : (long double)v.magnitude;
  float f = (float)exact;
  if (r == Rounding::nearest || exact != exact || (long double)f == exact) return f;
  const bool above = (long double)f > exact;
  if (above && (r == Rounding::down || (r == Rounding::zero && exact > 0))) f = std::nextafterf(f, -INFINITY);
  if (!above && (r == Rounding::up || (r == Rounding::zero && exact < 0))) f = std::nextafterf(f, INFINITY);
  return f;
}

uint16_t to_half(const Value &v, const Instruction &i) {
  double x = v.is_float ? v.f : v.negative ? -(double)v.magnitude : (double)v.magnitude;
  if (i.relu && !(x > 0) && x == x) x = 0;
  if (i.saturate) x = x > 0 ? std::fmin(x, 1.0) : 0;
  if (i.type.kind == Kind::floating) {
    if (i.rounding == Rounding::zero) return float_to_half((float)x, true);
    return double_to_half(x);
  }
  return float_to_bf16((float)x, i.rounding == Rounding::zero);
}

uint64_t convert_one(const Instruction &i, uint64_t raw) {
  Value v = read(raw, i.type2);
  const Type &to = i.type;
  if (v.is_float && i.ftz && i.type2.bits == 32) v.f = flush((float)v.f);
  if (!to.is_float()) {
    if (v.is_float) return to_integer(rounded_to_integer(v.f, i.rounding), to);
    if (i.saturate) return saturated_integer(v, to);
    const uint64_t value = v.negative ? 0 - v.magnitude : v.magnitude;
    if (to.bits == 64) return value;
    const uint64_t low = value & ((1ull << to.bits) - 1);
    return to.is_signed() && low >> (to.bits - 1) ? low | ~0ull << to.bits : low;
  }
  // .rni and the like on floats: round to a whole number and stay a float
  if (i.option) v.f = rounded_to_integer(v.f, i.rounding);
  if (to.bits == 16) return to_half(v, i);
  if (to.bits == 64) return bits<uint64_t>(v.is_float ? v.f : v.negative ? -(double)v.magnitude : (double)v.magnitude);
  float f = to_float(v, i.option ? Rounding::nearest : i.rounding);
  if (i.ftz) f = flush(f);
  if (i.saturate) f = f > 0 ? std::fmin(f, 1.0f) : 0.0f;
  return bits<uint32_t>(f);
}

void convert(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) { w.set(i.d[0], l, convert_one(i, w.value(i.s[0], l))); });
}

template <bool bf16>
void from_half(Warp &w, const Instruction &i) {
  map1<uint32_t>(w, i, [](uint32_t h) { return bits<uint32_t>(bf16 ? bf16_to_float((uint16_t)h) : half_to_float((uint16_t)h)); });
}

// d = {a, b}: the first source goes into the upper half.
void convert_pair(Warp &w, const Instruction &i) {
  Instruction half = i;
  half.type.packed = false;
  half.type.bits = 16;
  each_lane(w.lanes, [&](unsigned l) {
    uint32_t r = 0;
    for (unsigned k = 0; k < 2; ++k) r = r << 16 | to_half(read(w.value(i.s[k], l), i.type2), half);
    w.set(i.d[0], l, r);
  });
}

Handler fast_integer(const Instruction &i) {
  const Type &to = i.type, &from = i.type2;
  if (i.s[0].bits != from.bits || i.d[0].bits != to.bits || i.saturate) return nullptr;
  if (from.bits == 32 && to.bits == 64) return from.is_signed() ? integer<int32_t, int64_t> : integer<uint32_t, uint64_t>;
  if (from.bits == 64 && to.bits == 32) return integer<uint64_t, uint32_t>;
  if (from.bits == 16 && to.bits == 32) return from.is_signed() ? integer<int16_t, int32_t> : integer<uint16_t, uint32_t>;
  if (from.bits == 32 && to.bits == 16) return integer<uint32_t, uint16_t>;
  if (from.bits == 16 && to.bits == 64) return from.is_signed() ? integer<int16_t, int64_t> : integer<uint16_t, uint64_t>;
  return nullptr;
}

void decode_cvt(Decoder &d) {
  Instruction &i = d.i;
  i.type = d.type();
  i.type2 = d.type();
  i.ftz = d.has("ftz");
  i.saturate = d.has("sat");
  i.relu = d.has("relu");
  i.option = d.has("rni") || d.has("rzi") || d.has("rmi") || d.has("rpi");
  i.rounding = d.rounding();
  i.d_count = 1;
  i.d[0] = d.destination(d.argument(0), 0);
  if (i.type.packed) {
    if (d.arguments() != 3 || i.type2.bits != 32 || i.type2.packed) d.refuse("conversion to a pair");
    i.s[0] = d.source((size_t)1, 32);
    i.s[1] = d.source((size_t)2, 32);
    i.run = convert_pair;
    return;
  }
  if (d.arguments() != 2) d.refuse("wrong number of operands");
  uint64_t number;
  const bool immediate = parse_number(d.argument(1), i.type2.bits, number);
  i.s[0] = d.source((size_t)1, immediate ? i.type2.bits : 0);
  const bool integers = !i.type.is_float() && !i.type2.is_float();
  i.run = integers ? fast_integer(i) : nullptr;
  if (i.type.bits == 32 && i.type2.bits == 16 && i.type.is_float() && i.type2.is_float() && !i.saturate && !i.option)
    i.run = i.type2.kind == Kind::bfloat ? from_half<true> : from_half<false>;
  if (!i.run) i.run = convert;
}

template <class V>
void to_generic(Warp &w, const Instruction &i) {
  map1<V>(w, i, [&](V a) { return (V)(a | i.number); });
}
template <class V>
void from_generic(Warp &w, const Instruction &i) {
  map1<V>(w, i, [&](V a) { return (V)(a & ~i.number); });
}

void decode_cvta(Decoder &d) {
  Instruction &i = d.i;
  const bool to_space = d.has("to");
  if (d.has("shared") || d.has("shared::cta"))
    i.number = shared_window;
  else if (d.has("local"))
    i.number = local_window;
  else if (d.has("param"))
    i.number = parameter_window;
  else if (!d.has("global") && !d.has("const"))
    d.refuse("unknown state space");
  const Type t = d.type();
  if (t.bits != 64) d.refuse("only 64-bit addresses");
  const auto local = d.scope.locals.find(d.argument(1));
  if (local != d.scope.locals.end()) d.refuse("the address of a local variable must come through a register");
  d.simple(1, t);
  i.run = to_space ? from_generic<uint64_t> : to_generic<uint64_t>;
}

}  // namespace

bool decode_convert(Decoder &d) {
  if (d.mnemonic() == "cvt")
    decode_cvt(d);
  else if (d.mnemonic() == "cvta")
    decode_cvta(d);
  else
    return false;
  return true;
}

}  // namespace sattn_sim
