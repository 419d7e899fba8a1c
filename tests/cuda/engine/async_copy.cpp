#include "async_copy.h"
#include "global_memory.h"
#include "shared_memory.h"

#include <cstring>

namespace sattn_sim {

namespace {

struct Copy {
  uint32_t shared;
  unsigned char *to;
  const void *from;
  unsigned bytes, source_bytes;
  int group;
};
struct Thread_copies {
  std::vector<Copy> copies;
  int groups = 0;
};
std::vector<Thread_copies> of_thread;

void deliver(const Copy &c) {
  if (c.source_bytes) memcpy(c.to, c.from, c.source_bytes);
  memset(c.to + c.source_bytes, 0, c.bytes - c.source_bytes);
}

}  // namespace

void async_reset(unsigned threads) {
  of_thread.resize(threads);
  for (auto &t : of_thread) {
    t.copies.clear();
    t.groups = 0;
  }
}

void async_copy(unsigned thread, uint32_t shared, const void *global, unsigned bytes, unsigned source_bytes, const Site &site) {
  ++state.report.counters.async_copies;
  if (source_bytes > bytes) fail("async", site, "cp.async of %u bytes with a source of %u", bytes, source_bytes);
  if ((uintptr_t)global % bytes) fail("align", site, "cp.async source %p is not a multiple of %u", global, bytes);
  if (source_bytes) global_read_check(thread, global, source_bytes, 1, Global_read::read_only, site);
  Copy c{shared, shared_copy_begin(thread, shared, bytes, site), global, bytes, source_bytes, of_thread[thread].groups};
  if (state.options.early_copies) deliver(c);
  of_thread[thread].copies.push_back(c);
}

void async_commit(unsigned thread) {
  ++of_thread[thread].groups;
}

void async_wait(unsigned thread, int pending) {
  Thread_copies &t = of_thread[thread];
  size_t kept = 0;
  for (const Copy &c : t.copies) {
    if (pending >= 0 && c.group >= t.groups - pending) {
      t.copies[kept++] = c;
      continue;
    }
    if (!state.options.early_copies) deliver(c);
    shared_copy_end(thread, c.shared, c.bytes);
  }
  t.copies.resize(kept);
}

void async_thread_exits(unsigned thread, const Site &site) {
  const size_t left = of_thread[thread].copies.size();
  if (left) fail("async", site, "the thread exits with %zu cp.async copies not waited for", left);
}

}  // namespace sattn_sim
