// The engines against plain C++ and against the fragment formulas of the PTX ISA.
#include "check.h"
#include "number.h"

#include <cmath>
#include <random>

using namespace sattn_sim;
using namespace selftest;

namespace {

std::mt19937 seeded(20260402);

bool succeeded(const Report &r, const char *what) {
  check(!r.failed, std::string(what) + ": " + r.text);
  return !r.failed;
}

// Matrix m, element (r, c) is m * 64 + r * 8 + c; lane l gets row l / 4, columns
// 2 (l % 4) and the next, or with .trans rows and columns exchanged.
void matrix_loads() {
  Buffer<uint32_t> in(128), out(128);
  for (unsigned i = 0; i < 128; ++i) in[i] = 2 * i | (2 * i + 1) << 16;
  for (int which = 0; which < 4; ++which) {
    if (!succeeded(run("table_ldmatrix", 1, 32, 512, {in.argument(), out.argument(), &which}), "ldmatrix")) continue;
    bool ok = true;
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned m = 0; m < (which < 2 ? 4u : 2u); ++m)
        for (unsigned e = 0; e < 2; ++e) {
          const unsigned value = out[l * 4 + m] >> (16 * e) & 0xffff, r = l / 4, c = l % 4 * 2 + e;
          ok &= value == m * 64 + (which & 1 ? c * 8 + r : r * 8 + c);
        }
    check(ok, "ldmatrix layout " + std::to_string(which));
  }
}

void matrix_products() {
  for (bool bf16 : {false, true}) {
    float a[16][16], b[16][8];
    Buffer<uint32_t> fa(128), fb(64);
    Buffer<float> d(128);
    for (auto &row : a)
      for (float &x : row) x = (float)((int)(seeded() % 17) - 8);
    for (auto &row : b)
      for (float &x : row) x = (float)((int)(seeded() % 17) - 8);
    auto encode = [&](float x) { return (uint32_t)(bf16 ? float_to_bf16(x) : float_to_half(x)); };
    for (unsigned l = 0; l < 32; ++l) {
      const unsigned g = l >> 2, t = l % 4;
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned row = i < 2 || (i >= 4 && i < 6) ? g : g + 8, column = t * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        fa[l * 4 + i / 2] |= encode(a[row][column]) << (16 * (i & 1));
      }
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = t * 2 + (i & 1) + (i >= 2 ? 8 : 0);
        fb[l * 2 + i / 2] |= encode(b[row][g]) << (16 * (i & 1));
      }
    }
    if (!succeeded(run(bf16 ? "table_mma_bf16" : "table_mma_f16", 1, 32, 0, {fa.argument(), fb.argument(), d.argument()}), "mma")) continue;
    bool ok = true;
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = i < 2 ? l >> 2 : (l >> 2) + 8, column = l % 4 * 2 + (i & 1);
        float s = (float)(i + 1);
        for (unsigned k = 0; k < 16; ++k) s += a[row][k] * b[k][column];
        ok &= d[l * 4 + i] == s;
      }
    check(ok, bf16 ? "mma layout bf16" : "mma layout f16");
  }
}

// Every half exactly; ties, limits and random floats against arithmetic in double.
double nearest(double x, int mantissa_bits, int lowest_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  int e;
  std::frexp(x, &e);
  const double unit = std::ldexp(1.0, std::max(e - 1, lowest_exponent) - mantissa_bits);
  return std::nearbyint(x / unit) * unit;
}

void half_numbers() {
  unsigned wrong = 0;
  for (unsigned h = 0; h < 65536; ++h) {
    const float f = half_to_float((uint16_t)h);
    const bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
    if (nan ? f == f : float_to_half(f) != h) ++wrong;
    const int e = (int)(h >> 10 & 31);
    const double value = (h & 0x8000 ? -1 : 1) * std::ldexp(e ? 1024 + (h & 1023) : (h & 1023), (e ? e : 1) - 25);
    if (e < 31 && (double)f != value) ++wrong;
  }
  check(!wrong, "halves that do not survive: " + std::to_string(wrong));
}

std::vector<float> interesting_floats() {
  std::vector<float> v = {0.0f,    -0.0f,   1.0f,  65504.0f, 65519.99f, 65520.0f,  1e-8f,
                          5.9e-8f, 6.1e-5f, 1e38f, 1e-40f,   INFINITY,  -INFINITY, NAN};
  std::uniform_real_distribution<float> u(-20, 20);
  for (int i = 0; i < 400; ++i) v.push_back(std::ldexp(u(seeded), (int)(seeded() % 40) - 25));
  for (unsigned h = 1; h < 0x7bff; h += 97)  // exact ties between neighbouring halves
    v.push_back((half_to_float((uint16_t)h) + half_to_float((uint16_t)(h + 1))) / 2);
  return v;
}

bool same(float a, float b) {
  return (a != a && b != b) || a == b;
}

