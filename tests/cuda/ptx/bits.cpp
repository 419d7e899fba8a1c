// Bits: logic on integers and predicates, shifts, fields, permutes, counts, moves.
#include "decoder.h"
#include "warp.h"

namespace sattn_sim {

namespace {

template <class V>
void bit_and(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return (V)(a & b); });
}
template <class V>
void bit_or(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return (V)(a | b); });
}
template <class V>
void bit_xor(Warp &w, const Instruction &i) {
  map2<V>(w, i, [](V a, V b) { return (V)(a ^ b); });
}
template <class V>
void bit_not(Warp &w, const Instruction &i) {
  map1<V>(w, i, [](V a) { return (V)~a; });
}
template <class V>
void move(Warp &w, const Instruction &i) {
  map1<V>(w, i, [](V a) { return a; });
}

void predicate_logic(Warp &w, const Instruction &i) {
  const uint32_t a = w.predicate(i.s[0]), b = i.s_count > 1 ? w.predicate(i.s[1]) : 0;
  const uint32_t results[] = {a & b, a | b, a ^ b, ~a, a};
  w.set_predicate(i.d[0], results[i.option]);
}

// Shift counts are 32-bit and clamp at the width.
template <class V>
void shift(Warp &w, const Instruction &i) {
  using S = typename Stored<V>::S;
  const S *a = w.in<S>(i.s[0]);
  const uint32_t *n = w.in<uint32_t>(i.s[1]);
  S *d = w.out<S>(i.d[0]);
  constexpr unsigned width = 8 * sizeof(V);
  const bool left = i.option;
  each_lane(w.lanes, [&](unsigned l) {
    const V v = (V)a[l];
    const uint32_t by = n[l];
    V r;
    if (left)
      r = by >= width ? (V)0 : (V)((std::make_unsigned_t<V>)v << by);
    else
      r = by >= width ? (V)(v < 0 ? -1 : 0) : (V)(v >> by);
    d[l] = Stored<V>::put(r);
  });
}

// shf: 64-bit b:a, shifted by c; option bit 0 left, bit 1 wrap
void funnel(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) {
    const uint32_t a = (uint32_t)w.value(i.s[0], l), b = (uint32_t)w.value(i.s[1], l), c = (uint32_t)w.value(i.s[2], l);
    const uint32_t by = i.option & 2 ? c & 31 : std::min(c, 32u);
    const uint64_t both = (uint64_t)b << 32 | a;
    w.set(i.d[0], l, i.option & 1 ? (uint32_t)((both << by) >> 32) : (uint32_t)(both >> by));
  });
}

void lop3(Warp &w, const Instruction &i) {
  const uint32_t table = (uint32_t)i.number;
  map3<uint32_t>(w, i, [table](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; ++k)
      if (table >> k & 1) r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
  });
}

void permute(Warp &w, const Instruction &i) {
  map3<uint32_t>(w, i, [](uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const uint32_t s = selector >> (4 * k);
      uint32_t byte = (uint32_t)(both >> (8 * (s & 7)) & 0xff);
      if (s & 8) byte = byte & 0x80 ? 0xff : 0;  // the sign, replicated
      r |= byte << (8 * k);
    }
    return r;
  });
}

template <class V>
void extract_field(Warp &w, const Instruction &i) {
  constexpr int width = 8 * sizeof(V);
  each_lane(w.lanes, [&](unsigned l) {
    const V a = (V)w.value(i.s[0], l);
    const int position = (int)(w.value(i.s[1], l) & 0xff), length = (int)(w.value(i.s[2], l) & 0xff);
    const bool is_signed = std::is_signed_v<V>;
    const int top = std::min(position + length - 1, width - 1);
    const V sign = !is_signed || length == 0 ? 0 : (V)(a >> top & 1);
    std::make_unsigned_t<V> r = 0;
    for (int k = 0; k < width; ++k) {
      const bool inside = k < length && position + k < width;
      r |= (std::make_unsigned_t<V>)((inside ? a >> (position + k) & 1 : sign) & 1) << k;
    }
    w.set(i.d[0], l, (uint64_t)r);
  });
}

template <class V>
void insert_field(Warp &w, const Instruction &i) {
  constexpr int width = 8 * sizeof(V);
  each_lane(w.lanes, [&](unsigned l) {
    const V a = (V)w.value(i.s[0], l);
    V r = (V)w.value(i.s[1], l);
    const int position = (int)(w.value(i.s[2], l) & 0xff), length = (int)(w.value(i.s[3], l) & 0xff);
    for (int k = 0; k < length && position + k < width; ++k) {
      const V bit = (V)1 << (position + k);
      r = a >> k & 1 ? r | bit : r & ~bit;
    }
    w.set(i.d[0], l, (uint64_t)r);
  });
}

