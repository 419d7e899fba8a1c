// A PTX module after decoding: functions of instructions whose operands are places in
// a register file of 32 lanes each.
#ifndef SATTN_SIM_PTX_PROGRAM_H
#define SATTN_SIM_PTX_PROGRAM_H

#include "state.h"

#include <map>
#include <memory>

namespace sattn_sim {

enum class Kind : uint8_t { predicate, bits, unsigned_integer, signed_integer, floating, bfloat };

struct Type {
  Kind kind = Kind::bits;
  uint8_t bits = 32;
  bool packed = false;  // f16x2, bf16x2
  bool is_float() const { return kind == Kind::floating || kind == Kind::bfloat; }
  bool is_signed() const { return kind == Kind::signed_integer; }
  unsigned bytes() const { return bits / 8u; }
};

// A slot is one 32-bit word for each of 32 lanes. 64-bit values take two slots and lie
// as 64-bit words; a predicate is the first word of its slot, one bit a lane.
enum class Base : uint8_t { none, frame, constant, block };
struct Operand {
  Base base = Base::none;
  uint8_t bits = 32;     // of the register or constant
  bool negated = false;  // predicates only
  uint32_t slot = 0;
};

enum class Space : uint8_t { generic, global, shared, local, parameter, constant };
enum class Rounding : uint8_t { nearest, zero, down, up };

// plain instructions go on at the next one; the others are the scheduler's business
enum class Flow : uint8_t { plain, branch, indirect_branch, call, ret, exit, warp, barrier };

struct Warp;
struct Function;
struct Instruction;
using Handler = void (*)(Warp &, const Instruction &);

struct Instruction {
  Handler run = nullptr;
  Flow flow = Flow::plain;
  Type type, type2;
  Space space = Space::generic;
  Rounding rounding = Rounding::nearest;
  bool ftz = false, saturate = false, relu = false, nan = false, trans = false, read_only = false, aligned = false, waits = true;
  uint8_t option = 0, count = 0;  // what they mean is the instruction's own affair
  uint8_t d_count = 0, s_count = 0;
  Operand guard, d[4], s[10], address, address2;
  int64_t offset = 0, offset2 = 0;
  uint64_t number = 0;
  uint32_t target = 0;
  const Function *callee = nullptr;
  std::vector<uint32_t> targets;
  Site site{};
  const char *name = "";
};

struct Parameter {
  std::string name;
  uint32_t offset, bytes, alignment;
};

struct Function {
  std::string name;
  bool entry = false;
  std::vector<Instruction> code;
  uint32_t slots = 0;
  std::vector<uint32_t> constants;  // slots of broadcast values
  std::vector<Parameter> results, parameters;
  uint32_t parameter_bytes = 0;  // of one lane: its own and those of its calls
  uint32_t local_bytes = 0;
  unsigned max_threads = 1024;
  std::vector<bool> shared_used;  // by index in Module::shared
};

struct Shared_variable {
  std::string name;
  size_t bytes;
  unsigned alignment;
  bool dynamic;
  uint32_t slot;  // in the block's area: the address as 32 bits, then as 64
};

struct Module_variable {
  std::string name;
  std::unique_ptr<unsigned char[]> storage;
  unsigned char *data;
  size_t bytes;
  bool constant;
};

// Special registers live in the block's area, one copy per warp.
enum Block_slot : uint32_t {
  slot_tid = 0,
  slot_ntid = 3,
  slot_ctaid = 6,
  slot_nctaid = 9,
  slot_lane = 12,
  slot_warp = 13,
  slot_lanemask = 14,
  slot_dynamic_bytes = 19,
  slot_zero64 = 20,
  slot_first_shared = 22
};

struct Module {
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::vector<Shared_variable> shared;
  std::vector<std::unique_ptr<Module_variable>> variables;
  std::vector<std::unique_ptr<std::string>> names;  // file names and mnemonics that sites point to
  std::map<int, const char *> files;
  uint32_t block_slots = slot_first_shared;
  double version = 0;
  unsigned target = 0;
  ~Module();
};

// Local addresses as the frame sees them; frames keep theirs in slots 0 and 1.
constexpr uint32_t slot_local_base = 0, first_register_slot = 2;

// Generic addresses: windows that no host pointer falls into.
constexpr uint64_t shared_window = 1ull << 62, local_window = 1ull << 61, parameter_window = 1ull << 60;

}  // namespace sattn_sim
#endif