void conversions() {
  const std::vector<float> x = interesting_floats();
  int n = (int)x.size();
  Buffer<float> in(x.size());
  Buffer<uint32_t> out(4 * x.size());
  for (size_t i = 0; i < x.size(); ++i) in[i] = x[i];
  if (!succeeded(run("convert_halves", (unsigned)(n + 127) / 128, 128, 0, {in.argument(), out.argument(), &n}), "conversions")) return;
  unsigned wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double h = nearest(x[i], 10, -14), b = nearest(x[i], 7, -126);
    if (std::fabs(h) >= 65520) h = std::copysign(INFINITY, h);
    if (std::fabs(b) > 3.3961775e38) b = std::copysign(INFINITY, b);
    wrong += !same(bits<float>(out[4 * i + 2]), (float)h);
    wrong += !same(bits<float>(out[4 * i + 3]), (float)b);
    wrong += !same(half_to_float((uint16_t)out[4 * i]), (float)h);
    wrong += !same(bf16_to_float((uint16_t)out[4 * i + 1]), (float)b);
    const size_t next = (i + 1) % x.size();
    wrong += !same(half_to_float((uint16_t)(out[4 * i] >> 16)), half_to_float((uint16_t)out[4 * next]));
    wrong += !same(bf16_to_float((uint16_t)(out[4 * i + 1] >> 16)), bf16_to_float((uint16_t)out[4 * next + 1]));
  }
  check(!wrong, "wrong conversions: " + std::to_string(wrong));
}

bool near(double got, double want, double tolerance) {
  if (want != want) return got != got;
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= tolerance * std::fabs(want) + 1e-37;
}

void single_precision() {
  const std::vector<float> x = interesting_floats();
  int n = (int)x.size();
  Buffer<float> in(x.size()), out(8 * x.size());
  for (size_t i = 0; i < x.size(); ++i) in[i] = x[i];
  if (!succeeded(run("approximate", (unsigned)(n + 127) / 128, 128, 0, {in.argument(), out.argument(), &n}), "approximations")) return;
  unsigned wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], ftz = flush(x[i]), a = std::fabs(v);
    const double want[] = {std::exp2(ftz),   std::log2(std::fabs(ftz)), 1 / ftz, std::tanh(v), std::exp(v), std::log(a),
                           1 / std::sqrt(a), v / 3 + std::sqrt(a)};
    for (size_t k = 0; k < 8; ++k) {
      const double w = std::fabs(want[k]) > 3.4028235e38 ? std::copysign(INFINITY, want[k]) : want[k];
      // the last is a sum that may cancel
      const double magnitude = k == 7 && std::isfinite(v) ? (std::fabs(v) / 3 + std::sqrt(a)) / std::fabs(w) : 1;
      if (!near(out[8 * i + k], w, 4e-7 * std::max(1.0, magnitude))) {
        if (!wrong++) printf("  function %zu of %g: %g, expected %g\n", k, v, (double)out[8 * i + k], w);
      }
    }
  }
  check(!wrong, "wrong single precision values: " + std::to_string(wrong));
}

void double_precision() {
  int n = 200;
  Buffer<double> in(200), out(800);
  std::uniform_real_distribution<double> u(-30, 30);
  for (size_t i = 0; i < 200; ++i) in[i] = u(seeded);
  if (!succeeded(run("double_precision", 2, 128, 0, {in.argument(), out.argument(), &n}), "double precision")) return;
  unsigned wrong = 0;
  for (size_t i = 0; i < 200; ++i) {
    const double v = in[i], want[] = {std::exp(v), std::log(std::fabs(v)), v / 3 + std::sqrt(std::fabs(v)), (double)(float)v + (int)v};
    for (size_t k = 0; k < 4; ++k) wrong += !near(out[4 * i + k], want[k], 1e-14);
  }
  check(!wrong, "wrong double precision values: " + std::to_string(wrong));
}

void expected_integers(long long a, long long b, long long *o) {
  const unsigned long long ua = (unsigned long long)a, ub = (unsigned long long)b | 1u;
  const int c = (int)a, d = (int)b | 1;
  const unsigned uc = (unsigned)c, ud = (unsigned)d;
  o[0] = (long long)(ua * ub);
  o[1] = (long long)((unsigned __int128)ua * ub >> 64);
  o[2] = (long long)(ua / ub);
  o[3] = (long long)(ua % ub);
  o[4] = c / (d == -1 ? 3 : d);
  o[5] = (long long)(uc % ud);
  o[6] = (long long)((uint64_t)uc * ud >> 32);
  o[7] = (long long)((ua >> (d & 63)) ^ (ub << (c & 63)));
  o[8] = c >> (d & 31);
  o[9] = __builtin_popcount(uc) + 100 * (c ? __builtin_clz(uc) : 32) + 10000 * __builtin_ffs(c);
  o[10] = (long long)(((uc << 13) | (uc >> 19)) + ud);
  o[11] = (long long)(short)c * (signed char)d + (unsigned char)c + (unsigned short)d;
  o[12] = std::min(a, b) ^ std::max((long long)c, (long long)d);
  o[13] = (long long)(((uc >> 5) & 0x7ff) | (ud << 20));
  o[14] = (long long)(float)c + (long long)(float)ud;
  o[15] = (c < d) + 2 * (uc < ud) + 4 * (a < b && c != 5) + 8 * (ua <= ub);
}

