// cp.async. Until the issuing thread has waited, the destination counts as in
// flight; late copies (the default) also deliver the data only then, early ones at
// once, so that a kernel relying on either shows.
#ifndef SATTN_SIM_ASYNC_COPY_H
#define SATTN_SIM_ASYNC_COPY_H

#include "state.h"

namespace sattn_sim {

void async_reset(unsigned threads);
void async_copy(unsigned thread, uint32_t shared, const void *global, unsigned bytes, unsigned source_bytes, const Site &site);
void async_commit(unsigned thread);
// Waits for all but the newest `pending` groups; pending < 0: for everything,
// committed or not.
void async_wait(unsigned thread, int pending);
void async_thread_exits(unsigned thread, const Site &site);

}  // namespace sattn_sim
#endif
