// Decoding one instruction. Every modifier of a mnemonic has to be asked for by the
// code that gives it its meaning; one that nobody asked for is an error by name.
#ifndef SATTN_SIM_PTX_DECODER_H
#define SATTN_SIM_PTX_DECODER_H

#include "program.h"

#include <stdexcept>

namespace sattn_sim {

struct Ptx_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Register {
  uint32_t slot;
  uint8_t bits;  // 1 for predicates
};

// The names an instruction can see.
struct Scope {
  Module &module;
  Function &function;
  std::map<std::string, Register> registers;
  std::map<std::string, uint32_t> locals;       // .local variables: offset in the frame's
  std::map<std::string, Parameter> parameters;  // .param variables, formal and of calls
  std::map<std::string, std::vector<std::string>> branch_tables;
  std::map<uint64_t, uint32_t> constants32, constants64;
};

class Decoder {
 public:
  Decoder(Scope &scope, Instruction &instruction, const std::string &statement);

  const std::string &mnemonic() const { return parts_[0]; }
  const std::string &text() const { return text_; }
  size_t arguments() const { return arguments_.size(); }
  const std::string &argument(size_t k) const;

  // Is the modifier there? It counts as understood from then on.
  bool has(const char *modifier);
  // The next type among the modifiers, in order.
  Type type();
  bool more_types();
  Rounding rounding();
  // Hints about caches and scopes: they change when data moves, never what is read.
  void ignore_hints();

  Operand source(size_t k, unsigned bits);
  Operand source(const std::string &text, unsigned bits);
  Operand destination(const std::string &text, unsigned bits);
  Operand predicate(std::string text);
  std::vector<std::string> list(size_t k) const;             // {a, b} or a alone
  std::pair<std::string, std::string> pair(size_t k) const;  // a|b
  void address(size_t k, Operand &base, int64_t &offset, Space space);
  std::string label(size_t k) const { return argument(k); }
  Operand constant(uint64_t value, unsigned bits);

  // Destination and n sources, all of the type's width.
  void simple(unsigned sources, Type t);

  [[noreturn]] void refuse(const std::string &why) const;
  void finish() const;  // refuses what nobody asked for

  Scope &scope;
  Instruction &i;

 private:
  std::string text_;
  std::vector<std::string> parts_, arguments_;
  std::vector<bool> understood_;
  size_t next_type_ = 1;
  Operand variable(const std::string &name, unsigned bits);
};

bool parse_type(const std::string &text, Type &type);
bool parse_number(const std::string &text, unsigned bits, uint64_t &value);
std::string trim(const std::string &s);
std::vector<std::string> split(const std::string &s, char separator);

// One per family of instructions; false if the mnemonic is not of the family.
bool decode_integer(Decoder &);
bool decode_bits(Decoder &);
bool decode_floating(Decoder &);
bool decode_half(Decoder &);
bool decode_compare(Decoder &);
bool decode_convert(Decoder &);
bool decode_memory(Decoder &);
bool decode_atomic(Decoder &);
bool decode_warp(Decoder &);
bool decode_control(Decoder &);

void decode(Scope &scope, Instruction &instruction, const std::string &statement);

}  // namespace sattn_sim
#endif
