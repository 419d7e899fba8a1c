// Launching a kernel on the simulator, and what a launch reports.
//
// A kernel is anything that can run one block: the host-compiled kernels (fibers)
// and the interpreted PTX are the two kinds. Everything around a block is common:
// the order of blocks, shared memory and its shadow, barriers, error reports.
#ifndef SATTN_SIM_LAUNCH_H
#define SATTN_SIM_LAUNCH_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sattn_sim {

struct Dim3 {
  unsigned x, y, z;
};

// The order in which threads that could run do run; races that a benign order hides
// show under another.
enum class Schedule { fifo, reverse, lifo, random };

struct Options {
  Schedule schedule = Schedule::fifo;
  unsigned seed = 1;
  bool early_copies = false;  // cp.async data lands at issue, not at the wait
  bool shadow = true;         // check initialisation and races of shared memory
  bool count_banks = false;   // also for plain shared accesses; ldmatrix and cp.async always
  int device = 0;             // whose allocations the kernel may touch
  unsigned shared_limit = 227u << 10;
};

// SATTN_SIM_SCHEDULE=fifo|reverse|lifo|random:SEED, SATTN_SIM_COPIES=late|early,
// SATTN_SIM_SHADOW=0|1, SATTN_SIM_BANKS=0|1. An unknown value is a message in
// `error`, never a silent default.
Options options_from_environment(std::string &error);

// Bank conflicts are counted in extra passes: an access that takes k passes more
// than its width needs adds k.
struct Counters {
  unsigned long long mma, ldmatrix, ldmatrix_conflicts, async_copies, async_conflicts, shared_accesses, shared_conflicts, barriers,
      warp_syncs, global_stores, instructions;
};

struct Report {
  bool failed = false;
  std::string kind;  // bounds align init race async sync deadlock arithmetic unsupported launch
  std::string text;
  Counters counters{};
  unsigned static_shared = 0;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run_block(void **arguments) const = 0;
  std::string name;
  unsigned max_threads = 1024;
  std::vector<size_t> argument_sizes;
};

// Host-compiled kernels register themselves at start-up.
const Kernel *find_host_kernel(const char *name);

// Runs to the end or to the first error. One launch at a time per process; callers
// on other threads wait.
Report launch(const Kernel &kernel, Dim3 grid, Dim3 block, size_t dynamic_shared, void **arguments, const Options &options);

// Device memory: kernels may touch only what is registered for their device.
// Device -1 belongs to every device (constants of a module).
void global_register(const void *base, size_t bytes, int device = 0);
void global_unregister(const void *base);

}  // namespace sattn_sim
#endif
