// f32 and f64 arithmetic. Approximations (ex2, lg2, rcp, tanh ...) give the correctly
// rounded value of the host's library: the hardware's last bits are not modelled.
#include "decoder.h"
#include "warp.h"

#include <cfenv>
#include <cmath>

namespace sattn_sim {

namespace {

enum class Op : uint8_t { add, sub, mul, fma, div, neg, abs, min, max, sqrt, rsqrt, rcp, ex2, lg2, tanh, sin, cos, copysign };

template <bool ftz, class V>
V flushed(V x) {
  if constexpr (ftz && std::is_same_v<V, float>) return flush(x);
  return x;
}
template <class V>
V lesser(V a, V b) {
  if (a != a) return b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;  // -0 is less than +0
}
template <class V>
V greater(V a, V b) {
  if (a != a) return b;
  if (b != b) return a;
  return a > b || (a == b && !std::signbit(a)) ? a : b;
}

template <Op op, class V>
V compute(V a, V b, V c) {
  switch (op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::fma:
      return std::fma(a, b, c);
    case Op::div:
      return a / b;
    case Op::neg:
      return -a;
    case Op::abs:
      return std::fabs(a);
    case Op::min:
      return lesser(a, b);
    case Op::max:
      return greater(a, b);
    case Op::sqrt:
      return std::sqrt(a);
    case Op::rsqrt:
      return 1 / std::sqrt(a);
    case Op::rcp:
      return 1 / a;
    case Op::ex2:
      return std::exp2(a);
    case Op::lg2:
      return std::log2(a);
    case Op::tanh:
      return std::tanh(a);
    case Op::sin:
      return std::sin(a);
    case Op::cos:
      return std::cos(a);
    case Op::copysign:
      return std::copysign(b, a);
  }
}

constexpr unsigned arity(Op op) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::min:
    case Op::max:
    case Op::copysign:
      return 2;
    case Op::fma:
      return 3;
    default:
      return 1;
  }
}

template <Op op, class V, bool ftz>
void fast(Warp &w, const Instruction &i) {
  // negation and sign copies move bits; only arithmetic flushes
  auto f = [](V a, V b, V c) { return flushed<ftz>(compute<op>(flushed<ftz>(a), flushed<ftz>(b), flushed<ftz>(c))); };
  if constexpr (arity(op) == 1)
    map1<V>(w, i, [&](V a) { return f(a, a, a); });
  else if constexpr (arity(op) == 2)
    map2<V>(w, i, [&](V a, V b) { return f(a, b, a); });
  else
    map3<V>(w, i, [&](V a, V b, V c) { return f(a, b, c); });
}

// With .sat, a directed rounding or .NaN. Volatile keeps the compiler from moving the
// operation out of the rounding mode.
template <Op op, class V>
V careful(const Instruction &i, V a, V b, V c) {
  if (i.ftz) {
    a = flushed<true>(a);
    b = flushed<true>(b);
    c = flushed<true>(c);
  }
  const int mode = i.rounding == Rounding::zero   ? FE_TOWARDZERO
                   : i.rounding == Rounding::down ? FE_DOWNWARD
                   : i.rounding == Rounding::up   ? FE_UPWARD
                                                  : FE_TONEAREST;
  fesetround(mode);
  volatile V va = a, vb = b, vc = c;
  volatile V r = compute<op>((V)va, (V)vb, (V)vc);
  fesetround(FE_TONEAREST);
  V result = r;
  if (i.ftz) result = flushed<true>(result);
  if (i.nan && (a != a || b != b)) result = std::numeric_limits<V>::quiet_NaN();
  if (i.saturate) result = result > 0 ? (result < 1 ? result : (V)1) : (V)0;  // NaN becomes 0
  return result;
}

template <Op op, class V>
void slow(Warp &w, const Instruction &i) {
  using S = typename Stored<V>::S;
  each_lane(w.lanes, [&](unsigned l) {
    V x[3] = {};
    for (unsigned k = 0; k < arity(op); ++k) x[k] = Stored<V>::get(w.in<S>(i.s[k])[l]);
    w.out<S>(i.d[0])[l] = Stored<V>::put(careful<op>(i, x[0], x[1], x[2]));
  });
}

struct Entry {
  const char *mnemonic;
  unsigned sources;
  Handler f32, f32_ftz, f32_slow, f64, f64_slow;
};
#define ENTRY(name, op) \
  { name, arity(op), fast<op, float, false>, fast<op, float, true>, slow<op, float>, fast<op, double, false>, slow<op, double> }
const Entry table[] = {ENTRY("add", Op::add), ENTRY("sub", Op::sub), ENTRY("mul", Op::mul),          ENTRY("fma", Op::fma),
                       ENTRY("mad", Op::fma), ENTRY("div", Op::div), ENTRY("neg", Op::neg),          ENTRY("abs", Op::abs),
                       ENTRY("min", Op::min), ENTRY("max", Op::max), ENTRY("sqrt", Op::sqrt),        ENTRY("rsqrt", Op::rsqrt),
                       ENTRY("rcp", Op::rcp), ENTRY("ex2", Op::ex2), ENTRY("lg2", Op::lg2),          ENTRY("tanh", Op::tanh),
                       ENTRY("sin", Op::sin), ENTRY("cos", Op::cos), ENTRY("copysign", Op::copysign)};
#undef ENTRY

}  // namespace

bool decode_floating(Decoder &d) {
  const Entry *e = nullptr;
  for (const Entry &x : table)
    if (d.mnemonic() == x.mnemonic) e = &x;
  if (!e || !(d.has("f32") || d.has("f64"))) return false;
  Instruction &i = d.i;
  const Type t = d.type();
  d.simple(e->sources, t);
  i.ftz = d.has("ftz");
  i.saturate = d.has("sat");
  i.nan = d.has("NaN");
  i.rounding = d.rounding();
  const std::string m = e->mnemonic;
  if (m == "div" || m == "rcp" || m == "sqrt" || m == "rsqrt" || m == "ex2" || m == "lg2" || m == "tanh" || m == "sin" || m == "cos") {
    d.has("approx");
    d.has("full");
  }
  const bool careful = i.saturate || i.nan || i.rounding != Rounding::nearest;
  if (t.bits == 64)
    i.run = careful ? e->f64_slow : e->f64;
  else
    i.run = careful ? e->f32_slow : i.ftz ? e->f32_ftz : e->f32;
  return true;
}

}  // namespace sattn_sim
