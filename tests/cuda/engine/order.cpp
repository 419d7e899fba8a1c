#include "order.h"

#include <algorithm>
#include <cstring>

namespace sattn_sim {

Order order;

void Order::reset(unsigned warps) {
  now_ = 1;
  warps_ = warps;
  memset(warp_sync_, 0, sizeof warp_sync_);
  memset(seen_, 0, sizeof seen_);
}

void Order::sync_warp(unsigned warp) {
  warp_sync_[warp] = now_++;
}

void Order::join(uint32_t warps, uint32_t waiting, const uint32_t *released) {
  const uint32_t t = now_++;
  uint32_t joined[max_warps] = {};
  for (unsigned w = 0; w < warps_; ++w) {
    if (!(warps >> w & 1)) continue;
    for (unsigned o = 0; o < warps_; ++o) joined[o] = std::max(joined[o], seen_[w][o]);
    joined[w] = std::max(joined[w], released[w] ? released[w] : t);
  }
  for (unsigned w = 0; w < warps_; ++w)
    if (waiting >> w & 1) {
      memcpy(seen_[w], joined, sizeof joined);
      warp_sync_[w] = t;
    }
}

}  // namespace sattn_sim
