#ifndef SATTN_SIM_PTX_EXECUTE_H
#define SATTN_SIM_PTX_EXECUTE_H

#include "warp.h"

namespace sattn_sim {

// One block of a kernel: state.block_index and the like say which.
void execute_block(const Module &module, const Function &entry, void **arguments, const std::vector<size_t> &sizes);

}  // namespace sattn_sim
#endif