template <class V>
void count_ones(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) { w.set(i.d[0], l, (uint64_t)__builtin_popcountll((V)w.value(i.s[0], l))); });
}
template <class V>
void leading_zeros(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) {
    const V v = (V)w.value(i.s[0], l);
    w.set(i.d[0], l, v ? (uint64_t)__builtin_clzll(v) - (64 - 8 * sizeof(V)) : 8 * sizeof(V));
  });
}
template <class V>
void find_highest(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) {
    V v = (V)w.value(i.s[0], l);
    if (std::is_signed_v<V> && v < 0) v = (V)~v;
    const std::make_unsigned_t<V> u = (std::make_unsigned_t<V>)v;
    uint32_t r = 0xffffffffu;
    if (u) {
      const unsigned bit = 63 - (unsigned)__builtin_clzll(u);
      r = i.option ? (unsigned)(8 * sizeof(V)) - 1 - bit : bit;
    }
    w.set(i.d[0], l, r);
  });
}
template <class V>
void reverse(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) {
    const V v = (V)w.value(i.s[0], l);
    V r = 0;
    for (unsigned k = 0; k < 8 * sizeof(V); ++k) r |= (V)(v >> k & 1) << (8 * sizeof(V) - 1 - k);
    w.set(i.d[0], l, r);
  });
}

// mov between one wide register and several narrow ones
void unpack(Warp &w, const Instruction &i) {
  const unsigned width = i.type.bits / i.d_count;
  each_lane(w.lanes, [&](unsigned l) {
    const uint64_t v = w.value(i.s[0], l);
    for (unsigned k = 0; k < i.d_count; ++k) w.set(i.d[k], l, v >> (k * width) & (~0ull >> (64 - width)));
  });
}
void pack(Warp &w, const Instruction &i) {
  const unsigned width = i.type.bits / i.s_count;
  each_lane(w.lanes, [&](unsigned l) {
    uint64_t v = 0;
    for (unsigned k = 0; k < i.s_count; ++k) v |= (w.value(i.s[k], l) & (~0ull >> (64 - width))) << (k * width);
    w.set(i.d[0], l, v);
  });
}

template <class V>
void add_local_base(Warp &w, const Instruction &i) {
  map1<V>(w, i, [&](V base) { return (V)(base + i.number); });
}

void select(Warp &w, const Instruction &i) {
  const uint32_t p = w.predicate(i.s[2]);
  if (i.type.bits == 64) {
    const uint64_t *a = w.in<uint64_t>(i.s[0]), *b = w.in<uint64_t>(i.s[1]);
    each_lane(w.lanes, [&](unsigned l) { w.out<uint64_t>(i.d[0])[l] = p >> l & 1 ? a[l] : b[l]; });
    return;
  }
  const uint32_t *a = w.in<uint32_t>(i.s[0]), *b = w.in<uint32_t>(i.s[1]);
  uint32_t *d = w.out<uint32_t>(i.d[0]);
  if (w.lanes == all_lanes) {
#pragma GCC ivdep
    for (unsigned l = 0; l < warp_size; ++l) d[l] = p >> l & 1 ? a[l] : b[l];
  } else {
    each_lane(w.lanes, [&](unsigned l) { d[l] = p >> l & 1 ? a[l] : b[l]; });
  }
}

void decode_move(Decoder &d) {
  Instruction &i = d.i;
  i.type = d.type();
  if (i.type.kind == Kind::predicate) {
    i.d[0] = d.destination(d.argument(0), 1);
    i.s[0] = d.predicate(d.argument(1));
    i.s_count = 1;
    i.option = 4;
    i.run = predicate_logic;
    return;
  }
  const auto to = d.list(0), from = d.list(1);
  if (to.size() == 1 && from.size() == 1) {
    const auto local = d.scope.locals.find(from[0]);
    i.d[0] = d.destination(to[0], i.type.bits);
    if (local != d.scope.locals.end()) {
      i.s[0] = Operand{Base::frame, 64, false, slot_local_base};
      i.number = local->second;
      i.run = add_local_base<uint64_t>;
      if (i.type.bits != 64) d.refuse("a local address needs 64 bits");
      return;
    }
    i.s[0] = d.source(from[0], i.type.bits);
    i.run = i.type.bits == 64 ? move<uint64_t> : move<uint32_t>;
    return;
  }
  if ((to.size() > 1) == (from.size() > 1) || std::max(to.size(), from.size()) > 4) d.refuse("a move between several registers");
  const unsigned width = i.type.bits / (unsigned)std::max(to.size(), from.size());
  i.d_count = (uint8_t)to.size();
  i.s_count = (uint8_t)from.size();
  for (size_t k = 0; k < to.size(); ++k) i.d[k] = d.destination(to[k], to.size() > 1 ? width : i.type.bits);
  for (size_t k = 0; k < from.size(); ++k) i.s[k] = d.source(from[k], from.size() > 1 ? width : i.type.bits);
  i.run = to.size() > 1 ? unpack : pack;
}

