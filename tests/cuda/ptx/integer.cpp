// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, neg, abs, sad and the
// carry forms.
#include "decoder.h"
#include "warp.h"

namespace sattn_sim {

namespace {

template <class V>
using Unsigned = std::make_unsigned_t<V>;
template <class V>
struct Wider;
template <>
struct Wider<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wider<int16_t> {
  using type = int32_t;
};
template <>
struct Wider<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wider<int32_t> {
  using type = int64_t;
};
template <>
struct Wider<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct Wider<int64_t> {
  using type = __int128;
};

// Wrapping arithmetic must not be signed C++ arithmetic.
template <class V>
V plus(V a, V b) {
  return (V)((Unsigned<V>)a + (Unsigned<V>)b);
}
template <class V>
V minus(V a, V b) {
  return (V)((Unsigned<V>)a - (Unsigned<V>)b);
}
template <class V>
V times(V a, V b) {
  return (V)((uint64_t)(Unsigned<V>)a * (uint64_t)(Unsigned<V>)b);
}
template <class V>
V high(V a, V b) {
  using W = typename Wider<V>::type;
  return (V)(((W)a * (W)b) >> (8 * sizeof(V)));
}

template <class V>
void add(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return plus(a, b); });
}
template <class V>
void sub(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return minus(a, b); });
}
template <class V>
void mul_lo(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return times(a, b); });
}
template <class V>
void mul_hi(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return high(a, b); });
}
template <class V>
void mad_lo(Warp &w, const Instruction &i) {
  map3<V>(w, i, [](V a, V b, V c) { return plus(times(a, b), c); });
}
template <class V>
void mad_hi(Warp &w, const Instruction &i) {
  map3<V>(w, i, [](V a, V b, V c) { return plus(high(a, b), c); });
}
template <class V>
void mul_wide(Warp &w, const Instruction &i) {
  using W = typename Wider<V>::type;
  map2<V, W>(w, i, [](V a, V b) { return (W)((W)a * (W)b); });
}
template <class V>
void mad_wide(Warp &w, const Instruction &i) {
  using W = typename Wider<V>::type;
  map3<V, W, W>(w, i, [](V a, V b, W c) { return plus((W)((W)a * (W)b), c); });
}
template <class V>
void minimum(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return b < a ? b : a; });
}
template <class V>
void maximum(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return a < b ? b : a; });
}
template <class V>
void negate(Warp &w, const Instruction &i) {
  map1<V>(w, i, [](V a) { return minus((V)0, a); });
}
template <class V>
void absolute(Warp &w, const Instruction &i) {
  map1<V>(w, i, [](V a) { return a < (V)0 ? minus((V)0, a) : a; });
}
template <class V>
void sad(Warp &w, const Instruction &i) {
  map3<V>(w, i, [](V a, V b, V c) { return plus(c, a < b ? minus(b, a) : minus(a, b)); });
}

// The hardware gives some number; a kernel that gets there has lost its way.
template <class V>
void divide(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) {
    const V a = Stored<V>::get(w.in<typename Stored<V>::S>(i.s[0])[l]), b = Stored<V>::get(w.in<typename Stored<V>::S>(i.s[1])[l]);
    if (!b) {
      state.thread = w.thread(l);
      fail("arithmetic", i.site, "integer division by zero");
    }
    const bool overflow = std::is_signed_v<V> && b == (V)-1;
    V r;
    if (i.option)
      r = overflow ? 0 : (V)(a % b);
    else
      r = overflow ? minus((V)0, a) : (V)(a / b);
    w.out<typename Stored<V>::S>(i.d[0])[l] = Stored<V>::put(r);
  });
}

// add.cc, addc, sub.cc, subc: option bit 0 takes the carry, bit 1 sets it, bit 2 subtracts.
template <class V>
void with_carry(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) {
    const bool subtract = i.option & 4;
    const V a = (V)w.value(i.s[0], l);
    const V b = subtract ? (V)~w.value(i.s[1], l) : (V)w.value(i.s[1], l);
    // a - b is a + ~b + 1; the flag holds the carry of that sum, the inverse of a borrow
    const V in = i.option & 1 ? (V)(w.carry >> l & 1) : (V)subtract;
    const unsigned __int128 sum = (unsigned __int128)a + b + in;
    w.set(i.d[0], l, (V)sum);
    if (i.option & 2) w.carry = (w.carry & ~(1u << l)) | (uint32_t)(sum >> (8 * sizeof(V)) & 1) << l;
  });
}

