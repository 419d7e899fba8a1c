#include "barrier.h"
#include "order.h"

#include <cstring>

namespace sattn_sim {

Barriers barriers;

void Barriers::reset() {
  memset(barrier_, 0, sizeof barrier_);
  exited_ = 0;
  arrive_used_ = false;
}

bool Barriers::reach(unsigned id, unsigned threads, unsigned warp, uint32_t lanes, bool waits, const Site &site) {
  if (id > 15) fail("sync", site, "barrier %u: there are only 16", id);
  if (threads % warp_size) fail("sync", site, "barrier %u for %u threads: not whole warps", id, threads);
  const bool whole_block = threads == 0;
  if (whole_block) threads = state.threads;
  if (threads > ((state.threads + warp_size - 1) & ~(warp_size - 1)))
    fail("sync", site, "barrier %u expects %u threads, the block has %u", id, threads, state.threads);
  if (whole_block && exited_) fail("sync", site, "a barrier of the whole block after %u of its threads have exited", exited_);
  Barrier &b = barrier_[id];
  if (b.arrived && b.expected != threads)
    fail("sync", site, "barrier %u for %u threads here, for %u at %s:%d", id, threads, b.expected, b.site.file, b.site.line);
  // Producers and consumers meet at different lines of a named barrier; two different
  // __syncthreads that happen to pair up are a divergence.
  if (b.arrived && id == 0 && b.site.pc != site.pc)
    fail("sync", site, "__syncthreads here while other threads wait in the one at %s:%d", b.site.file, b.site.line);
  if (b.lanes[warp] & lanes)
    fail("sync", site, "barrier %u is reached a second time by the same thread before all %u threads have come", id, threads);
  b.lanes[warp] |= lanes;
  b.expected = threads;
  b.site = site;
  b.arrived += (unsigned)__builtin_popcount(lanes);
  b.warps |= 1u << warp;
  if (waits)
    b.waiting |= 1u << warp;
  else {
    arrive_used_ = true;
    b.released[warp] = order.tick();
  }
  if (b.arrived < threads) return false;
  if (b.arrived > threads) fail("sync", site, "barrier %u is reached by more than its %u threads", id, threads);
  order.join(b.warps, b.waiting, b.released);
  memset(&b, 0, sizeof b);
  ++state.report.counters.barriers;
  return true;
}

void Barriers::thread_exits() {
  const Barrier &b = barrier_[0];
  if (b.arrived && b.expected == state.threads) fail("sync", b.site, "a thread exits while %u threads wait at the barrier here", b.arrived);
  ++exited_;
}

}  // namespace sattn_sim
