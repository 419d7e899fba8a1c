// The launch in progress, seen from inside the engines.
#ifndef SATTN_SIM_STATE_H
#define SATTN_SIM_STATE_H

#include "launch.h"

namespace sattn_sim {

constexpr unsigned warp_size = 32, max_threads = 1024, max_warps = 32;
constexpr uint32_t all_lanes = 0xffffffffu;

// Where in the kernel something happened. pc tells apart two accesses on one line.
struct Site {
  const char *file;
  int line;
  const void *pc;
};

struct State {
  Options options;
  Report report;
  const Kernel *kernel = nullptr;
  Dim3 grid{}, block{}, block_index{};
  unsigned threads = 0, warps = 0;
  unsigned thread = 0;        // on whose behalf the engine works, for messages
  bool in_block = false;      // whether `thread` means anything
  uint32_t serial = 0;        // number of this block among all blocks ever run
  uint32_t first_serial = 1;  // that of the launch's first block
  uint64_t random_state = 1;
};
extern State state;

// Lanes of the warp that exist: the last warp of a block may be partial.
inline uint32_t existing_lanes(unsigned warp) {
  const unsigned here = state.threads - warp * warp_size;
  return here >= warp_size ? all_lanes : (1u << here) - 1;
}

uint64_t random_number();

struct LaunchError {};

// Records the first error of the launch and throws LaunchError.
[[noreturn]] void fail(const char *kind, const Site &site, const char *format, ...) __attribute__((format(printf, 3, 4)));

}  // namespace sattn_sim
#endif
