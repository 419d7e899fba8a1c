// atom and red on global and shared memory.
#include "decoder.h"
#include "global_memory.h"
#include "memory.h"
#include "shared_memory.h"

namespace sattn_sim {

namespace {

enum Atomic_op { atomic_add, atomic_min, atomic_max, atomic_and, atomic_or, atomic_xor, atomic_exch, atomic_cas, atomic_inc, atomic_dec };

template <class V>
V combined(const Instruction &i, V old, V b, V c) {
  switch ((Atomic_op)i.option) {
    case atomic_add:
      return (V)(old + b);
    case atomic_min:
      return b < old ? b : old;
    case atomic_max:
      return old < b ? b : old;
    case atomic_exch:
      return b;
    case atomic_cas:
      return old == b ? c : old;
    default:
      break;
  }
  if constexpr (std::is_integral_v<V>) {
    switch ((Atomic_op)i.option) {
      case atomic_and:
        return old & b;
      case atomic_or:
        return old | b;
      case atomic_xor:
        return old ^ b;
      case atomic_inc:
        return old >= b ? (V)0 : (V)(old + 1);
      case atomic_dec:
        return old == 0 || old > b ? b : (V)(old - 1);
      default:
        break;
    }
  }
  return old;
}

template <class V>
void run_atomic(Warp &w, const Instruction &i) {
  using S = typename Stored<V>::S;
  each_lane(w.lanes, [&](unsigned l) {
    const unsigned thread = state.thread = w.thread(l);
    const Place p = place(w, i, i.address, i.offset, i.space, l);
    const V b = Stored<V>::get((S)w.value(i.s[0], l)), c = i.s_count > 1 ? Stored<V>::get((S)w.value(i.s[1], l)) : V();
    V old;
    auto next = [&](V x) {
      // unsigned sums must wrap; signed ones are computed as unsigned
      return combined(i, x, b, c);
    };
    if (p.space == Space::shared) {
      old = shared_atomic<V>(thread, (uint32_t)p.address, i.site, next);
    } else if (p.space == Space::global) {
      global_atomic_check(thread, (const void *)p.address, sizeof(V), i.site);
      memcpy(&old, (const void *)p.address, sizeof old);
      const V value = next(old);
      memcpy((void *)p.address, &value, sizeof value);
    } else {
      fail("unsupported", i.site, "an atomic on memory that is neither global nor shared");
    }
    if (i.d_count) w.set(i.d[0], l, Stored<V>::put(old));
  });
}

Handler pick(const Type &t, int op) {
  if (t.is_float()) {
    if (op != atomic_add || t.packed || t.bits < 32) return nullptr;
    return t.bits == 64 ? run_atomic<double> : run_atomic<float>;
  }
  // sums wrap alike for both kinds, and C++ only lets unsigned ones
  const bool s = t.is_signed() && (op == atomic_min || op == atomic_max);
  if (t.bits == 64) return s ? run_atomic<int64_t> : run_atomic<uint64_t>;
  if (t.bits == 32) return s ? run_atomic<int32_t> : run_atomic<uint32_t>;
  return nullptr;
}

}  // namespace

bool decode_atomic(Decoder &d) {
  const bool returns = d.mnemonic() == "atom";
  if (!returns && d.mnemonic() != "red") return false;
  Instruction &i = d.i;
  i.space = d.has("global") ? Space::global : d.has("shared") || d.has("shared::cta") ? Space::shared : Space::generic;
  d.ignore_hints();
  static const char *names[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
  int op = -1;
  for (int k = 0; k < 10; ++k)
    if (d.has(names[k])) op = k;
  if (op < 0) d.refuse("unknown atomic");
  i.option = (uint8_t)op;
  i.type = d.type();
  d.has("ftz");
  const size_t first = returns ? 1 : 0;
  i.d_count = returns;
  if (returns) i.d[0] = d.destination(d.argument(0), i.type.bits);
  d.address(first, i.address, i.offset, i.space);
  i.s_count = op == atomic_cas ? 2 : 1;
  if (d.arguments() != first + 1 + i.s_count) d.refuse("wrong number of operands");
  for (size_t k = 0; k < i.s_count; ++k) i.s[k] = d.source(first + 1 + k, i.type.bits);
  i.run = pick(i.type, op);
  if (!i.run) d.refuse("type of the atomic");
  return true;
}

}  // namespace sattn_sim
