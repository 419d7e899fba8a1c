// The meeting of a warp's fibers in one operation.
#ifndef SATTN_SIM_FIBER_COLLECTIVE_H
#define SATTN_SIM_FIBER_COLLECTIVE_H

#include "state.h"

namespace sattn_sim {

using Execute = void (*)(void *const *payload, uint32_t mask, unsigned warp, const Site &site);

// Every lane of `mask` calls this; the last to come runs `execute` on the payloads of
// all (indexed by lane), then all go on. `aligned` operations need the whole warp.
void collective(const char *what, bool aligned, uint32_t mask, void *payload, Execute execute, const Site &site);

}  // namespace sattn_sim
#endif
