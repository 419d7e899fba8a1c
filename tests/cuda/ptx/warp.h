// A warp in execution. Lanes that run together form a group; a frame is one call of a
// function by a group, with its registers.
#ifndef SATTN_SIM_PTX_WARP_H
#define SATTN_SIM_PTX_WARP_H

#include "number.h"
#include "program.h"

namespace sattn_sim {

struct Frame {
  const Function *function;
  std::vector<uint32_t> registers;
  std::vector<unsigned char> parameters;  // parameter_bytes of each lane
  uint64_t local_base = 0;
  unsigned depth = 0;
  uint32_t lanes = 0;
  Frame *parent = nullptr;
  uint32_t return_to = 0;
  const Instruction *call = nullptr;
  unsigned char *parameter(unsigned lane) { return parameters.data() + (size_t)lane * function->parameter_bytes; }
};

struct Group {
  Frame *frame;
  uint32_t pc, lanes;
};
struct Gathered {
  Group group;
  uint32_t mask;
};
struct At_barrier {
  Group group;
  unsigned id;
};

struct Warp {
  unsigned index = 0;
  const Module *module = nullptr;
  uint32_t alive = 0;
  std::vector<Group> runnable;
  std::vector<Gathered> gathering;
  std::vector<At_barrier> at_barrier;
  std::vector<std::unique_ptr<Frame>> frames;
  std::vector<uint32_t> block_area;  // special registers and addresses of shared variables
  std::vector<unsigned char> local[warp_size];
  uint32_t carry = 0;  // the condition code's carry, a bit a lane
  uint64_t woken = 0;  // when it last became runnable, for lifo

  // The instruction at hand:
  Frame *frame = nullptr;
  uint32_t lanes = 0;
  const uint32_t *base[4] = {};

  void enter(Frame *f) {
    frame = f;
    base[(int)Base::frame] = f->registers.data();
    base[(int)Base::constant] = f->function->constants.data();
    base[(int)Base::block] = block_area.data();
  }
  unsigned thread(unsigned lane) const { return index * warp_size + lane; }

  template <class S>
  const S *in(const Operand &o) const {
    return (const S *)(base[(int)o.base] + (size_t)o.slot * warp_size);
  }
  template <class S>
  S *out(const Operand &o) const {
    return (S *)(frame->registers.data() + (size_t)o.slot * warp_size);
  }
  uint32_t predicate(const Operand &o) const {
    if (o.base == Base::none) return all_lanes;
    const uint32_t p = base[(int)o.base][(size_t)o.slot * warp_size];
    return o.negated ? ~p : p;
  }
  void set_predicate(const Operand &o, uint32_t value) const {
    if (o.base == Base::none) return;
    uint32_t &p = frame->registers[(size_t)o.slot * warp_size];
    p = (p & ~lanes) | (value & lanes);
  }
  // Any register as 64 bits, zero-extended; for what is not worth a fast path.
  uint64_t value(const Operand &o, unsigned lane) const {
    if (o.bits == 1) return predicate(o) >> lane & 1;
    return o.bits == 64 ? in<uint64_t>(o)[lane] : in<uint32_t>(o)[lane];
  }
  void set(const Operand &o, unsigned lane, uint64_t v) const {
    if (o.base == Base::none) return;
    if (o.bits == 64)
      out<uint64_t>(o)[lane] = v;
    else
      out<uint32_t>(o)[lane] = o.bits == 16 ? (uint16_t)v : (uint32_t)v;
  }
};

template <class F>
inline void each_lane(uint32_t lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f((unsigned)__builtin_ctz(lanes));
}

// How a value type lies in a register: S is the word, V what is computed with.
template <class V>
struct Stored {
  using S = std::conditional_t<sizeof(V) == 8, uint64_t, uint32_t>;
  static V get(S s) {
    if constexpr (std::is_same_v<V, float>)
      return bits<float>(s);
    else if constexpr (std::is_same_v<V, double>)
      return bits<double>(s);
    else
      return (V)s;
  }
  static S put(V v) {
    if constexpr (std::is_same_v<V, float>)
      return bits<uint32_t>(v);
    else if constexpr (std::is_same_v<V, double>)
      return bits<uint64_t>(v);
    else
      return (S)(std::make_unsigned_t<V>)v;
  }
};

// d = f(a, b, c) for all lanes at work. Destination and source may be the same
// register but never overlap otherwise, so the loop may be vectorised.
template <class V, class R = V, class F>
inline void map1(Warp &w, const Instruction &i, F f) {
  const auto *a = w.in<typename Stored<V>::S>(i.s[0]);
  auto *d = w.out<typename Stored<R>::S>(i.d[0]);
  if (w.lanes == all_lanes) {
#pragma GCC ivdep
    for (unsigned l = 0; l < warp_size; ++l) d[l] = Stored<R>::put(f(Stored<V>::get(a[l])));
  } else {
    each_lane(w.lanes, [&](unsigned l) { d[l] = Stored<R>::put(f(Stored<V>::get(a[l]))); });
  }
}
template <class V, class R = V, class F>
inline void map2(Warp &w, const Instruction &i, F f) {
  const auto *a = w.in<typename Stored<V>::S>(i.s[0]), *b = w.in<typename Stored<V>::S>(i.s[1]);
  auto *d = w.out<typename Stored<R>::S>(i.d[0]);
  if (w.lanes == all_lanes) {
#pragma GCC ivdep
    for (unsigned l = 0; l < warp_size; ++l) d[l] = Stored<R>::put(f(Stored<V>::get(a[l]), Stored<V>::get(b[l])));
  } else {
    each_lane(w.lanes, [&](unsigned l) { d[l] = Stored<R>::put(f(Stored<V>::get(a[l]), Stored<V>::get(b[l]))); });
  }
}
template <class V, class C = V, class R = V, class F>
inline void map3(Warp &w, const Instruction &i, F f) {
  const auto *a = w.in<typename Stored<V>::S>(i.s[0]), *b = w.in<typename Stored<V>::S>(i.s[1]);
  const auto *c = w.in<typename Stored<C>::S>(i.s[2]);
  auto *d = w.out<typename Stored<R>::S>(i.d[0]);
  if (w.lanes == all_lanes) {
#pragma GCC ivdep
    for (unsigned l = 0; l < warp_size; ++l) d[l] = Stored<R>::put(f(Stored<V>::get(a[l]), Stored<V>::get(b[l]), Stored<C>::get(c[l])));
  } else {
    each_lane(w.lanes, [&](unsigned l) { d[l] = Stored<R>::put(f(Stored<V>::get(a[l]), Stored<V>::get(b[l]), Stored<C>::get(c[l]))); });
  }
}

}  // namespace sattn_sim
#endif
