#include "fiber_kernel.h"
#include "async_copy.h"
#include "barrier.h"
#include "fiber.h"
#include "fiber_collective.h"
#include "global_memory.h"
#include "order.h"
#include "shared_memory.h"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace sattn_sim {

Thread *current_thread;

namespace {

enum class Run { ready, at_barrier, at_warp, finished };

struct Simulated {
  Thread thread;
  Fiber fiber;
  Run run;
  Site site;
  const char *what;
  unsigned barrier;
};

// What the lanes of a warp that have come so far to a collective have in common.
struct Gathering {
  uint32_t mask, arrived;
  const char *what;
  Site site;
  void *payload[warp_size];
};

struct Block {
  std::vector<Simulated> threads;
  std::vector<unsigned> ready;  // taken from `head`, or from the end for lifo
  size_t head = 0;
  Fiber scheduler;
  Simulated *running = nullptr;
  unsigned finished = 0;
  bool failed = false;
  std::vector<Gathering> gatherings[max_warps];
  int vote_sum = 0, vote_result = 0;
  const Host_kernel *kernel = nullptr;
  void **arguments = nullptr;
} block;

Host_kernel *host_kernels;

void yield(bool finished = false) {
  Simulated *me = block.running;
  Fiber::switch_to(me->fiber, block.scheduler, finished);
  // A launch that failed elsewhere never comes back here.
}

void resume(std::vector<unsigned> &v) {
  if (state.options.schedule == Schedule::reverse) std::reverse(v.begin(), v.end());
  if (state.options.schedule == Schedule::random)
    for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[random_number() % i]);
  for (unsigned i : v) {
    block.threads[i].run = Run::ready;
    block.ready.push_back(i);
  }
}

void fiber_main() {
  Fiber::entered(block.scheduler);
  Simulated *me = block.running;
  try {
    block.kernel->call(block.kernel->function, block.arguments);
    async_thread_exits(me->thread.linear, {"kernel exit", 0, nullptr});
    barriers.thread_exits();
  } catch (const LaunchError &) {
    block.failed = true;
  }
  me->run = Run::finished;
  ++block.finished;
  yield(true);
  abort();  // a finished fiber is never switched to
}

unsigned take_ready() {
  auto &r = block.ready;
  if (state.options.schedule == Schedule::lifo) {
    const unsigned i = r.back();
    r.pop_back();
    return i;
  }
  if (state.options.schedule == Schedule::random) std::swap(r[block.head], r[block.head + random_number() % (r.size() - block.head)]);
  const unsigned i = r[block.head++];
  if (block.head == r.size()) {
    r.clear();
    block.head = 0;
  }
  return i;
}

[[noreturn]] void deadlock() {
  std::string who;
  unsigned waiting = 0;
  const Simulated *previous = nullptr;
  for (const Simulated &s : block.threads) {
    if (s.thread.linear >= state.threads || s.run == Run::finished) continue;
    if (!waiting++) state.thread = s.thread.linear;
    if (who.size() < 300 && (!previous || previous->site.line != s.site.line || previous->what != s.what))
      who += " [thread " + std::to_string(s.thread.linear) + ".. in " + s.what + " at line " + std::to_string(s.site.line) + "]";
    previous = &s;
  }
  fail("deadlock", block.threads[state.thread].site, "%u threads wait for ever:%s", waiting, who.c_str());
}

void start_threads() {
  block.threads.resize(std::max<size_t>(block.threads.size(), state.threads));
  std::vector<unsigned> all;
  for (unsigned i = 0; i < state.threads; ++i) {
    Simulated &s = block.threads[i];
    const Dim3 b = state.block;
    s.thread = Thread{{i % b.x, i / b.x % b.y, i / b.x / b.y}, i, i / warp_size, i % warp_size};
    s.site = {"kernel start", 0, nullptr};
    s.what = "start";
    s.fiber.prepare(fiber_stack(i, state.threads), fiber_stack_bytes(), fiber_main);
    all.push_back(i);
  }
  resume(all);
}

void schedule_until_done() {
  while (block.finished < state.threads && !block.failed) {
    if (block.head == block.ready.size()) deadlock();
    Simulated &s = block.threads[take_ready()];
    block.running = &s;
    current_thread = &s.thread;
    state.thread = s.thread.linear;
    Fiber::switch_to(block.scheduler, s.fiber);
  }
}

// A raw access that no wrapper saw, or a fiber that ran off its stack.
void *raw_address;
#ifndef SATTN_SIM_ASAN
sigjmp_buf raw_access;
volatile sig_atomic_t in_kernel;
struct sigaction old_segv, old_bus;

void on_signal(int number, siginfo_t *info, void *) {
  if (!in_kernel) {
    sigaction(number, number == SIGSEGV ? &old_segv : &old_bus, nullptr);
    raise(number);
    return;
  }
  raw_address = info->si_addr;
  siglongjmp(raw_access, 1);
}
#endif

void watch_signals(bool on) {
#ifdef SATTN_SIM_ASAN
  (void)on;  // the sanitizer's own report is better
#else
  static char *alternate = (char *)malloc(65536);
  static stack_t old_stack;
  if (!on) {
    in_kernel = 0;
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
    sigaltstack(&old_stack, nullptr);
    return;
  }
  stack_t s{};
  s.ss_sp = alternate;
  s.ss_size = 65536;
  sigaltstack(&s, &old_stack);
  struct sigaction a {};
  a.sa_sigaction = on_signal;
  a.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &a, &old_segv);
  sigaction(SIGBUS, &a, &old_bus);
  in_kernel = 1;
