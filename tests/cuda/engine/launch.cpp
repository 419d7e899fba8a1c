// The part of a launch that does not depend on how a block is run.
#include "async_copy.h"
#include "barrier.h"
#include "global_memory.h"
#include "order.h"
#include "shared_memory.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>

namespace sattn_sim {

State state;

uint64_t random_number() {
  uint64_t &x = state.random_state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

void fail(const char *kind, const Site &site, const char *format, ...) {
  char message[512], where[320], thread[32] = "";
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  if (state.in_block) snprintf(thread, sizeof thread, " thread %u", state.thread);
  snprintf(where, sizeof where, "%s:%d: kernel %s block (%u,%u,%u)%s: %s: ", site.file, site.line,
           state.kernel ? state.kernel->name.c_str() : "?", state.block_index.x, state.block_index.y, state.block_index.z, thread, kind);
  if (!state.report.failed) {
    state.report.failed = true;
    state.report.kind = kind;
    state.report.text = std::string(where) + message;
  }
  throw LaunchError();
}

namespace {

bool flag(const char *name, bool otherwise, std::string &error) {
  const char *e = getenv(name);
  if (!e || !*e) return otherwise;
  if (strcmp(e, "0") && strcmp(e, "1")) error = std::string(name) + " must be 0 or 1, not " + e;
  return *e == '1';
}

// A step that shares no factor with the number of blocks visits each once.
uint64_t block_order_step(uint64_t blocks) {
  uint64_t step = 2654435761u % blocks;
  while (std::gcd(step, blocks) != 1) ++step;
  return step;
}

const char *bad_shape(const Kernel &k, Dim3 grid, Dim3 block, size_t dynamic_shared, const Options &o) {
  const uint64_t threads = (uint64_t)block.x * block.y * block.z;
  if (!threads || threads > max_threads) return "the block has no thread or more than 1024";
  if (threads > k.max_threads) return "the block is larger than the kernel's launch bounds";
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
    return "a side of the grid is 0 or over 2147483647, 65535, 65535";
  if (dynamic_shared > o.shared_limit) return "more dynamic shared memory than the device has";
  return nullptr;
}

void run_one_block(const Kernel &kernel, void **arguments, size_t dynamic_shared) {
  shared_reset((uint32_t)dynamic_shared);
  order.reset(state.warps);
  barriers.reset();
  async_reset(state.threads);
  kernel.run_block(arguments);
  banks_flush();
}

}  // namespace

Options options_from_environment(std::string &error) {
  Options o;
  if (const char *e = getenv("SATTN_SIM_SCHEDULE")) {
    if (!strcmp(e, "fifo"))
      o.schedule = Schedule::fifo;
    else if (!strcmp(e, "reverse"))
      o.schedule = Schedule::reverse;
    else if (!strcmp(e, "lifo"))
      o.schedule = Schedule::lifo;
    else if (!strncmp(e, "random:", 7)) {
      o.schedule = Schedule::random;
      o.seed = (unsigned)strtoul(e + 7, nullptr, 0);
    } else
      error = std::string("SATTN_SIM_SCHEDULE must be fifo, reverse, lifo or random:SEED, not ") + e;
  }
  if (const char *e = getenv("SATTN_SIM_COPIES")) {
    o.early_copies = !strcmp(e, "early");
    if (!o.early_copies && strcmp(e, "late")) error = std::string("SATTN_SIM_COPIES must be late or early, not ") + e;
  }
  o.shadow = flag("SATTN_SIM_SHADOW", true, error);
  o.count_banks = flag("SATTN_SIM_BANKS", false, error);
  return o;
}

Report launch(const Kernel &kernel, Dim3 grid, Dim3 block, size_t dynamic_shared, void **arguments, const Options &options) {
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  state.options = options;
  state.report = Report();
  state.kernel = &kernel;
  state.random_state = 0x9e3779b97f4a7c15u * (options.seed + 1u);
  state.grid = grid;
  state.block = block;
  state.block_index = Dim3{0, 0, 0};
  state.in_block = false;
  if (const char *why = bad_shape(kernel, grid, block, dynamic_shared, options)) {
    state.report.failed = true;
    state.report.kind = "launch";
    state.report.text = "kernel " + kernel.name + ": launch: " + why;
    return state.report;
  }
  state.threads = block.x * block.y * block.z;
  state.warps = (state.threads + warp_size - 1) / warp_size;
  state.first_serial = state.serial + 1;
  global_launch_begins();
  const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, step = block_order_step(blocks);
  try {
    for (uint64_t b = 0; b < blocks && !state.report.failed; ++b) {
      uint64_t i = b;
      if (options.schedule == Schedule::reverse) i = blocks - 1 - b;
      if (options.schedule == Schedule::random) i = (b * step + options.seed) % blocks;
      state.block_index = Dim3{(unsigned)(i % grid.x), (unsigned)(i / grid.x % grid.y), (unsigned)(i / grid.x / grid.y)};
      ++state.serial;
      run_one_block(kernel, arguments, dynamic_shared);
    }
  } catch (const LaunchError &) {
  }
  state.in_block = false;
  return state.report;
}

}  // namespace sattn_sim