void integers() {
  int n = 300;
  Buffer<long long> in(300), out(4800);
  for (size_t i = 0; i < 300; ++i) in[i] = (long long)((uint64_t)seeded() << 32 | seeded()) >> (seeded() % 60);
  in[7] = 0;
  in[8] = -1;
  in[9] = INT64_MIN;
  in[10] = INT32_MIN;
  if (!succeeded(run("integers", 3, 128, 0, {in.argument(), out.argument(), &n}), "integers")) return;
  unsigned wrong[16] = {};
  for (size_t i = 0; i < 300; ++i) {
    long long want[16];
    expected_integers(in[i], in[(i + 1) % 300], want);
    for (size_t k = 0; k < 16; ++k) wrong[k] += out[16 * i + k] != want[k];
  }
  for (size_t k = 0; k < 16; ++k) check(!wrong[k], "integer expression " + std::to_string(k) + ": " + std::to_string(wrong[k]) + " wrong");
}

void warps() {
  Buffer<int> out(416);
  if (!succeeded(run("shuffles", 1, 32, 0, {out.argument()}), "shuffles")) return;
  bool ok[13];
  for (bool &x : ok) x = true;
  for (int t = 0; t < 32; ++t) {
    const int want[] = {((t + 5) & 31) * 3,
                        (t < 2 ? t : t - 2) * 3,
                        (t + 3 > 31 ? t : t + 3) * 3,
                        (t ^ 9) * 3,
                        (t / 8 * 8 + 2) * 3,
                        (t % 16 + 3 > 15 ? t : t + 3) * 3,
                        t ^ 1,
                        (int)0x49249249u,
                        1 + 2,
                        496,
                        31,
                        -9,
                        -1};
    for (int k = 0; k < 13; ++k) ok[k] &= out[(size_t)(32 * k + t)] == want[k];
  }
  for (int k = 0; k < 13; ++k) check(ok[k], "warp operation " + std::to_string(k));
  Buffer<int> votes(96);
  if (succeeded(run("block_votes", 1, 96, 0, {votes.argument()}), "block votes")) {
    bool right = true;
    for (size_t t = 0; t < 96; ++t) right &= votes[t] == 20 + 1000 + 2000;
    check(right, "block votes");
  }
}

int collatz(int t) {
  int steps = 0, x = t * 7 + 1;
  while (x != 1 && steps < 200) {
    x = x & 1 ? 3 * x + 1 : x >> 1;
    ++steps;
  }
  return steps;
}

int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int expected_call(int t, int n) {
  int local[16];
  for (int i = 0; i < 16; ++i) local[i] = i * n;
  for (int i = 0; i < n; ++i) local[(i * t) & 15] += i;
  int r = local[t & 15] + (t + n) * (t % 6) + (t + n);
  if (t < 12) r += fibonacci(t);
  switch (t) {
    case 0:
      return r + 1000;
    case 1:
      return r * 3;
    case 2:
      return r - 7;
    case 3:
      return r ^ 0x55;
    case 4:
      return r + local[n & 15];
    case 5:
      return -r;
    case 6:
      return r << 2;
    case 7:
      return r | 0x100;
    default:
      return r;
  }
}

void control() {
  Buffer<int> out(64);
  bool ok = succeeded(run("divergence", 1, 32, 0, {out.argument()}), "divergence");
  for (int t = 0; ok && t < 32; ++t) ok = out[(size_t)t] == collatz(t) + 1000 * collatz(t ^ 1);
  check(ok, "divergence");
  int n = 9;
  ok = succeeded(run("calls", 1, 32, 0, {out.argument(), &n}), "calls");
  for (int t = 0; ok && t < 32; ++t) ok = out[(size_t)t] == expected_call(t, n);
  check(ok, "calls, local memory, switch");
}

void addresses() {
  Buffer<uint16_t> in(128), out(128);
  for (size_t i = 0; i < 128; ++i) in[i] = (uint16_t)(i * 37);
  int64_t stride = (int64_t)1 << 33;
  bool ok = succeeded(run("wide_addresses", 1, 32, 0, {in.argument(), out.argument(), &stride}), "wide addresses");
  for (size_t i = 0; ok && i < 128; ++i) ok = out[i] == in[i ^ 2];
  check(ok, "wide addresses");
  Buffer<int> where(24 * 12);
  std::vector<void *> a = {where.argument()};
  const Report r = launch(kernel("axes"), {2, 3, 2}, {2, 3, 4}, 0, a.data(), {});
  ok = succeeded(r, "axes");
  for (int i = 0; ok && i < 24 * 12; ++i) ok = where[(size_t)i] == i / 24 * 100 + i % 24;
  check(ok, "axes");
}

}  // namespace

int main() {
  matrix_loads();
  matrix_products();
  half_numbers();
  conversions();
  single_precision();
  double_precision();
  integers();
  warps();
  control();
  addresses();
  return finish();
}
