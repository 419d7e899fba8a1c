// Addresses of a lane, resolved to a state space and checked.
#ifndef SATTN_SIM_PTX_MEMORY_H
#define SATTN_SIM_PTX_MEMORY_H

#include "warp.h"

namespace sattn_sim {

struct Place {
  Space space;
  uint64_t address;
};

Place place(const Warp &w, const Instruction &i, const Operand &base, int64_t offset, Space space, unsigned lane);

}  // namespace sattn_sim
#endif
