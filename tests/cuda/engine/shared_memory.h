// Shared memory of the running block. Every access is checked against a shadow that
// knows, for each cell, whether it is written, who wrote it and who read it since.
#ifndef SATTN_SIM_SHARED_MEMORY_H
#define SATTN_SIM_SHARED_MEMORY_H

#include "state.h"

namespace sattn_sim {

// Shared addresses do not start at 0, so that a forgotten base shows.
constexpr uint32_t shared_base = 0x1000;

void shared_reset(uint32_t dynamic_bytes);
uint32_t shared_allocate(const void *key, size_t bytes, size_t alignment, const Site &site);
// Bytes in use, dynamic and static, for the address-range messages and limits.
uint32_t shared_bytes();

void shared_read(unsigned thread, uint32_t address, void *to, unsigned bytes, unsigned alignment, const Site &site);
void shared_write(unsigned thread, uint32_t address, const void *from, unsigned bytes, unsigned alignment, const Site &site);
// An atomic reads, gives the old value, and stores what `combine` makes of it.
template <class T, class F>
T shared_atomic(unsigned thread, uint32_t address, const Site &site, F combine);

// For instructions that work on behalf of a whole warp (ldmatrix).
const unsigned char *shared_read_for_warp(unsigned warp, uint32_t address, unsigned bytes, const Site &site);

// For cp.async: reserve the destination, later mark it landed.
unsigned char *shared_copy_begin(unsigned thread, uint32_t address, unsigned bytes, const Site &site);
void shared_copy_end(unsigned thread, uint32_t address, unsigned bytes);

// Bank conflicts of plain accesses, matched across the lanes of a warp by site and by
// how often the lane has been there. Flush at the end of a block.
enum class Bank_use { access, copy };
void banks_record(unsigned thread, uint32_t offset, unsigned bytes, Bank_use use, const Site &site);
void banks_flush();
// Extra passes for one access of a warp: lanes in `mask`, each `bytes` wide.
unsigned bank_passes(const uint32_t *address, uint32_t mask, unsigned bytes);

void shared_atomic_begin(unsigned thread, uint32_t address, void *old, unsigned bytes, const Site &site);
void shared_atomic_end(uint32_t address, const void *value, unsigned bytes);
template <class T, class F>
inline T shared_atomic(unsigned thread, uint32_t address, const Site &site, F combine) {
  T old;
  shared_atomic_begin(thread, address, &old, sizeof old, site);
  const T value = combine(old);
  shared_atomic_end(address, &value, sizeof value);
  return old;
}

}  // namespace sattn_sim
#endif
