#include "global_memory.h"
#include "order.h"

#include <map>
#include <mutex>

namespace sattn_sim {

namespace {

// Who touched a cell last: 32 bits block serial, 11 bits thread, 21 bits tick.
using Stamp = uint64_t;
constexpr unsigned by_atomic = 0x7ff, by_several = 0x7fe;
constexpr uint32_t tick_limit = 1u << 21;

Stamp stamp(unsigned thread) {
  return (uint64_t)state.serial << 32 | (uint64_t)thread << 21 | order.now();
}
uint32_t serial_of(Stamp s) {
  return (uint32_t)(s >> 32);
}
unsigned thread_of(Stamp s) {
  return (unsigned)(s >> 21 & 0x7ff);
}
uint32_t tick_of(Stamp s) {
  return (uint32_t)(s & (tick_limit - 1));
}

struct Cell {
  Stamp write, read;
};
struct Allocation {
  uintptr_t base;
  size_t bytes;
  int device;
  unsigned shift = 2;  // log2 of the bytes per cell
  std::vector<Cell> cells;
};

std::map<uintptr_t, Allocation> allocations;
std::recursive_mutex allocations_mutex;
Allocation *recent[4];
unsigned next_recent;

Allocation *find(uintptr_t a) {
  for (Allocation *x : recent)
    if (x && a - x->base < x->bytes) return x;
  auto it = allocations.upper_bound(a);
  if (it == allocations.begin()) return nullptr;
  --it;
  if (a - it->second.base >= it->second.bytes) return nullptr;
  return recent[next_recent++ % 4] = &it->second;
}

Allocation &checked(const void *p, unsigned bytes, unsigned alignment, const Site &site) {
  const uintptr_t a = (uintptr_t)p;
  Allocation *g = find(a);
  if (!g) fail("bounds", site, "global address %p is in no device allocation", p);
  if (g->device >= 0 && g->device != state.options.device)
    fail("bounds", site, "global address %p belongs to device %d, the kernel runs on %d", p, g->device, state.options.device);
  const size_t offset = a - g->base;
  if (bytes > g->bytes - offset)
    fail("bounds", site, "global access of %u bytes at offset %zu of an allocation of %zu", bytes, offset, g->bytes);
  if (a % alignment) fail("align", site, "global address %p is not a multiple of %u", p, alignment);
  return *g;
}

void make_cells(Allocation &g, size_t offset, unsigned bytes) {
  if (order.now() >= tick_limit) fail("unsupported", {"kernel", 0, nullptr}, "more than %u synchronisations in a block", tick_limit);
  if (g.cells.empty()) g.cells.resize((g.bytes + 3) >> g.shift);
  while (g.shift && ((offset | bytes) & ((1u << g.shift) - 1))) {
    std::vector<Cell> fine(g.cells.size() * 2);
    for (size_t i = 0; i < fine.size(); ++i) fine[i] = g.cells[i / 2];
    g.cells.swap(fine);
    --g.shift;
  }
}

// Is the access that left `s` ordered before `thread`'s, or from an earlier launch?
bool ordered(Stamp s, unsigned thread) {
  if (serial_of(s) < state.first_serial) return true;
  if (serial_of(s) != state.serial) return false;
  const unsigned other = thread_of(s);
  if (other < max_threads) return order.seen(thread, other, tick_of(s));
  for (unsigned w = 0; w < state.warps; ++w)
    if (!order.seen_warp(thread, w, tick_of(s))) return false;
  return true;
}

[[noreturn]] void race(const Allocation &g, size_t cell, Stamp s, const char *now, const char *then, const Site &site) {
  char who[32] = "atomics";
  if (thread_of(s) < max_threads)
    snprintf(who, sizeof who, "thread %u", thread_of(s));
  else if (thread_of(s) == by_several)
    snprintf(who, sizeof who, "several threads");
  fail("race", site, "global offset %zu of an allocation of %zu is %s, and block number %u %s %s it in this launch", cell << g.shift,
       g.bytes, now, serial_of(s) - state.first_serial, who, then);
}

}  // namespace

void global_read_check(unsigned thread, const void *p, unsigned bytes, unsigned alignment, Global_read how, const Site &site) {
  Allocation &g = checked(p, bytes, alignment, site);
  if (!state.options.shadow) return;
  const size_t offset = (uintptr_t)p - g.base;
  make_cells(g, offset, bytes);
  const Stamp me = stamp(thread);
  for (size_t i = offset >> g.shift; i < (offset + bytes + (1u << g.shift) - 1) >> g.shift; ++i) {
    Cell &c = g.cells[i];
    if (serial_of(c.write) >= state.first_serial) {
      if (how == Global_read::read_only)
        fail("race", site,
             "global offset %zu of an allocation of %zu is read by the read-only path, "
             "but written in this launch",
             i << g.shift, g.bytes);
      if (!ordered(c.write, thread)) race(g, i, c.write, "read", "wrote", site);
    }
    // One reader is kept exactly; several of one launch only as such.
    if (serial_of(c.read) < state.first_serial || ordered(c.read, thread))
      c.read = me;
    else
      c.read = (serial_of(c.read) == state.serial ? me & ~((uint64_t)0x7ff << 21) : c.read & ~((uint64_t)0x7ff << 21)) |
               (uint64_t)by_several << 21;
  }
}

static void write_check(unsigned thread, const void *p, unsigned bytes, bool atomic, const Site &site) {
  Allocation &g = checked(p, bytes, bytes, site);
  ++state.report.counters.global_stores;
  if (!state.options.shadow) return;
  const size_t offset = (uintptr_t)p - g.base;
  make_cells(g, offset, bytes);
  const Stamp me = stamp(atomic ? by_atomic : thread);
  for (size_t i = offset >> g.shift; i < (offset + bytes + (1u << g.shift) - 1) >> g.shift; ++i) {
    Cell &c = g.cells[i];
    const bool both_atomic = atomic && thread_of(c.write) == by_atomic && serial_of(c.write) >= state.first_serial;
    if (!both_atomic && !ordered(c.write, thread)) race(g, i, c.write, "written", "wrote", site);
    if (!ordered(c.read, thread)) race(g, i, c.read, "written", "read", site);
    c.write = me;
  }
}

void global_write_check(unsigned thread, const void *p, unsigned bytes, const Site &site) {
  write_check(thread, p, bytes, false, site);
}

void global_atomic_check(unsigned thread, const void *p, unsigned bytes, const Site &site) {
  write_check(thread, p, bytes, true, site);
}

void global_launch_begins() {
  for (auto &r : recent) r = nullptr;
}

void global_register(const void *base, size_t bytes, int device) {
  std::lock_guard<std::recursive_mutex> lock(allocations_mutex);
  allocations[(uintptr_t)base] = Allocation{(uintptr_t)base, bytes, device, 2, {}};
}

void global_unregister(const void *base) {
  std::lock_guard<std::recursive_mutex> lock(allocations_mutex);
  global_launch_begins();
  allocations.erase((uintptr_t)base);
}

}  // namespace sattn_sim
