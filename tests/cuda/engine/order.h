// Who has seen whose writes. One clock for the block ticks at every synchronisation;
// each warp remembers, for every other warp, the latest tick whose work it has seen.
// An access stamped with tick t is ordered before a later one by another warp when
// that warp has seen t; inside a warp, when a __syncwarp came after t.
#ifndef SATTN_SIM_ORDER_H
#define SATTN_SIM_ORDER_H

#include "state.h"

namespace sattn_sim {

class Order {
 public:
  void reset(unsigned warps);
  uint32_t now() const { return now_; }
  void sync_warp(unsigned warp);

  // A barrier: `released` has the tick at which each warp of `warps` let its work go
  // (bar.arrive), 0 for those that wait and so release now. `waiting` learn all.
  void join(uint32_t warps, uint32_t waiting, const uint32_t *released);

  // Has `thread` seen what `other` did at tick t?
  bool seen(unsigned thread, unsigned other, uint32_t t) const {
    if (thread == other) return true;
    const unsigned w = thread / warp_size, o = other / warp_size;
    return t <= (w == o ? warp_sync_[w] : seen_[w][o]);
  }
  // Has `thread` seen what every lane of `warp` did at tick t?
  bool seen_warp(unsigned thread, unsigned warp, uint32_t t) const {
    const unsigned w = thread / warp_size;
    return t <= (w == warp ? warp_sync_[w] : seen_[w][warp]);
  }
  uint32_t tick() { return now_++; }

 private:
  uint32_t now_ = 1;
  unsigned warps_ = 0;
  uint32_t warp_sync_[max_warps] = {}, seen_[max_warps][max_warps] = {};
};
extern Order order;

}  // namespace sattn_sim
#endif
