#include "shared_memory.h"
#include "barrier.h"
#include "order.h"

#include <cstring>
#include <map>

namespace sattn_sim {

namespace {

enum class Cell_state : uint8_t { unwritten, valid, in_flight, red_zone };

constexpr int16_t by_atomic = -2, by_several = -1;

struct Cell {
  Cell_state state;
  int16_t writer, reader;          // threads
  uint32_t write_tick, read_tick;  // ticks of the block's clock
  uint32_t reader_warps;
};

constexpr uint32_t arena_bytes = 256u << 10, red_zone_bytes = 64;

struct Shared {
  std::vector<unsigned char> bytes = std::vector<unsigned char>(arena_bytes);
  std::vector<Cell> cells;
  unsigned shift = 1;  // log2 of the bytes per cell: 1 until a single byte is accessed
  uint32_t top = 0;
  std::map<const void *, uint32_t> statics;
} mem;

void set_cells(uint32_t from, uint32_t to, Cell_state s) {
  const uint32_t last = (to + (1u << mem.shift) - 1) >> mem.shift;
  if (mem.cells.size() < last) mem.cells.resize(last);
  for (uint32_t i = from >> mem.shift; i < last; ++i) {
    mem.cells[i] = Cell{};
    mem.cells[i].state = s;
  }
}

// Single bytes get cells of their own, so that neighbours do not look like a race.
void split_cells() {
  std::vector<Cell> fine(mem.cells.size() * 2);
  for (size_t i = 0; i < fine.size(); ++i) fine[i] = mem.cells[i / 2];
  mem.cells.swap(fine);
  mem.shift = 0;
}

uint32_t offset_of(uint32_t address, unsigned bytes, unsigned alignment, const Site &site) {
  const uint32_t offset = address - shared_base;
  if (address < shared_base || offset > mem.top || bytes > mem.top - offset)
    fail("bounds", site, "shared bytes %lld..%lld are outside the block's %u bytes", (long long)address - shared_base,
         (long long)address - shared_base + bytes, mem.top);
  if (offset % alignment) fail("align", site, "shared offset %u is not a multiple of %u", offset, alignment);
  if (bytes == 1 && mem.shift) split_cells();
  return offset;
}

[[noreturn]] void fail_state(const Cell &c, uint32_t offset, const char *verb, const Site &site) {
  if (c.state == Cell_state::in_flight)
    fail("async", site, "shared byte %u is %s while thread %d's cp.async to it is not waited for", offset, verb, c.writer);
  if (c.state == Cell_state::unwritten) fail("init", site, "shared byte %u is %s but was never written", offset, verb);
  fail("bounds", site, "shared byte %u is %s: outside every allocation", offset, verb);
}

// Is the write in the cell ordered before what `thread` does now? whole_warp: on
// behalf of all its lanes, so that even its own thread's write needs a __syncwarp.
bool write_seen(const Cell &c, unsigned thread, bool whole_warp) {
  if (c.write_tick == 0) return true;
  if (c.writer == by_atomic) {
    for (unsigned w = 0; w < state.warps; ++w)
      if (!order.seen_warp(thread, w, c.write_tick)) return false;
    return true;
  }
  if (whole_warp) return order.seen_warp(thread, (unsigned)c.writer / warp_size, c.write_tick);
  return order.seen(thread, (unsigned)c.writer, c.write_tick);
}

bool reads_seen(const Cell &c, unsigned thread) {
  if (c.read_tick == 0) return true;
  if (c.reader >= 0) return order.seen(thread, (unsigned)c.reader, c.read_tick);
  // Only the last tick of several readers is kept; where barriers are reached
  // without waiting it says nothing about the earlier ones, which then pass.
  for (unsigned w = 0; w < state.warps; ++w)
    if (c.reader_warps >> w & 1 && !order.seen_warp(thread, w, c.read_tick) && !barriers.arrive_used()) return false;
  return true;
}

void check_read(uint32_t offset, unsigned bytes, unsigned thread, bool whole_warp, const Site &site) {
  if (!state.options.shadow) return;
  const unsigned warp = thread / warp_size;
  for (uint32_t i = offset >> mem.shift; i < (offset + bytes + (1u << mem.shift) - 1) >> mem.shift; ++i) {
    Cell &c = mem.cells[i];
    if (c.state != Cell_state::valid) fail_state(c, i << mem.shift, "read", site);
    if (!write_seen(c, thread, whole_warp))
      fail("race", site, "shared byte %u is read, and thread %d wrote it with no barrier between", i << mem.shift, c.writer);
    const int16_t reader = whole_warp ? by_several : (int16_t)thread;
    if (c.read_tick == order.now() && c.reader == by_several && c.reader_warps >> warp & 1) continue;
    // Readers that this one has seen may be forgotten: who waits for this one
    // has waited for them.
    if (c.read_tick != 0 && !reads_seen(c, thread)) {
      c.reader = c.reader == reader ? reader : by_several;
      c.reader_warps |= 1u << warp;
    } else {
      c.reader = reader;
      c.reader_warps = 1u << warp;
    }
    c.read_tick = order.now();
  }
}

void check_write(uint32_t offset, unsigned bytes, unsigned thread, Cell_state becomes, bool atomic, const Site &site) {
  if (!state.options.shadow) return;
  for (uint32_t i = offset >> mem.shift; i < (offset + bytes + (1u << mem.shift) - 1) >> mem.shift; ++i) {
    Cell &c = mem.cells[i];
    if (c.state == Cell_state::red_zone || c.state == Cell_state::in_flight || (atomic && c.state == Cell_state::unwritten))
      fail_state(c, i << mem.shift, "written", site);
    if (!(atomic && c.writer == by_atomic) && !write_seen(c, thread, false))
      fail("race", site, "shared byte %u is written, and thread %d wrote it with no barrier between", i << mem.shift, c.writer);
    if (!reads_seen(c, thread))
      fail("race", site, "shared byte %u is written, and another thread read it with no barrier between", i << mem.shift);
    c.state = becomes;
    c.writer = atomic ? by_atomic : (int16_t)thread;
    c.write_tick = order.now();
  }
}

}  // namespace

void shared_reset(uint32_t dynamic_bytes) {
  mem.statics.clear();
  mem.shift = 1;
  mem.cells.clear();
  mem.top = dynamic_bytes;
  memset(mem.bytes.data(), 0xff, dynamic_bytes + red_zone_bytes);
  set_cells(0, dynamic_bytes, Cell_state::unwritten);
  state.report.static_shared = 0;
}

uint32_t shared_bytes() {
  return mem.top;
}

uint32_t shared_allocate(const void *key, size_t bytes, size_t alignment, const Site &site) {
  const auto known = mem.statics.find(key);
  if (known != mem.statics.end()) return shared_base + known->second;
  const uint32_t start = (uint32_t)((mem.top + red_zone_bytes + alignment - 1) / alignment * alignment);
  if (start + bytes > arena_bytes || bytes + state.report.static_shared > 48u << 10)
    fail("bounds", site, "static shared memory does not fit");
  set_cells(mem.top + mem.top % 2, start, Cell_state::red_zone);
  set_cells(start, (uint32_t)(start + bytes), Cell_state::unwritten);
  memset(mem.bytes.data() + start, 0xff, bytes);
  mem.top = (uint32_t)(start + bytes);
  state.report.static_shared += (unsigned)bytes;
  mem.statics[key] = start;
  return shared_base + start;
}

void shared_read(unsigned thread, uint32_t address, void *to, unsigned bytes, unsigned alignment, const Site &site) {
  const uint32_t offset = offset_of(address, bytes, alignment, site);
  check_read(offset, bytes, thread, false, site);
  if (state.options.count_banks && bytes <= 16) banks_record(thread, offset, bytes, Bank_use::access, site);
  memcpy(to, mem.bytes.data() + offset, bytes);
}

void shared_write(unsigned thread, uint32_t address, const void *from, unsigned bytes, unsigned alignment, const Site &site) {
  const uint32_t offset = offset_of(address, bytes, alignment, site);
  check_write(offset, bytes, thread, Cell_state::valid, false, site);
  if (state.options.count_banks && bytes <= 16) banks_record(thread, offset, bytes, Bank_use::access, site);
  memcpy(mem.bytes.data() + offset, from, bytes);
}

const unsigned char *shared_read_for_warp(unsigned warp, uint32_t address, unsigned bytes, const Site &site) {
  const uint32_t offset = offset_of(address, bytes, bytes, site);
  check_read(offset, bytes, warp * warp_size, true, site);
  return mem.bytes.data() + offset;
}

unsigned char *shared_copy_begin(unsigned thread, uint32_t address, unsigned bytes, const Site &site) {
  const uint32_t offset = offset_of(address, bytes, bytes, site);
  check_write(offset, bytes, thread, Cell_state::in_flight, false, site);
  if (state.options.count_banks) banks_record(thread, offset, bytes, Bank_use::copy, site);
  return mem.bytes.data() + offset;
}

void shared_copy_end(unsigned thread, uint32_t address, unsigned bytes) {
  if (!state.options.shadow) return;
  const uint32_t offset = address - shared_base;
  for (uint32_t i = offset >> mem.shift; i < (offset + bytes + (1u << mem.shift) - 1) >> mem.shift; ++i) {
    mem.cells[i].state = Cell_state::valid;
    mem.cells[i].writer = (int16_t)thread;
    mem.cells[i].write_tick = order.now();
  }
}

void shared_atomic_begin(unsigned thread, uint32_t address, void *old, unsigned bytes, const Site &site) {
  const uint32_t offset = offset_of(address, bytes, bytes, site);
  check_write(offset, bytes, thread, Cell_state::valid, true, site);
  memcpy(old, mem.bytes.data() + offset, bytes);
}

void shared_atomic_end(uint32_t address, const void *value, unsigned bytes) {
  memcpy(mem.bytes.data() + (address - shared_base), value, bytes);
}

}  // namespace sattn_sim
