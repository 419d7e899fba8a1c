// Global memory: exact bounds of every allocation, alignment, and races between
// threads of one launch, over a shadow with one cell per four bytes (finer as soon
// as a narrower access comes).
#ifndef SATTN_SIM_GLOBAL_MEMORY_H
#define SATTN_SIM_GLOBAL_MEMORY_H

#include "state.h"

namespace sattn_sim {

// read_only is the non-coherent path (__ldg, cp.async): never for what this launch writes.
enum class Global_read { ordinary, read_only };

void global_read_check(unsigned thread, const void *p, unsigned bytes, unsigned alignment, Global_read how, const Site &site);
void global_write_check(unsigned thread, const void *p, unsigned bytes, const Site &site);
void global_atomic_check(unsigned thread, const void *p, unsigned bytes, const Site &site);
// Cached look-ups must not outlive the set of allocations.
void global_launch_begins();

}  // namespace sattn_sim
#endif