Handler pick(const Type &t, Handler u16, Handler s16, Handler u32, Handler s32, Handler u64, Handler s64) {
  const bool s = t.is_signed();
  return t.bits == 16 ? (s ? s16 : u16) : t.bits == 32 ? (s ? s32 : u32) : t.bits == 64 ? (s ? s64 : u64) : nullptr;
}
#define PICK(f, t) pick(t, f<uint16_t>, f<int16_t>, f<uint32_t>, f<int32_t>, f<uint64_t>, f<int64_t>)
Handler pick_wide(const Type &t, Handler u16, Handler s16, Handler u32, Handler s32) {
  return pick(t, u16, s16, u32, s32, nullptr, nullptr);
}
#define PICK_WIDE(f, t) pick_wide(t, f<uint16_t>, f<int16_t>, f<uint32_t>, f<int32_t>)

bool is_integer_form(const std::string &text) {
  // the last modifier is the type: .f32 and .pred belong to other families
  const std::string mnemonic = text.substr(0, text.find_first_of(" \t"));
  Type t;
  return parse_type(mnemonic.substr(mnemonic.rfind('.') + 1), t) && !t.is_float() && t.kind != Kind::predicate;
}

void decode_multiply(Decoder &d, bool add_third) {
  Instruction &i = d.i;
  i.type = d.type();
  const bool wide = d.has("wide"), hi = d.has("hi"), lo = d.has("lo");
  if (wide + hi + lo != 1) d.refuse("one of .lo, .hi, .wide is missing");
  if (!wide) {
    d.simple(add_third ? 3 : 2, i.type);
    i.run = add_third ? (hi ? PICK(mad_hi, i.type) : PICK(mad_lo, i.type)) : (hi ? PICK(mul_hi, i.type) : PICK(mul_lo, i.type));
    return;
  }
  i.d_count = 1;
  i.d[0] = d.destination(d.argument(0), i.type.bits * 2u);
  i.s[0] = d.source((size_t)1, i.type.bits);
  i.s[1] = d.source((size_t)2, i.type.bits);
  if (add_third) i.s[2] = d.source((size_t)3, i.type.bits * 2u);
  i.run = add_third ? PICK_WIDE(mad_wide, i.type) : PICK_WIDE(mul_wide, i.type);
}

void decode_carry(Decoder &d, const std::string &m) {
  Instruction &i = d.i;
  i.option = (uint8_t)((m == "addc" || m == "subc") | (d.has("cc") ? 2 : 0) | (m[0] == 's' ? 4 : 0));
  d.simple(2, d.type());
  i.run = i.type.bits == 64 ? with_carry<uint64_t> : with_carry<uint32_t>;
}

}  // namespace

bool decode_integer(Decoder &d) {
  static const char *mnemonics[] = {"add", "sub", "mul", "mad", "div", "rem", "min", "max", "neg", "abs", "sad", "addc", "subc"};
  const std::string &m = d.mnemonic();
  bool known = false;
  for (const char *k : mnemonics) known |= m == k;
  std::string text = d.text();
  if (text[0] == '@') text = trim(text.substr(text.find_first_of(" \t")));
  if (!known || !is_integer_form(text)) return false;
  Instruction &i = d.i;
  if (m == "mul" || m == "mad") {
    decode_multiply(d, m == "mad");
  } else if (m == "addc" || m == "subc" || d.has("cc")) {
    decode_carry(d, m);
  } else {
    const bool unary = m == "neg" || m == "abs";
    d.simple(unary ? 1 : m == "sad" ? 3 : 2, d.type());
    const Type &t = i.type;
    i.option = m == "rem";
    i.run = m == "add"   ? PICK(add, t)
            : m == "sub" ? PICK(sub, t)
            : m == "min" ? PICK(minimum, t)
            : m == "max" ? PICK(maximum, t)
            : m == "neg" ? PICK(negate, t)
            : m == "abs" ? PICK(absolute, t)
            : m == "sad" ? PICK(sad, t)
                         : PICK(divide, t);
  }
  if (!i.run) d.refuse("type not supported");
  return true;
}

}  // namespace sattn_sim
