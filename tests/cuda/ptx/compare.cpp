// setp, set and testp.
#include "decoder.h"
#include "warp.h"

#include <cmath>

namespace sattn_sim {

namespace {

enum class Test : uint8_t { eq, ne, lt, le, gt, ge, num, nan };

// `unordered`: what the comparison says when one side is NaN.
template <Test test, class V>
bool holds(V a, V b, bool unordered) {
  if constexpr (std::is_floating_point_v<V>) {
    if (test == Test::num) return a == a && b == b;
    if (test == Test::nan) return a != a || b != b;
    if (a != a || b != b) return unordered;
  }
  switch (test) {
    case Test::eq:
      return a == b;
    case Test::ne:
      return a != b;
    case Test::lt:
      return a < b;
    case Test::le:
      return a <= b;
    case Test::gt:
      return a > b;
    default:
      return a >= b;
  }
}

// The result lands in d[0], its opposite in d[1]; s[2] may be joined to both by
// and, or, xor (option 1, 2, 3).
void finish(Warp &w, const Instruction &i, uint32_t result) {
  const uint32_t c = i.option ? w.predicate(i.s[2]) : 0;
  auto joined = [&](uint32_t p) { return i.option == 1 ? p & c : i.option == 2 ? p | c : i.option == 3 ? p ^ c : p; };
  w.set_predicate(i.d[0], joined(result));
  w.set_predicate(i.d[1], joined(~result));
}

template <Test test, class V, bool ftz>
void compare(Warp &w, const Instruction &i) {
  using S = typename Stored<V>::S;
  const S *a = w.in<S>(i.s[0]), *b = w.in<S>(i.s[1]);
  const bool unordered = i.nan;
  uint32_t result = 0;
  for (unsigned l = 0; l < warp_size; ++l) {
    V x = Stored<V>::get(a[l]), y = Stored<V>::get(b[l]);
    if constexpr (ftz) {
      x = flush(x);
      y = flush(y);
    }
    result |= (uint32_t)holds<test>(x, y, unordered) << l;
  }
  finish(w, i, result);
}

template <Test test>
void compare_half(Warp &w, const Instruction &i) {
  uint32_t result = 0;
  const bool bf16 = i.type.kind == Kind::bfloat;
  each_lane(w.lanes, [&](unsigned l) {
    auto f = [&](const Operand &o) {
      const uint16_t h = (uint16_t)w.value(o, l);
      return bf16 ? bf16_to_float(h) : half_to_float(h);
    };
    result |= (uint32_t)holds<test>(f(i.s[0]), f(i.s[1]), i.nan) << l;
  });
  finish(w, i, result);
}

template <Test test>
Handler pick(const Type &t, bool ftz) {
  if (t.is_float()) {
    if (t.bits == 16) return compare_half<test>;
    if (t.bits == 64) return compare<test, double, false>;
    return ftz ? compare<test, float, true> : compare<test, float, false>;
  }
  const bool s = t.is_signed();
  if (t.bits == 16) return s ? compare<test, int16_t, false> : compare<test, uint16_t, false>;
  if (t.bits == 32) return s ? compare<test, int32_t, false> : compare<test, uint32_t, false>;
  return s ? compare<test, int64_t, false> : compare<test, uint64_t, false>;
}

Handler pick(Test test, const Type &t, bool ftz) {
  switch (test) {
    case Test::eq:
      return pick<Test::eq>(t, ftz);
    case Test::ne:
      return pick<Test::ne>(t, ftz);
    case Test::lt:
      return pick<Test::lt>(t, ftz);
    case Test::le:
      return pick<Test::le>(t, ftz);
    case Test::gt:
      return pick<Test::gt>(t, ftz);
    case Test::ge:
      return pick<Test::ge>(t, ftz);
    case Test::num:
      return pick<Test::num>(t, ftz);
    default:
      return pick<Test::nan>(t, ftz);
  }
}

struct Comparison {
  const char *name;
  Test test;
  bool unordered;
};
const Comparison comparisons[] = {{"eq", Test::eq, false},   {"ne", Test::ne, false},  {"lt", Test::lt, false}, {"le", Test::le, false},
                                  {"gt", Test::gt, false},   {"ge", Test::ge, false},  {"lo", Test::lt, false}, {"ls", Test::le, false},
                                  {"hi", Test::gt, false},   {"hs", Test::ge, false},  {"equ", Test::eq, true}, {"neu", Test::ne, true},
                                  {"ltu", Test::lt, true},   {"leu", Test::le, true},  {"gtu", Test::gt, true}, {"geu", Test::ge, true},
                                  {"num", Test::num, false}, {"nan", Test::nan, false}};

const Comparison &comparison(Decoder &d) {
  for (const Comparison &c : comparisons)
    if (d.has(c.name)) return c;
  d.refuse("unknown comparison");
}

template <class V>
bool holds(Test test, V a, V b, bool unordered) {
  switch (test) {
    case Test::eq:
      return holds<Test::eq>(a, b, unordered);
    case Test::ne:
      return holds<Test::ne>(a, b, unordered);
    case Test::lt:
      return holds<Test::lt>(a, b, unordered);
    case Test::le:
      return holds<Test::le>(a, b, unordered);
    case Test::gt:
      return holds<Test::gt>(a, b, unordered);
    case Test::ge:
      return holds<Test::ge>(a, b, unordered);
    case Test::num:
      return holds<Test::num>(a, b, unordered);
    default:
      return holds<Test::nan>(a, b, unordered);
  }
}

// set writes all ones, or 1.0 for a float destination.
void set_value(Warp &w, const Instruction &i) {
  const Test test = (Test)i.count;
  each_lane(w.lanes, [&](unsigned l) {
    const uint32_t a = (uint32_t)w.value(i.s[0], l), b = (uint32_t)w.value(i.s[1], l);
    bool r;
    if (i.type2.is_float())
      r = holds(test, bits<float>(a), bits<float>(b), i.nan);
    else if (i.type2.is_signed())
      r = holds(test, (int32_t)a, (int32_t)b, i.nan);
    else
      r = holds(test, a, b, i.nan);
    w.set(i.d[0], l, !r ? 0u : i.type.is_float() ? 0x3f800000u : 0xffffffffu);
  });
}

void test_property(Warp &w, const Instruction &i) {
  uint32_t result = 0;
  each_lane(w.lanes, [&](unsigned l) {
    const float x = bits<float>((uint32_t)w.value(i.s[0], l));
    const bool r[] = {std::isfinite(x), std::isinf(x), !std::isnan(x), std::isnan(x), std::isnormal(x), std::fpclassify(x) == FP_SUBNORMAL};
    result |= (uint32_t)r[i.count] << l;
  });
  w.set_predicate(i.d[0], result);
}

void decode_setp(Decoder &d) {
  Instruction &i = d.i;
  const Comparison &c = comparison(d);
  i.option = d.has("and") ? 1 : d.has("or") ? 2 : d.has("xor") ? 3 : 0;
  i.ftz = d.has("ftz");
  i.nan = c.unordered;
  i.type = d.type();
  const auto to = d.pair(0);
  i.d[0] = d.destination(to.first, 1);
  i.d[1] = d.destination(to.second, 1);
  if (d.arguments() != (i.option ? 4u : 3u)) d.refuse("wrong number of operands");
  for (size_t k = 0; k < 2; ++k) i.s[k] = d.source(k + 1, i.type.bits);
  if (i.option) i.s[2] = d.predicate(d.argument(3));
  i.run = pick(c.test, i.type, i.ftz);
}

}  // namespace

bool decode_compare(Decoder &d) {
  Instruction &i = d.i;
  if (d.mnemonic() == "setp") {
    decode_setp(d);
  } else if (d.mnemonic() == "set") {
    const Comparison &c = comparison(d);
    i.count = (uint8_t)c.test;
    i.nan = c.unordered;
    i.type = d.type();
    i.type2 = d.type();
    if (i.type.bits != 32 || i.type2.bits != 32) d.refuse("only 32-bit set");
    i.d[0] = d.destination(d.argument(0), 32);
    for (size_t k = 0; k < 2; ++k) i.s[k] = d.source(k + 1, 32);
    i.run = set_value;
  } else if (d.mnemonic() == "testp") {
    static const char *names[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    bool known = false;
    for (uint8_t k = 0; k < 6; ++k)
      if (d.has(names[k])) {
        i.count = k;
        known = true;
      }
    i.type = d.type();
    if (!known || i.type.bits != 32) d.refuse("unknown property");
    i.d[0] = d.destination(d.argument(0), 1);
    i.s[0] = d.source((size_t)1, 32);
    i.run = test_property;
  } else {
    return false;
  }
  return true;
}

}  // namespace sattn_sim
