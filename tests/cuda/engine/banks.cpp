// Bank conflicts. 32 banks of four bytes; wider accesses go out in several
// requests (half warps for 8 bytes, quarter warps for 16), and lanes that want the
// same word share it.
#include "shared_memory.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace sattn_sim {

unsigned bank_passes(const uint32_t *address, uint32_t mask, unsigned bytes) {
  const unsigned words = std::max(1u, bytes / 4), lanes = warp_size / words;
  unsigned extra = 0;
  for (unsigned first = 0; first < warp_size; first += lanes) {
    uint32_t wanted[32][32];
    unsigned load[32] = {}, worst = 0;
    for (unsigned i = 0; i < lanes * words; ++i) {
      const unsigned l = first + i / words;
      if (!(mask >> l & 1)) continue;
      const uint32_t word = address[l] / 4 + i % words, bank = word % 32;
      if (std::find(wanted[bank], wanted[bank] + load[bank], word) == wanted[bank] + load[bank]) wanted[bank][load[bank]++] = word;
      worst = std::max(worst, load[bank]);
    }
    extra += worst ? worst - 1 : 0;
  }
  return extra;
}

namespace {

struct Access {
  uint32_t mask = 0, address[warp_size];
  unsigned bytes = 0;
  Bank_use use = Bank_use::access;
};
struct Visits {
  unsigned count[warp_size] = {};
  std::map<unsigned, Access> open;  // by how often a lane has been at the site
};
std::unordered_map<uint64_t, Visits> visits[max_warps];

void close(const Access &a) {
  Counters &c = state.report.counters;
  const unsigned extra = bank_passes(a.address, a.mask, a.bytes);
  if (a.use == Bank_use::copy) {
    c.async_conflicts += extra;
  } else {
    ++c.shared_accesses;
    c.shared_conflicts += extra;
  }
}

}  // namespace

void banks_record(unsigned thread, uint32_t offset, unsigned bytes, Bank_use use, const Site &site) {
  const unsigned warp = thread / warp_size, lane = thread % warp_size;
  const uint64_t key = (uint64_t)(uintptr_t)site.pc * 64 + bytes;
  Visits &v = visits[warp][key];
  const unsigned visit = v.count[lane]++;
  Access &a = v.open[visit];
  a.mask |= 1u << lane;
  a.address[lane] = offset;
  a.bytes = bytes;
  a.use = use;
  if (a.mask == existing_lanes(warp)) {
    close(a);
    v.open.erase(visit);
  }
}

void banks_flush() {
  for (auto &warp : visits) {
    for (auto &site : warp)
      for (auto &access : site.second.open) close(access.second);
    warp.clear();
  }
}

}  // namespace sattn_sim
