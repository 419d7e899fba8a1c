// ld, st, cp.async, prefetch and the fences.
#include "memory.h"
#include "async_copy.h"
#include "decoder.h"
#include "global_memory.h"
#include "shared_memory.h"

#include <cstring>

namespace sattn_sim {

Place place(const Warp &w, const Instruction &, const Operand &base, int64_t offset, Space space, unsigned lane) {
  uint64_t a = base.bits == 64 ? w.in<uint64_t>(base)[lane] + (uint64_t)offset : (uint32_t)(w.in<uint32_t>(base)[lane] + (uint32_t)offset);
  if (space != Space::generic) return {space, a};
  if (a & shared_window) return {Space::shared, a & ~shared_window};
  if (a & local_window) return {Space::local, a & ~local_window};
  if (a & parameter_window) return {Space::parameter, a & ~parameter_window};
  return {Space::global, a};
}

namespace {

constexpr uint64_t local_limit = 512u << 10;  // of one thread, as on the hardware

unsigned char *local_bytes(Warp &w, unsigned lane, uint64_t address, unsigned bytes, const Site &site) {
  auto &mem = w.local[lane];
  const uint64_t top = w.frame->local_base + w.frame->function->local_bytes;
  if (address > top || bytes > top - address)
    fail("bounds", site, "local bytes %llu..%llu are outside the thread's %llu", (unsigned long long)address,
         (unsigned long long)address + bytes, (unsigned long long)top);
  if (top > local_limit) fail("bounds", site, "more than %llu bytes of local memory", (unsigned long long)local_limit);
  if (mem.size() < top) mem.resize(top, 0xff);
  return mem.data() + address;
}

unsigned char *parameter_bytes(Warp &w, unsigned lane, uint64_t address, unsigned bytes, bool generic, const Site &site) {
  Frame *f = w.frame;
  while (generic && f->parent) f = f->parent;  // a generic address can only be of the kernel's own
  if (address > f->function->parameter_bytes || bytes > f->function->parameter_bytes - address)
    fail("bounds", site, "parameter bytes %llu..%llu of %u", (unsigned long long)address, (unsigned long long)address + bytes,
         f->function->parameter_bytes);
  return f->parameter(lane) + address;
}

void read(Warp &w, const Instruction &i, const Place &p, unsigned lane, unsigned char *to, unsigned bytes) {
  switch (p.space) {
    case Space::shared:
      if (p.address > 0xffffffffu) fail("bounds", i.site, "shared address %llx", (unsigned long long)p.address);
      shared_read(w.thread(lane), (uint32_t)p.address, to, bytes, bytes, i.site);
      return;
    case Space::local:
      if (p.address % bytes) fail("align", i.site, "local offset %llu is not a multiple of %u", (unsigned long long)p.address, bytes);
      memcpy(to, local_bytes(w, lane, p.address, bytes, i.site), bytes);
      return;
    case Space::parameter:
      memcpy(to, parameter_bytes(w, lane, p.address, bytes, i.space == Space::generic, i.site), bytes);
      return;
    case Space::constant:
      for (const auto &v : w.module->variables)
        if (v->constant && p.address - (uintptr_t)v->data < v->bytes && bytes <= v->bytes - (p.address - (uintptr_t)v->data)) {
          memcpy(to, (const void *)p.address, bytes);
          return;
        }
      fail("bounds", i.site, "constant address %llx is in no constant variable", (unsigned long long)p.address);
    default:
      global_read_check(w.thread(lane), (const void *)p.address, bytes, bytes, i.read_only ? Global_read::read_only : Global_read::ordinary,
                        i.site);
      memcpy(to, (const void *)p.address, bytes);
  }
}

void write(Warp &w, const Instruction &i, const Place &p, unsigned lane, const unsigned char *from, unsigned bytes) {
  switch (p.space) {
    case Space::shared:
      if (p.address > 0xffffffffu) fail("bounds", i.site, "shared address %llx", (unsigned long long)p.address);
      shared_write(w.thread(lane), (uint32_t)p.address, from, bytes, bytes, i.site);
      return;
    case Space::local:
      if (p.address % bytes) fail("align", i.site, "local offset %llu is not a multiple of %u", (unsigned long long)p.address, bytes);
      memcpy(local_bytes(w, lane, p.address, bytes, i.site), from, bytes);
      return;
    case Space::parameter:
      if (i.space == Space::generic) fail("bounds", i.site, "a store to the kernel's parameters");
      memcpy(parameter_bytes(w, lane, p.address, bytes, false, i.site), from, bytes);
      return;
    default:
      global_write_check(w.thread(lane), (const void *)p.address, bytes, i.site);
      memcpy((void *)p.address, from, bytes);
  }
}

void load(Warp &w, const Instruction &i) {
  const unsigned size = i.type.bytes(), total = size * i.d_count;
  each_lane(w.lanes, [&](unsigned l) {
    state.thread = w.thread(l);
    unsigned char buffer[32];
    read(w, i, place(w, i, i.address, i.offset, i.space, l), l, buffer, total);
    for (unsigned k = 0; k < i.d_count; ++k) {
      uint64_t v = 0;
      memcpy(&v, buffer + k * size, size);
      if (i.type.is_signed() && size < 8 && v >> (8 * size - 1)) v |= ~0ull << (8 * size);
      w.set(i.d[k], l, v);
    }
  });
}

void store(Warp &w, const Instruction &i) {
  const unsigned size = i.type.bytes(), total = size * i.s_count;
  each_lane(w.lanes, [&](unsigned l) {
    state.thread = w.thread(l);
    unsigned char buffer[32];
    for (unsigned k = 0; k < i.s_count; ++k) {
      const uint64_t v = w.value(i.s[k], l);
      memcpy(buffer + k * size, &v, size);
    }
    write(w, i, place(w, i, i.address, i.offset, i.space, l), l, buffer, total);
  });
}

void copy_async(Warp &w, const Instruction &i) {
  const uint32_t skip = i.option ? w.predicate(i.s[0]) : 0;
  each_lane(w.lanes, [&](unsigned l) {
    state.thread = w.thread(l);
    const Place to = place(w, i, i.address, i.offset, Space::shared, l);
    const Place from = place(w, i, i.address2, i.offset2, Space::global, l);
    unsigned bytes = i.count;
    if (i.option)
      bytes = skip >> l & 1 ? 0 : bytes;
    else if (i.s_count)
      bytes = (unsigned)w.value(i.s[0], l);
    async_copy(w.thread(l), (uint32_t)to.address, (const void *)from.address, i.count, bytes, i.site);
  });
}
void copy_commit(Warp &w, const Instruction &) {
  each_lane(w.lanes, [&](unsigned l) { async_commit(w.thread(l)); });
}
void copy_wait(Warp &w, const Instruction &i) {
  each_lane(w.lanes, [&](unsigned l) { async_wait(w.thread(l), i.option ? -1 : (int)w.value(i.s[0], l)); });
}
void nothing(Warp &, const Instruction &) {}

Space space_of(Decoder &d) {
  if (d.has("global")) return Space::global;
  if (d.has("shared") || d.has("shared::cta")) return Space::shared;
  if (d.has("local")) return Space::local;
  if (d.has("param")) return Space::parameter;
  if (d.has("const")) return Space::constant;
  return Space::generic;
}

void decode_load_store(Decoder &d, bool is_load) {
  Instruction &i = d.i;
  i.space = space_of(d);
  d.ignore_hints();
  i.read_only = is_load && (d.has("nc") || d.mnemonic() == "ldu");
  const size_t vector = d.has("v4") ? 4 : d.has("v2") ? 2 : 1;
  i.type = d.type();
  if (i.type.bits < 8) d.refuse("memory holds no predicates");
  const auto registers = d.list(is_load ? 0 : 1);
  if (registers.size() != vector || d.arguments() != 2) d.refuse("wrong number of registers");
  d.address(is_load ? 1 : 0, i.address, i.offset, i.space);
  for (size_t k = 0; k < vector; ++k) {
    if (is_load) {
      i.d[k] = d.destination(registers[k], 0);
      if (i.d[k].base != Base::none && i.d[k].bits < i.type.bits) d.refuse("the register is too narrow");
    } else {
      uint64_t number;
      const bool immediate = parse_number(registers[k], i.type.bits, number);
      i.s[k] = d.source(registers[k], immediate ? (i.type.bits == 64 ? 64 : 32) : 0);
      if (i.s[k].bits < i.type.bits) d.refuse("the register is too narrow");
    }
  }
  (is_load ? i.d_count : i.s_count) = (uint8_t)vector;
  i.run = is_load ? load : store;
}

void decode_copy(Decoder &d) {
  Instruction &i = d.i;
  if (!d.has("async")) d.refuse("only cp.async");
  if (d.has("commit_group")) {
    i.run = copy_commit;
    return;
  }
  i.option = d.has("wait_all");
  if (i.option || d.has("wait_group")) {
    if (!i.option) i.s[0] = d.source((size_t)0, 32);
    i.run = copy_wait;
    return;
  }
  const bool bypass = d.has("cg");
  if (!bypass && !d.has("ca")) d.refuse("cp.async needs .ca or .cg");
  if (!(d.has("shared") || d.has("shared::cta")) || !d.has("global")) d.refuse("cp.async goes from global to shared");
  d.ignore_hints();
  d.address(0, i.address, i.offset, Space::shared);
  d.address(1, i.address2, i.offset2, Space::global);
  uint64_t bytes;
  if (!parse_number(d.argument(2), 32, bytes) || (bytes != 4 && bytes != 8 && bytes != 16) || (bypass && bytes != 16))
    d.refuse("size of a cp.async");
  i.count = (uint8_t)bytes;
  if (d.arguments() > 4) d.refuse("cp.async with a cache policy");
  if (d.arguments() == 4) {
    const auto r = d.scope.registers.find(d.argument(3));
    i.s_count = 1;
    i.option = r != d.scope.registers.end() && r->second.bits == 1;  // a predicate that says: ignore the source
    i.s[0] = i.option ? d.predicate(d.argument(3)) : d.source((size_t)3, 32);
  }
  i.run = copy_async;
}

}  // namespace

bool decode_memory(Decoder &d) {
  const std::string &m = d.mnemonic();
  if (m == "ld" || m == "ldu" || m == "st") {
    decode_load_store(d, m != "st");
  } else if (m == "cp") {
    decode_copy(d);
  } else if (m == "membar" || m == "fence") {
    // Blocks run one after the other, and within one barriers are what orders.
    for (const char *x : {"gl", "cta", "sys", "sc", "acq_rel", "gpu", "cluster"}) d.has(x);
    d.i.run = nothing;
  } else if (m == "prefetch" || m == "prefetchu") {
    for (const char *x : {"global", "local", "L1", "L2"}) d.has(x);
    d.i.run = nothing;
  } else {
    return false;
  }
  return true;
}

}  // namespace sattn_sim