#endif
}

void check_mask(const char *what, bool aligned, uint32_t mask, const Site &site) {
  const Thread &me = *current_thread;
  if (!(mask >> me.lane & 1)) fail("sync", site, "%s: the caller's lane %u is not in mask %08x", what, me.lane, mask);
  if (mask & ~existing_lanes(me.warp)) fail("sync", site, "%s: mask %08x names lanes that the warp does not have", what, mask);
  if (aligned && mask != all_lanes) fail("sync", site, "%s needs the full warp", what);
}

bool same_text(const char *a, const char *b) {
  return a == b || !strcmp(a, b);
}

Gathering &find_gathering(const char *what, uint32_t mask, const Site &site) {
  const Thread &me = *current_thread;
  auto &open = block.gatherings[me.warp];
  Gathering *mine = nullptr;
  for (Gathering &g : open) {
    if (g.mask == mask)
      mine = &g;
    else if (g.mask >> me.lane & 1)
      fail("sync", site, "%s with mask %08x, but lanes %08x wait for this lane in %s at %s:%d with mask %08x", what, mask, g.arrived,
           g.what, g.site.file, g.site.line, g.mask);
  }
  if (!mine) {
    open.push_back(Gathering{mask, 0, what, site, {}});
    mine = &open.back();
  }
  if (mine->site.line != site.line || mine->what != what || !same_text(mine->site.file, site.file))
    fail("sync", site, "divergent warp: lane %u is in %s here, lanes %08x are in %s at %s:%d", me.lane, what, mine->arrived, mine->what,
         mine->site.file, mine->site.line);
  return *mine;
}

}  // namespace

Host_kernel::Host_kernel(const char *kernel_name, void *f, Call c, std::vector<size_t> sizes, unsigned threads)
    : function(f), call(c), next(host_kernels) {
  name = kernel_name;
  max_threads = threads;
  argument_sizes = std::move(sizes);
  host_kernels = this;
}

const Kernel *find_host_kernel(const char *name) {
  for (Host_kernel *k = host_kernels; k; k = k->next)
    if (k->name == name) return k;
  return nullptr;
}

void Host_kernel::run_block(void **arguments) const {
  block.ready.clear();
  block.head = 0;
  block.finished = 0;
  block.failed = false;
  block.vote_sum = 0;
  for (auto &g : block.gatherings) g.clear();
  block.kernel = this;
  block.arguments = arguments;
  start_threads();
  state.in_block = true;
  watch_signals(true);
  bool hit = false;
#ifndef SATTN_SIM_ASAN
  if (sigsetjmp(raw_access, 1)) hit = true;
#endif
  if (!hit) {
    try {
      schedule_until_done();
    } catch (const LaunchError &) {
      block.failed = true;
    }
  }
  watch_signals(false);
  current_thread = nullptr;
  if (hit) fail("bounds", {"kernel", 0, nullptr}, "a raw access to address %p, or the thread's stack is full", raw_address);
  if (block.failed) throw LaunchError();
}

void collective(const char *what, bool aligned, uint32_t mask, void *payload, Execute execute, const Site &site) {
  Simulated *me = block.running;
  const unsigned warp = me->thread.warp;
  if (aligned) mask = all_lanes;
  check_mask(what, aligned, mask, site);
  Gathering &g = find_gathering(what, mask, site);
  g.payload[me->thread.lane] = payload;
  g.arrived |= 1u << me->thread.lane;
  if (g.arrived == mask) {
    const Gathering complete = g;
    auto &open = block.gatherings[warp];
    open.erase(open.begin() + (&g - open.data()));
    ++state.report.counters.warp_syncs;
    execute(complete.payload, mask, warp, site);
    std::vector<unsigned> lanes;
    for (unsigned l = 0; l < warp_size; ++l)
      if (mask >> l & 1) lanes.push_back(warp * warp_size + l);
    resume(lanes);
  } else {
    me->run = Run::at_warp;
    me->site = site;
    me->what = what;
  }
  yield();
}

void fiber_barrier(unsigned id, unsigned threads, bool waits, const char *file, int line) {
  Simulated *me = block.running;
  const Site site = {file, line, (const void *)((uintptr_t)file + (unsigned)line)};
  const bool done = barriers.reach(id, threads, me->thread.warp, 1u << me->thread.lane, waits, site);
  if (done) {
    std::vector<unsigned> v;
    for (unsigned i = 0; i < state.threads; ++i)
      if ((block.threads[i].run == Run::at_barrier && block.threads[i].barrier == id) || (waits && i == me->thread.linear)) v.push_back(i);
    resume(v);
    if (id == 0) {
      block.vote_result = block.vote_sum;
      block.vote_sum = 0;
    }
  } else if (waits) {
    me->run = Run::at_barrier;
    me->barrier = id;
    me->site = site;
    me->what = "a barrier";
  }
  if (waits) yield();
}

int fiber_barrier_vote(Block_vote how, int predicate, const char *file, int line) {
  block.vote_sum += predicate != 0;
  fiber_barrier(0, 0, true, file, line);
  const int sum = block.vote_result;
  // A second crossing keeps a fast thread's next vote out of this result.
  fiber_barrier(0, 0, true, file, line);
  return how == Block_vote::sum ? sum : how == Block_vote::any ? sum != 0 : sum == (int)state.threads;
}

}  // namespace sattn_sim
