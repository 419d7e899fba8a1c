// Every mistake is caught under every schedule and called by its kind; right kernels
// give right values.
#include "check.h"
#include "fiber.h"

#include <sys/mman.h>

using namespace sattn_sim;
using namespace selftest;

namespace {

struct Memory {
  Buffer<int> in{256}, out{256};
  Memory() {
    for (int i = 0; i < 256; ++i) in[(size_t)i] = i * 3;
  }
};

std::vector<Options> all_options() {
  std::vector<Options> v(5);
  v[1].schedule = Schedule::reverse;
  v[2].schedule = Schedule::lifo;
  v[2].early_copies = true;
  v[3].schedule = Schedule::random;
  v[3].seed = 5;
  v[4].schedule = Schedule::random;
  v[4].seed = 6;
  v[4].early_copies = true;
  return v;
}

enum class Takes { out, in, both };

// kinds: those that describe the mistake; which comes first may depend on the schedule
void wrong(const std::string &name, std::vector<std::string> kinds, Takes takes, unsigned grid = 1, unsigned block = 32,
           size_t shared = 0) {
  for (const Options &o : all_options()) {
    Memory m;
    std::vector<void *> a;
    if (takes != Takes::out) a.push_back(m.in.argument());
    if (takes != Takes::in) a.push_back(m.out.argument());
    const Report r = run(name, grid, block, shared, a, o);
    bool ok = false;
    for (const auto &k : kinds) ok |= r.failed && r.kind == k;
    check(ok, name + ": expected " + kinds[0] + ", got " + (r.failed ? r.text : "success"));
    if (o.schedule == Schedule::fifo) printf("%-30s %s\n", name.c_str(), r.text.c_str());
  }
}

template <class F>
void right(const std::string &name, Takes takes, unsigned grid, unsigned block, size_t count, F expected, size_t shared = 0) {
  for (const Options &o : all_options()) {
    Memory m;
    std::vector<void *> a;
    if (takes != Takes::out) a.push_back(m.in.argument());
    a.push_back(m.out.argument());
    const Report r = run(name, grid, block, shared, a, o);
    bool ok = !r.failed;
    for (size_t i = 0; ok && i < count; ++i) ok = m.out[i] == expected((int)i);
    check(ok, name + ": " + (r.failed ? r.text : "wrong values"));
  }
}

void right_kernels() {
  right("right_reverse", Takes::both, 1, 256, 256, [](int i) { return (255 - i) * 3; });
  right("right_warp_exchange", Takes::out, 1, 64, 64, [](int i) { return i ^ 1; });
  right("right_bytes", Takes::out, 1, 64, 64, [](int i) { return 63 - i; });
  right("right_shuffle_half", Takes::out, 1, 32, 32, [](int i) { return i < 16 ? i ^ 8 : i; });
  right("right_global_in_block", Takes::out, 1, 64, 128, [](int i) { return i < 64 ? i : (i - 64) ^ 32; });
  right("right_named_barriers", Takes::out, 1, 64, 32, [](int i) { return 30 * (31 - i) + 3; });
  right("right_atomics", Takes::out, 3, 64, 7, [](int i) {
    const int values[] = {192, 191, -1, 0, 128, 128, 128};
    return values[i];
  });
  right("right_copies", Takes::both, 1, 32, 32, [](int i) {
    const int t = 31 - i, n = t < 16 ? 4 : t % 4, weight[] = {1, 3, 5, 7};
    int sum = 0;
    for (int k = 0; k < n; ++k) sum += weight[k] * 3 * (4 * t + k);
    return sum;
  });
  right("right_narrow_copies", Takes::both, 1, 32, 32, [](int i) { return ((31 - i) & 1 ? 3 * (31 - i) : 0) + 3000 * i; });
  right(
      "right_but_bank_conflicts", Takes::out, 1, 32, 32, [](int i) { return i; }, 4096);
}

void wrong_kernels() {
  wrong("wrong_reverse_without_barrier", {"init", "race"}, Takes::both, 1, 256);
  wrong("wrong_write_after_read", {"race"}, Takes::out, 1, 64);
  wrong("wrong_warp_exchange", {"race", "init"}, Takes::out, 1, 64);
  wrong("wrong_warp_for_block", {"race", "init"}, Takes::out, 1, 64);
  wrong("wrong_shared_bounds", {"bounds"}, Takes::out);
  wrong("wrong_dynamic_bounds", {"bounds"}, Takes::out, 1, 32, 64);
  wrong("wrong_unwritten", {"init"}, Takes::out);
  wrong("wrong_barrier_in_branch", {"sync", "deadlock"}, Takes::out, 1, 64);
  wrong("wrong_two_barriers", {"sync"}, Takes::out, 1, 64);
  wrong("wrong_deadlock", {"deadlock"}, Takes::out, 1, 64);
  wrong("wrong_shuffle_outside_mask", {"sync"}, Takes::out);
  wrong("wrong_not_in_own_mask", {"sync"}, Takes::out);
  wrong("wrong_global_race", {"race"}, Takes::out, 2);
  wrong("wrong_global_read_write", {"race"}, Takes::out, 2);
  wrong("wrong_global_in_block", {"race"}, Takes::out, 1, 64);
  wrong("wrong_read_only_path", {"race"}, Takes::out);
  wrong("wrong_global_bounds", {"bounds"}, Takes::both);
  wrong("wrong_atomic_and_store", {"race"}, Takes::out, 1, 64);
  wrong("wrong_named_barriers", {"race", "sync"}, Takes::out, 1, 64);
  wrong("wrong_copy_without_wait", {"async"}, Takes::both);
  wrong("wrong_copy_never_waited", {"async"}, Takes::in);
  wrong("wrong_copy_alignment", {"align"}, Takes::in);
}

void raw_access() {
#ifndef SATTN_SIM_ASAN
  // the address sanitizer reports such an access by itself, and ends the program
  // an address that is unmapped for certain
  int *p = (int *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(p, 4096);
  p -= 4096 * 64;
  const Report r = run("wrong_raw_store", 1, 32, 0, {&p});
  check(r.failed && r.kind == "bounds", "raw store: " + r.text);
#endif
}

void conflicts_are_counted() {
  Memory m;
  Options o;
  o.count_banks = true;
  const Report r = run("right_but_bank_conflicts", 1, 32, 4096, {m.out.argument()}, o);
  check(!r.failed && r.counters.shared_accesses == 2 && r.counters.shared_conflicts == 62,
        "bank conflicts: " + std::to_string(r.counters.shared_conflicts) + " in " + std::to_string(r.counters.shared_accesses));
}

void shapes_are_checked() {
  Memory m;
  check(run("right_reverse", 1, 257, 0, {m.in.argument(), m.out.argument()}).kind == "launch", "a block over the launch bounds");
  check(run("right_reverse", 0, 256, 0, {m.in.argument(), m.out.argument()}).kind == "launch", "an empty grid");
  check(run("right_reverse", 1, 256, 300 << 10, {m.in.argument(), m.out.argument()}).kind == "launch", "too much shared memory");
}

void other_device() {
  Memory m;
  Options o;
  o.device = 1;
  check(run("right_reverse", 1, 256, 0, {m.in.argument(), m.out.argument()}, o).kind == "bounds", "memory of another device");
}

}  // namespace

int main() {
  right_kernels();
  wrong_kernels();
  raw_access();
  conflicts_are_counted();
  shapes_are_checked();
  other_device();
  return finish();
}