void decode_logic(Decoder &d, const std::string &m) {
  Instruction &i = d.i;
  const Type t = d.type();
  const int which = m == "and" ? 0 : m == "or" ? 1 : m == "xor" ? 2 : 3;
  if (t.kind == Kind::predicate) {
    i.d[0] = d.destination(d.argument(0), 1);
    i.s_count = which == 3 ? 1 : 2;
    for (unsigned k = 0; k < i.s_count; ++k) i.s[k] = d.predicate(d.argument(k + 1));
    i.option = (uint8_t)which;
    i.run = predicate_logic;
    return;
  }
  d.simple(which == 3 ? 1 : 2, t);
  static const Handler h[3][4] = {{bit_and<uint16_t>, bit_or<uint16_t>, bit_xor<uint16_t>, bit_not<uint16_t>},
                                  {bit_and<uint32_t>, bit_or<uint32_t>, bit_xor<uint32_t>, bit_not<uint32_t>},
                                  {bit_and<uint64_t>, bit_or<uint64_t>, bit_xor<uint64_t>, bit_not<uint64_t>}};
  i.run = h[t.bits == 16 ? 0 : t.bits == 32 ? 1 : 2][which];
}

void decode_shift(Decoder &d, bool left) {
  Instruction &i = d.i;
  const Type t = d.type();
  i.type = t;
  i.d[0] = d.destination(d.argument(0), t.bits);
  i.s[0] = d.source((size_t)1, t.bits);
  i.s[1] = d.source((size_t)2, 32);
  i.option = left;
  const bool s = t.is_signed() && !left;
  i.run = t.bits == 16   ? (s ? shift<int16_t> : shift<uint16_t>)
          : t.bits == 32 ? (s ? shift<int32_t> : shift<uint32_t>)
                         : (s ? shift<int64_t> : shift<uint64_t>);
}

void decode_funnel(Decoder &d) {
  const bool left = d.has("l"), right = d.has("r"), wrap = d.has("wrap"), clamp = d.has("clamp");
  if (left == right || wrap == clamp) d.refuse("funnel shift");
  d.simple(3, d.type());
  d.i.option = (uint8_t)(left | wrap << 1);
  d.i.run = funnel;
}

void decode_lop3(Decoder &d) {
  Instruction &i = d.i;
  i.type = d.type();
  if (d.arguments() != 5) d.refuse("wrong number of operands");
  i.d[0] = d.destination(d.argument(0), 32);
  for (size_t k = 0; k < 3; ++k) i.s[k] = d.source(k + 1, 32);
  if (!parse_number(d.argument(4), 32, i.number)) d.refuse("the table must be a number");
  i.run = lop3;
}

void decode_fields(Decoder &d, bool insert) {
  Instruction &i = d.i;
  const Type t = d.type();
  i.type = t;
  i.d[0] = d.destination(d.argument(0), t.bits);
  for (size_t k = 0; k < (insert ? 4u : 3u); ++k) i.s[k] = d.source(k + 1, k < (insert ? 2u : 1u) ? t.bits : 32);
  if (insert)
    i.run = t.bits == 64 ? insert_field<uint64_t> : insert_field<uint32_t>;
  else
    i.run = t.bits == 64 ? (t.is_signed() ? extract_field<int64_t> : extract_field<uint64_t>)
                         : (t.is_signed() ? extract_field<int32_t> : extract_field<uint32_t>);
}

// These give 32 bits whatever they look at; brev keeps its width.
void decode_counts(Decoder &d, const std::string &m) {
  Instruction &i = d.i;
  i.option = m == "bfind" && d.has("shiftamt");
  const Type t = d.type();
  const bool wide = t.bits == 64;
  i.type = t;
  i.d[0] = d.destination(d.argument(0), m == "brev" ? t.bits : 32);
  i.s[0] = d.source((size_t)1, t.bits);
  if (m == "popc") i.run = wide ? count_ones<uint64_t> : count_ones<uint32_t>;
  if (m == "clz") i.run = wide ? leading_zeros<uint64_t> : leading_zeros<uint32_t>;
  if (m == "brev") i.run = wide ? reverse<uint64_t> : reverse<uint32_t>;
  if (m == "bfind")
    i.run = wide ? (t.is_signed() ? find_highest<int64_t> : find_highest<uint64_t>)
                 : (t.is_signed() ? find_highest<int32_t> : find_highest<uint32_t>);
}

void decode_select(Decoder &d) {
  Instruction &i = d.i;
  i.type = d.type();
  i.d[0] = d.destination(d.argument(0), i.type.bits);
  i.s[0] = d.source((size_t)1, i.type.bits);
  i.s[1] = d.source((size_t)2, i.type.bits);
  i.s[2] = d.predicate(d.argument(3));
  i.run = select;
}

}  // namespace

bool decode_bits(Decoder &d) {
  const std::string &m = d.mnemonic();
  if (m == "mov") {
    decode_move(d);
  } else if (m == "and" || m == "or" || m == "xor" || m == "not") {
    decode_logic(d, m);
  } else if (m == "shl" || m == "shr") {
    decode_shift(d, m == "shl");
  } else if (m == "shf") {
    decode_funnel(d);
  } else if (m == "lop3") {
    decode_lop3(d);
  } else if (m == "prmt") {
    d.simple(3, d.type());
    d.i.run = permute;
  } else if (m == "bfe" || m == "bfi") {
    decode_fields(d, m == "bfi");
  } else if (m == "popc" || m == "clz" || m == "brev" || m == "bfind") {
    decode_counts(d, m);
  } else if (m == "selp") {
    decode_select(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace sattn_sim
