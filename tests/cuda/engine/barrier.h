// The sixteen block barriers, counted in threads as the hardware does. The engines
// keep the sleeping threads themselves; this says when a barrier is complete.
#ifndef SATTN_SIM_BARRIER_H
#define SATTN_SIM_BARRIER_H

#include "state.h"

namespace sattn_sim {

class Barriers {
 public:
  void reset();

  // `lanes` of `warp` reach barrier `id`, which expects `threads` (0: the block).
  // Returns true when that completes it: then all who wait on it may go on.
  bool reach(unsigned id, unsigned threads, unsigned warp, uint32_t lanes, bool waits, const Site &site);

  // A thread leaves the kernel; an error while others wait for the whole block.
  void thread_exits();
  unsigned exited() const { return exited_; }
  bool arrive_used() const { return arrive_used_; }

 private:
  struct Barrier {
    unsigned expected, arrived;
    uint32_t warps, waiting;
    uint32_t released[max_warps], lanes[max_warps];
    Site site;
  };
  Barrier barrier_[16];
  unsigned exited_ = 0;
  bool arrive_used_ = false;
};
extern Barriers barriers;

}  // namespace sattn_sim
#endif
