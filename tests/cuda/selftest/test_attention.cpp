// The attention kernel against a dense reference in double, under every schedule.
//
//   test_attention          the sweep
//   test_attention quick    two shapes, up to the first failure: for mutation tests
//   test_attention time     timings of the engine
#include "attention_params.h"
#include "check.h"
#include "number.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

using namespace sattn_sim;
using namespace selftest;

namespace {

struct Case {
  int n, window, heads;
  bool bf16;
  unsigned seed;
};

struct Mode {
  const char *name;
  Schedule schedule;
  unsigned seed;
  bool early;
};
const Mode modes[] = {{"fifo", Schedule::fifo, 1, false},
                      {"reverse", Schedule::reverse, 1, false},
                      {"lifo, early copies", Schedule::lifo, 1, true},
                      {"random", Schedule::random, 7, false},
                      {"random, early copies", Schedule::random, 9, true}};

constexpr int d = 64;

struct Problem {
  Case c;
  Buffer<uint16_t> q, k, v, o;
  Buffer<float> lse;
  Buffer<int32_t> order;
  explicit Problem(const Case &x)
      : c(x),
        q(size()),
        k(size()),
        v(size()),
        o(size(), 0xff),
        lse((size_t)x.heads * (size_t)x.n, 0xff),
        order((size_t)x.heads * (size_t)x.n) {
    std::mt19937 random(c.seed);
    std::normal_distribution<float> normal;
    for (auto *b : {&q, &k, &v})
      for (size_t i = 0; i < size(); ++i) (*b)[i] = encode(normal(random));
    for (int h = 0; h < c.heads; ++h) {
      int32_t *first = order.data() + h * c.n;
      std::iota(first, first + c.n, 0);
      std::shuffle(first, first + c.n, random);
    }
  }
  size_t size() const { return (size_t)c.heads * (size_t)c.n * d; }
  uint16_t encode(float x) const { return c.bf16 ? float_to_bf16(x) : float_to_half(x); }
  double value(Buffer<uint16_t> &b, int head, int row, int e) {
    const uint16_t x = b[((size_t)head * (size_t)c.n + (size_t)row) * d + (size_t)e];
    return c.bf16 ? bf16_to_float(x) : half_to_float(x);
  }

  Report launch_with(const Options &options) {
    selftest_attention_params p = {};
    p.q = q.data();
    p.k = k.data();
    p.v = v.data();
    p.o = o.data();
    p.lse = lse.data();
    p.order = order.data();
    p.head_stride = (int64_t)c.n * d;
    p.row_stride = d;
    p.n = c.n;
    p.window = c.window;
    p.scale = 0.125f;
    p.scale_log2 = 0.125f * 1.44269504f;
    void *arguments[] = {&p};
    return launch(kernel(c.bf16 ? "selftest_attention_bf16" : "selftest_attention_f16"),
                  {(unsigned)(c.n + selftest_rows - 1) / selftest_rows, (unsigned)c.heads, 1}, {selftest_threads, 1, 1},
                  SELFTEST_ATTENTION_SHARED, arguments, options);
  }

  bool row_is_right(int head, int row, const std::vector<int> &slot) {
    std::vector<double> s((size_t)c.n, -INFINITY), out(d, 0);
    double top = -INFINITY, sum = 0;
    for (int j = 0; j <= row; ++j) {
      if (std::abs(slot[(size_t)row] - slot[(size_t)j]) >= c.window) continue;
      double a = 0;
      for (int e = 0; e < d; ++e) a += value(q, head, row, e) * value(k, head, j, e);
      s[(size_t)j] = a * 0.125;
      top = std::max(top, a * 0.125);
    }
    for (int j = 0; j <= row; ++j) {
      const double w = std::exp(s[(size_t)j] - top);
      sum += w;
      for (int e = 0; w > 0 && e < d; ++e) out[(size_t)e] += w * value(v, head, j, e);
    }
    const double tolerance = c.bf16 ? 1.6e-2 : 2e-3, expected = top + std::log(sum);
    bool ok = std::fabs(lse[(size_t)(head * c.n + row)] - expected) <= 1e-4 * (1 + std::fabs(expected));
    for (int e = 0; e < d; ++e) {
      const double x = out[(size_t)e] / sum;
      ok &= std::fabs(value(o, head, row, e) - x) <= tolerance * (1 + std::fabs(x));
    }
    return ok;
  }

  int wrong_rows() {
    int wrong = 0;
    for (int h = 0; h < c.heads; ++h) {
      std::vector<int> slot((size_t)c.n);
      for (int i = 0; i < c.n; ++i) slot[(size_t)order[(size_t)(h * c.n + i)]] = i;
      for (int i = 0; i < c.n; ++i) wrong += !row_is_right(h, i, slot);
    }
    return wrong;
  }
};

Options options_of(const Mode &m) {
  Options o;
  o.schedule = m.schedule;
  o.seed = m.seed;
  o.early_copies = m.early;
  return o;
}

void run_case(const Case &c, const Mode &m) {
  Problem p(c);
  const Report r = p.launch_with(options_of(m));
  const int wrong = r.failed ? 0 : p.wrong_rows();
  const std::string what = "n " + std::to_string(c.n) + " window " + std::to_string(c.window) + (c.bf16 ? " bf16 " : " f16 ") + m.name +
                           " seed " + std::to_string(c.seed) + ": ";
  check(!r.failed && !wrong, what + (r.failed ? r.text : std::to_string(wrong) + " wrong rows"));
}

void no_bank_conflicts() {
  Problem p({257, 40, 2, false, 1});
  Options o;
  o.count_banks = true;
  const Report r = p.launch_with(o);
  const Counters &c = r.counters;
  check(!r.failed && c.ldmatrix > 0 && c.ldmatrix_conflicts == 0, "ldmatrix conflicts: " + std::to_string(c.ldmatrix_conflicts));
  check(c.async_copies > 0 && c.async_conflicts == 0, "cp.async conflicts: " + std::to_string(c.async_conflicts));
  check(c.shared_accesses > 0 && c.shared_conflicts == 0, "shared conflicts: " + std::to_string(c.shared_conflicts));
}

void time_engine() {
  for (int n : {256, 512, 1024, 2048})
    for (int window : {64, n}) {
      if ((long)n * window > 1200000) continue;
      Problem p({n, window, 2, false, 1});
      const auto start = std::chrono::steady_clock::now();
      const Report r = p.launch_with({});
      const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      printf("n %d window %d heads 2: %.3f s, %llu mma, %llu instructions%s\n", n, window, t, r.counters.mma, r.counters.instructions,
             r.failed ? r.text.c_str() : "");
    }
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  if (what == "time") {
    time_engine();
    return 0;
  }
  if (what == "quick") {
    for (const Mode &m : modes) {
      if (!failed) run_case({257, 40, 2, false, 1}, m);
      if (!failed) run_case({200, 300, 1, true, 2}, m);
    }
    if (!failed) no_bank_conflicts();
    return finish();
  }
  for (int n : {1, 2, 15, 63, 64, 65, 129, 200, 257})
    for (int window : {1, 7, 64, 100, 400})
      for (bool bf16 : {false, true}) run_case({n, window, 2, bf16, 1000u + (unsigned)n}, modes[0]);
  for (const Mode &m : modes)
    for (int n : {65, 257}) run_case({n, 100, 2, n == 65, 2000u + (unsigned)n}, m);
  no_bank_conflicts();
  return finish();
}
