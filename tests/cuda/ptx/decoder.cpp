#include "decoder.h"

#include <cstdlib>
#include <cstring>

namespace sattn_sim {

std::string trim(const std::string &s) {
  const size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

std::vector<std::string> split(const std::string &s, char separator) {
  std::vector<std::string> v(1);
  int depth = 0;
  for (char c : s) {
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c == separator && !depth)
      v.emplace_back();
    else
      v.back() += c;
  }
  return v;
}

bool parse_type(const std::string &s, Type &t) {
  static const std::map<std::string, Type> types = {{"pred", {Kind::predicate, 1, false}},
                                                    {"b8", {Kind::bits, 8, false}},
                                                    {"b16", {Kind::bits, 16, false}},
                                                    {"b32", {Kind::bits, 32, false}},
                                                    {"b64", {Kind::bits, 64, false}},
                                                    {"u8", {Kind::unsigned_integer, 8, false}},
                                                    {"u16", {Kind::unsigned_integer, 16, false}},
                                                    {"u32", {Kind::unsigned_integer, 32, false}},
                                                    {"u64", {Kind::unsigned_integer, 64, false}},
                                                    {"s8", {Kind::signed_integer, 8, false}},
                                                    {"s16", {Kind::signed_integer, 16, false}},
                                                    {"s32", {Kind::signed_integer, 32, false}},
                                                    {"s64", {Kind::signed_integer, 64, false}},
                                                    {"f16", {Kind::floating, 16, false}},
                                                    {"f32", {Kind::floating, 32, false}},
                                                    {"f64", {Kind::floating, 64, false}},
                                                    {"bf16", {Kind::bfloat, 16, false}},
                                                    {"f16x2", {Kind::floating, 32, true}},
                                                    {"bf16x2", {Kind::bfloat, 32, true}}};
  const auto it = types.find(s);
  if (it == types.end()) return false;
  t = it->second;
  return true;
}

bool parse_number(const std::string &s, unsigned bits, uint64_t &value) {
  if (s.empty()) return false;
  char *end = nullptr;
  if (s.size() > 2 && s[0] == '0' && strchr("fFdD", s[1])) {
    value = strtoull(s.c_str() + 2, &end, 16);
    const bool single = s[1] == 'f' || s[1] == 'F';
    if (*end || (single && bits == 64) || (!single && bits < 64)) return false;
    return true;
  }
  if (!isdigit((unsigned char)s[0]) && s[0] != '-') return false;
  value = s[0] == '-' ? (uint64_t)strtoll(s.c_str(), &end, 0) : strtoull(s.c_str(), &end, 0);
  return !*end || (*end == 'U' && !end[1]);
}

Decoder::Decoder(Scope &sc, Instruction &in, const std::string &statement) : scope(sc), i(in), text_(trim(statement)) {
  std::string rest = text_;
  if (rest[0] == '@') {
    const size_t space = rest.find_first_of(" \t");
    if (space == std::string::npos) refuse("a guard without an instruction");
    i.guard = predicate(rest.substr(1, space - 1));
    rest = trim(rest.substr(space));
  }
  const size_t space = rest.find_first_of(" \t");
  parts_ = split(rest.substr(0, space), '.');
  understood_.assign(parts_.size(), false);
  understood_[0] = true;
  if (space != std::string::npos)
    for (const auto &a : split(trim(rest.substr(space)), ',')) arguments_.push_back(trim(a));
  scope.module.names.emplace_back(new std::string(rest.substr(0, space)));
  i.name = scope.module.names.back()->c_str();
}

void Decoder::refuse(const std::string &why) const {
  throw Ptx_error(why + ": " + text_);
}

void Decoder::finish() const {
  for (size_t k = 0; k < parts_.size(); ++k)
    if (!understood_[k]) refuse("modifier ." + parts_[k] + " is not supported");
}

const std::string &Decoder::argument(size_t k) const {
  if (k >= arguments_.size()) refuse("too few operands");
  return arguments_[k];
}

bool Decoder::has(const char *modifier) {
  for (size_t k = 1; k < parts_.size(); ++k)
    if (parts_[k] == modifier) {
      understood_[k] = true;
      return true;
    }
  return false;
}

Type Decoder::type() {
  Type t;
  for (; next_type_ < parts_.size(); ++next_type_)
    if (parse_type(parts_[next_type_], t)) {
      understood_[next_type_++] = true;
      return t;
    }
  refuse("a type is missing");
}

bool Decoder::more_types() {
  Type t;
  for (size_t k = next_type_; k < parts_.size(); ++k)
    if (parse_type(parts_[k], t)) return true;
  return false;
}

Rounding Decoder::rounding() {
  if (has("rz") || has("rzi")) return Rounding::zero;
  if (has("rm") || has("rmi")) return Rounding::down;
  if (has("rp") || has("rpi")) return Rounding::up;
  has("rn");
  has("rni");
  return Rounding::nearest;
}

void Decoder::ignore_hints() {
  for (const char *hint : {"L1::evict_normal",
                           "L1::evict_first",
                           "L1::evict_last",
                           "L1::evict_unchanged",
                           "L1::no_allocate",
                           "L2::64B",
                           "L2::128B",
                           "L2::256B",
                           "ca",
                           "cg",
                           "cs",
                           "lu",
                           "cv",
                           "wb",
                           "wt",
                           "volatile",
                           "relaxed",
                           "acquire",
                           "release",
                           "acq_rel",
                           "weak",
                           "cta",
                           "cluster",
                           "gpu",
                           "sys"})
    has(hint);
  // "L1::no_allocate" holds a second colon pair only in newer spellings of the same hints
}

Operand Decoder::constant(uint64_t value, unsigned bits) {
  Operand o;
  o.base = Base::constant;
  o.bits = (uint8_t)bits;
  if (bits < 64) value &= 0xffffffffu;
  auto &known = bits == 64 ? scope.constants64 : scope.constants32;
  auto &words = scope.function.constants;
  const auto it = known.find(value);
  if (it != known.end()) {
    o.slot = it->second;
    return o;
  }
  o.slot = (uint32_t)(words.size() / warp_size);
  for (unsigned l = 0; l < warp_size; ++l) {
    words.push_back((uint32_t)value);
    if (bits == 64) words.push_back((uint32_t)(value >> 32));
  }
  known[value] = o.slot;
  return o;
}

static bool special(const std::string &name, Operand &o) {
  static const std::map<std::string, uint32_t> slots = {{"%tid", slot_tid},
                                                        {"%ntid", slot_ntid},
                                                        {"%ctaid", slot_ctaid},
                                                        {"%nctaid", slot_nctaid},
                                                        {"%laneid", slot_lane},
                                                        {"%warpid", slot_warp},
                                                        {"%lanemask_eq", slot_lanemask},
                                                        {"%lanemask_le", slot_lanemask + 1},
                                                        {"%lanemask_lt", slot_lanemask + 2},
                                                        {"%lanemask_ge", slot_lanemask + 3},
                                                        {"%lanemask_gt", slot_lanemask + 4},
                                                        {"%dynamic_smem_size", slot_dynamic_bytes}};
  std::string base = name;
  uint32_t axis = 0;
  const size_t dot = name.find('.');
  if (dot != std::string::npos) {
    base = name.substr(0, dot);
    const std::string a = name.substr(dot + 1);
    if (a != "x" && a != "y" && a != "z") return false;
    axis = (uint32_t)(a[0] - 'x');
  }
  const auto it = slots.find(base);
  if (it == slots.end() || (dot == std::string::npos) != (it->second >= slot_lane)) return false;
  o.base = Base::block;
  o.bits = 32;
  o.slot = it->second + axis;
  return true;
}

// The address of a variable as a value.
Operand Decoder::variable(const std::string &name, unsigned bits) {
  for (size_t k = 0; k < scope.module.shared.size(); ++k) {
    const Shared_variable &s = scope.module.shared[k];
    if (s.name == name) {
      scope.function.shared_used.resize(scope.module.shared.size());
      scope.function.shared_used[k] = true;
      Operand o;
      o.base = Base::block;
      o.bits = (uint8_t)bits;
      o.slot = bits == 64 ? s.slot + 1 : s.slot;
      return o;
    }
  }
  for (const auto &v : scope.module.variables)
    if (v->name == name) return constant((uint64_t)(uintptr_t)v->data, bits);
  const auto p = scope.parameters.find(name);
  if (p != scope.parameters.end()) return constant(p->second.offset, bits);
  refuse("unknown name " + name);
}

Operand Decoder::source(const std::string &s, unsigned bits) {
  Operand o;
  if (s.empty()) refuse("an operand is empty");
  if (s[0] == '%') {
    const auto r = scope.registers.find(s);
    if (r == scope.registers.end()) {
      if (special(s, o)) return o;
      refuse("unknown register " + s);
    }
    o.base = Base::frame;
    o.bits = r->second.bits;
    o.slot = r->second.slot;
    if (bits && (o.bits == 64) != (bits == 64)) refuse("register " + s + " has another width");
    return o;
  }
  uint64_t v;
  if (parse_number(s, bits, v)) return constant(v, bits ? bits : 32);
  return variable(s, bits ? bits : 32);
}

Operand Decoder::source(size_t k, unsigned bits) {
  return source(argument(k), bits);
}

Operand Decoder::destination(const std::string &s, unsigned bits) {
  if (s == "_") return Operand();
  const auto r = scope.registers.find(s);
  if (r == scope.registers.end()) refuse("unknown register " + s);
  Operand o;
  o.base = Base::frame;
  o.bits = r->second.bits;
  o.slot = r->second.slot;
  if (bits && (o.bits == 64) != (bits == 64)) refuse("register " + s + " has another width");
  if ((o.bits == 1) != (bits == 1)) refuse("register " + s + " is not of the right kind");
  return o;
}

Operand Decoder::predicate(std::string s) {
  const bool negated = s[0] == '!';
  if (negated) s = s.substr(1);
  uint64_t v;
  Operand o;
  if (parse_number(s, 32, v)) {
    o = constant(v ? 0xffffffffu : 0u, 32);
  } else {
    const auto r = scope.registers.find(s);
    if (r == scope.registers.end() || r->second.bits != 1) refuse("not a predicate: " + s);
    o.base = Base::frame;
    o.slot = r->second.slot;
  }
  o.bits = 1;
  o.negated = negated;
  return o;
}

std::vector<std::string> Decoder::list(size_t k) const {
  const std::string &a = argument(k);
  if (a.front() != '{') return {a};
  std::vector<std::string> v;
  for (const auto &x : split(a.substr(1, a.size() - 2), ',')) v.push_back(trim(x));
  return v;
}

std::pair<std::string, std::string> Decoder::pair(size_t k) const {
  const auto v = split(argument(k), '|');
  if (v.size() > 2) refuse("too many destinations");
  return {trim(v[0]), v.size() > 1 ? trim(v[1]) : "_"};
}

void Decoder::address(size_t k, Operand &base, int64_t &offset, Space space) {
  const std::string &a = argument(k);
  if (a.size() < 3 || a.front() != '[' || a.back() != ']') refuse("an address in brackets is missing");
  std::string inside = trim(a.substr(1, a.size() - 2));
  offset = 0;
  const size_t plus = inside.find('+');
  if (plus != std::string::npos) {
    offset = strtoll(inside.c_str() + plus + 1, nullptr, 0);
    inside = trim(inside.substr(0, plus));
  }
  const auto local = scope.locals.find(inside);
  if (space == Space::local && local != scope.locals.end()) {
    base = Operand{Base::frame, 64, false, slot_local_base};
    offset += local->second;
    return;
  }
  // shared addresses fit in 32 bits and come in registers of either width
  const auto r = scope.registers.find(inside);
  base = source(inside, r != scope.registers.end() ? r->second.bits : 64);
}

void Decoder::simple(unsigned sources, Type t) {
  i.type = t;
  if (arguments() != sources + 1) refuse("wrong number of operands");
  i.d_count = 1;
  i.s_count = (uint8_t)sources;
  i.d[0] = destination(argument(0), t.bits);
  for (unsigned k = 0; k < sources; ++k) i.s[k] = source(k + 1, t.bits);
}

void decode(Scope &scope, Instruction &instruction, const std::string &statement) {
  Decoder d(scope, instruction, statement);
  using Family = bool (*)(Decoder &);
  for (Family f : {decode_integer, decode_bits, decode_floating, decode_half, decode_compare, decode_convert, decode_memory, decode_atomic,
                   decode_warp, decode_control})
    if (f(d)) {
      d.finish();
      return;
    }
  d.refuse("unknown instruction");
}

}  // namespace sattn_sim
