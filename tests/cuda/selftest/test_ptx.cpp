// The PTX engine on hand-written text, so that it is tested without nvcc as well:
// single instructions against numbers from the PTX ISA's own definitions, and text
// that must be refused with the name of what is not understood.
#include "check.h"
#include "number.h"
#include "ptx.h"

#include <cmath>

using namespace sattn_sim;
using namespace selftest;

namespace {

std::string module_text(const std::string &body, const std::string &before = "") {
  return ".version 7.0\n.target sm_80\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 k_in, .param .u64 k_out)\n{\n"
         ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<16>;\n.reg .f32 %f<8>;\n.reg .b64 %rd<16>;\n.reg .f64 %fd<8>;\n"
         "ld.param.u64 %rd0, [k_in];\nld.param.u64 %rd1, [k_out];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 8;\n"
         "add.s64 %rd2, %rd2, %rd1;\n"
         "ld.global.u64 %rd4, [%rd0];\nld.global.u64 %rd5, [%rd0+8];\nld.global.u64 %rd6, [%rd0+16];\n"
         "cvt.u32.u64 %r4, %rd4;\ncvt.u32.u64 %r5, %rd5;\ncvt.u32.u64 %r6, %rd6;\nmov.b32 %f4, %r4;\nmov.b32 %f5, %r5;\n"
         "mov.b32 %f6, %r6;\nmov.b64 %fd4, %rd4;\nmov.b64 %fd5, %rd5;\ncvt.u16.u32 %h4, %r4;\ncvt.u16.u32 %h5, %r5;\nmov.u64 %rd7, 0;\n" +
         body + "\nst.global.u64 [%rd2], %rd7;\nret;\n}\n";
}

Report run_text(const std::string &text, const std::vector<uint64_t> &in, std::vector<uint64_t> &out, std::string &error,
                const Options &options = {}) {
  const auto m = Ptx_module::load(text, error);
  Report r;
  if (!m) return r;
  Buffer<uint64_t> a(8), b(32);
  for (size_t i = 0; i < in.size(); ++i) a[i] = in[i];
  void *arguments[] = {a.argument(), b.argument()};
  r = launch(*m->find("k"), {1, 1, 1}, {32, 1, 1}, 0, arguments, options);
  out.assign(b.data(), b.data() + 32);
  return r;
}

// In the snippet a, b, c are the inputs as 32, d (64-bit) the result; 64-bit inputs are A, B, C.
std::string expand(const std::string &snippet) {
  static const std::pair<char, const char *> names[] = {
      {'a', "%r4"},  {'b', "%r5"}, {'c', "%r6"}, {'A', "%rd4"}, {'B', "%rd5"}, {'C', "%rd6"}, {'x', "%f4"},
      {'y', "%f5"},  {'z', "%f6"}, {'d', "%r7"}, {'D', "%rd7"}, {'u', "%f7"},  {'X', "%fd4"}, {'Y', "%fd5"},
      {'U', "%fd7"}, {'h', "%h4"}, {'i', "%h5"}, {'j', "%h7"},  {'p', "%p1"},  {'q', "%p2"},  {'l', "%r0"}};
  std::string s;
  for (size_t k = 0; k < snippet.size(); ++k) {
    if (snippet[k] != '$') {
      s += snippet[k];
      continue;
    }
    ++k;
    for (const auto &n : names)
      if (n.first == snippet[k]) s += n.second;
  }
  return s;
}

// how the result reaches %rd7
enum class Out { word, wide, real, wide_real, half, predicate };

void expect(const std::string &snippet, Out out, uint64_t a, uint64_t b, uint64_t c, uint64_t want) {
  static const char *ends[] = {
      "cvt.u64.u32 %rd7, %r7;",   "", "mov.b32 %r7, %f7;\ncvt.u64.u32 %rd7, %r7;", "mov.b64 %rd7, %fd7;", "cvt.u64.u16 %rd7, %h7;",
      "selp.u64 %rd7, 1, 0, %p1;"};
  std::vector<uint64_t> result;
  std::string error;
  const Report r = run_text(module_text(expand(snippet) + "\n" + ends[(int)out]), {a, b, c}, result, error);
  const bool ok = error.empty() && !r.failed && result[5] == want;
  char text[200];
  snprintf(text, sizeof text, " gives %llx, expected %llx", result.empty() ? 0ull : (unsigned long long)result[5],
           (unsigned long long)want);
  check(ok, snippet + (error.empty() ? r.failed ? ": " + r.text : text : ": " + error));
}

uint64_t f(float x) {
  return bits<uint32_t>(x);
}
uint64_t fd(double x) {
  return bits<uint64_t>(x);
}

void integer_instructions() {
  expect("add.s32 $d, $a, -3;", Out::word, 1, 0, 0, 0xfffffffe);
  expect("sub.u64 $D, $A, $B;", Out::wide, 1, 2, 0, ~0ull);
  expect("mul.hi.s32 $d, $a, $b;", Out::word, (uint32_t)-7, 0x40000000, 0, 0xfffffffe);
  expect("mul.hi.u64 $D, $A, $B;", Out::wide, ~0ull, ~0ull, 0, ~0ull - 1);
  expect("mul.hi.s64 $D, $A, $B;", Out::wide, ~0ull, 5, 0, ~0ull);
  expect("mul.wide.s32 $D, $a, $b;", Out::wide, (uint32_t)-3, 7, 0, (uint64_t)-21);
  expect("mad.wide.u32 $D, $a, $b, $C;", Out::wide, 0xffffffff, 2, 10, 0x200000008);
  expect("mad.lo.s32 $d, $a, $b, $c;", Out::word, 5, 6, 7, 37);
  expect("mad.hi.u32 $d, $a, $b, $c;", Out::word, 0x80000000, 6, 7, 10);
  expect("div.s32 $d, $a, $b;", Out::word, (uint32_t)-7, 2, 0, (uint32_t)-3);
  expect("rem.s32 $d, $a, $b;", Out::word, (uint32_t)-7, 2, 0, (uint32_t)-1);
  expect("div.s32 $d, $a, $b;", Out::word, 0x80000000, 0xffffffff, 0, 0x80000000);
  expect("div.u64 $D, $A, $B;", Out::wide, ~0ull, 10, 0, 1844674407370955161ull);
  expect("min.s32 $d, $a, $b;", Out::word, (uint32_t)-7, 2, 0, (uint32_t)-7);
  expect("max.u32 $d, $a, $b;", Out::word, (uint32_t)-7, 2, 0, (uint32_t)-7);
  expect("abs.s32 $d, $a;", Out::word, (uint32_t)-7, 0, 0, 7);
  expect("neg.s64 $D, $A;", Out::wide, 7, 0, 0, (uint64_t)-7);
  expect("sad.s32 $d, $a, $b, $c;", Out::word, (uint32_t)-7, 2, 100, 109);
  expect("add.cc.u32 $d, $a, $b; addc.u32 $d, $c, 0;", Out::word, 0xffffffff, 1, 41, 42);
  expect("sub.cc.u32 $d, $a, $b; subc.u32 $d, $c, 0;", Out::word, 0, 1, 43, 42);
  expect("add.cc.s64 $D, $A, $B; addc.s64 $D, $C, 5;", Out::wide, ~0ull, 2, 1, 7);
  expect("add.u16 $j, $h, $i;", Out::half, 0xffff, 2, 0, 1);
  expect("mul.lo.s16 $j, $h, $i;", Out::half, 300, 300, 0, 90000 & 0xffff);
}

void bit_instructions() {
  expect("lop3.b32 $d, $a, $b, $c, 0x96;", Out::word, 0xf0f0, 0xcccc, 0xaaaa, (0xf0f0 ^ 0xcccc ^ 0xaaaa));
  expect("lop3.b32 $d, $a, $b, $c, 0xca;", Out::word, 0xff00, 0x1234, 0x5678, 0x1278);
  expect("prmt.b32 $d, $a, $b, 0x7531;", Out::word, 0x33221100, 0x77665544, 0, 0x77553311);
  expect("prmt.b32 $d, $a, $b, 0x8a0f;", Out::word, 0x33aa1180, 0xf7665544, 0, 0xffff80ff);
  expect("shf.l.wrap.b32 $d, $a, $b, $c;", Out::word, 0x80000001, 0x00000001, 33, 3);
  expect("shf.r.clamp.b32 $d, $a, $b, $c;", Out::word, 0x80000001, 0x00000005, 40, 5);
  expect("shf.r.wrap.b32 $d, $a, $b, $c;", Out::word, 0x80000000, 0x00000001, 4, 0x18000000);
  expect("shl.b32 $d, $a, $b;", Out::word, 1, 35, 0, 0);
  expect("shr.s32 $d, $a, $b;", Out::word, 0x80000000, 99, 0, 0xffffffff);
  expect("shr.u64 $D, $A, $b;", Out::wide, 1ull << 40, 38, 0, 4);
  expect("bfe.u32 $d, $a, 4, 8;", Out::word, 0xabcd, 0, 0, 0xbc);
  expect("bfe.s32 $d, $a, 4, 8;", Out::word, 0xabcd, 0, 0, 0xffffffbc);
  expect("bfe.s64 $D, $A, $b, $c;", Out::wide, 0x80ull << 32, 36, 4, ~7ull);
  expect("bfi.b32 $d, $a, $b, 4, 8;", Out::word, 0xff, 0x10001, 0, 0x10ff1);
  expect("popc.b64 $d, $A;", Out::word, ~0ull >> 3, 0, 0, 61);
  expect("clz.b32 $d, $a;", Out::word, 0, 0, 0, 32);
  expect("bfind.u32 $d, $a;", Out::word, 0x1000, 0, 0, 12);
  expect("bfind.s32 $d, $a;", Out::word, 0xffffefff, 0, 0, 12);
  expect("bfind.shiftamt.u32 $d, $a;", Out::word, 0x1000, 0, 0, 19);
  expect("brev.b32 $d, $a;", Out::word, 1, 0, 0, 0x80000000);
  expect("not.b64 $D, $A;", Out::wide, 5, 0, 0, ~5ull);
  expect("mov.b64 $D, {$a, $b};", Out::wide, 1, 2, 0, 0x200000001);
  expect("mov.b64 {$d, %r8}, $A;", Out::word, 0x500000007, 0, 0, 7);
  expect("mov.b32 $d, {$h, $i};", Out::word, 0x1111, 0x2222, 0, 0x22221111);
  expect("selp.b32 $d, $a, $b, 1;", Out::word, 3, 4, 0, 3);
}

void comparisons() {
  expect("setp.lt.s32 $p, $a, $b;", Out::predicate, (uint32_t)-1, 1, 0, 1);
  expect("setp.lo.u32 $p, $a, $b;", Out::predicate, (uint32_t)-1, 1, 0, 0);
  expect("setp.eq.f32 $p, $x, $y;", Out::predicate, f(NAN), f(NAN), 0, 0);
  expect("setp.ne.f32 $p, $x, $y;", Out::predicate, f(NAN), f(1), 0, 0);
  expect("setp.neu.f32 $p, $x, $y;", Out::predicate, f(NAN), f(1), 0, 1);
  expect("setp.nan.f32 $p, $x, $y;", Out::predicate, f(NAN), f(1), 0, 1);
  expect("setp.num.f32 $p, $x, $y;", Out::predicate, f(NAN), f(1), 0, 0);
  expect("setp.gt.ftz.f32 $p, $x, $y;", Out::predicate, f(1e-40f), f(0), 0, 0);
  expect("setp.gt.f32 $p, $x, $y;", Out::predicate, f(1e-40f), f(0), 0, 1);
  expect("setp.eq.s32 $q, $a, 1; setp.lt.and.s32 $p|%p3, $a, $b, !$q;", Out::predicate, 1, 2, 0, 0);
  expect("setp.eq.s32 %p3|$p, $a, $b;", Out::predicate, 1, 2, 0, 1);
  expect("setp.ge.f64 $p, $X, $Y;", Out::predicate, fd(2), fd(2), 0, 1);
  expect("set.lt.u32.s32 $d, $a, $b;", Out::word, (uint32_t)-1, 1, 0, 0xffffffff);
  expect("set.lt.f32.f32 $u, $x, $y;", Out::real, f(1), f(2), 0, f(1));
  expect("testp.infinite.f32 $p, $x;", Out::predicate, f(INFINITY), 0, 0, 1);
  expect("testp.subnormal.f32 $p, $x;", Out::predicate, f(1e-40f), 0, 0, 1);
  expect("mov.pred $q, 1; xor.pred $p, $q, $q; not.pred $p, $p;", Out::predicate, 0, 0, 0, 1);
}

void float_instructions() {
  expect("add.f32 $u, $x, $y;", Out::real, f(1), f(2), 0, f(3));
  expect("add.rz.f32 $u, $x, $y;", Out::real, f(1), f(0x1.8p-24f), 0, f(1));
  expect("add.rp.f32 $u, $x, $y;", Out::real, f(1), f(0x1p-40f), 0, f(std::nextafterf(1, 2)));
  expect("fma.rm.f32 $u, $x, $y, $z;", Out::real, f(1), f(1), f(-0x1p-40f), f(std::nextafterf(1, 0)));
  expect("fma.rn.sat.f32 $u, $x, $y, $z;", Out::real, f(3), f(4), f(5), f(1));
  expect("mul.ftz.f32 $u, $x, $y;", Out::real, f(1e-30f), f(-1e-15f), 0, f(-0.0f));
  expect("max.f32 $u, $x, $y;", Out::real, f(NAN), f(2), 0, f(2));
  expect("max.NaN.f32 $u, $x, $y;", Out::real, f(NAN), f(2), 0, 0x7fc00000);
  expect("max.f32 $u, $x, $y;", Out::real, f(-0.0f), f(0.0f), 0, f(0.0f));
  expect("min.f32 $u, $x, $y;", Out::real, f(0.0f), f(-0.0f), 0, f(-0.0f));
  expect("abs.ftz.f32 $u, $x;", Out::real, f(-3), 0, 0, f(3));
  expect("div.rn.f32 $u, $x, $y;", Out::real, f(1), f(3), 0, f(1.0f / 3));
  expect("rcp.approx.ftz.f32 $u, $x;", Out::real, f(4), 0, 0, f(0.25f));
  expect("sqrt.rn.f32 $u, $x;", Out::real, f(2), 0, 0, f(std::sqrt(2.0f)));
  expect("ex2.approx.ftz.f32 $u, $x;", Out::real, f(-3), 0, 0, f(0.125f));
  expect("ex2.approx.ftz.f32 $u, $x;", Out::real, f(-INFINITY), 0, 0, 0);
  expect("lg2.approx.f32 $u, $x;", Out::real, f(8), 0, 0, f(3));
  expect("copysign.f32 $u, $x, $y;", Out::real, f(-1), f(5), 0, f(-5));
  expect("fma.rn.f64 $U, $X, $Y, $X;", Out::wide_real, fd(2), fd(3), 0, fd(8));
  // halves: 1 + 2^-11 ties to even, in both places of a pair
  expect("add.f16 $j, $h, $i;", Out::half, 0x3c00, 0x1000, 0, 0x3c00);
  expect("fma.rn.f16x2 $d, $a, $b, $c;", Out::word, 0x40003c00, 0x42004400, 0x3c003c00, 0x47004500);
  expect("mul.bf16x2 $d, $a, $b;", Out::word, 0x40003f80, 0x40404040, 0, 0x40c04040);
  expect("max.bf16x2 $d, $a, $b;", Out::word, 0x40003f80, 0xc0404040, 0, 0x40004040);
}

void conversions() {
  expect("cvt.rni.s32.f32 $d, $x;", Out::word, f(2.5f), 0, 0, 2);
  expect("cvt.rzi.s32.f32 $d, $x;", Out::word, f(-2.7f), 0, 0, (uint32_t)-2);
  expect("cvt.rmi.s32.f32 $d, $x;", Out::word, f(-2.2f), 0, 0, (uint32_t)-3);
  expect("cvt.rzi.u32.f32 $d, $x;", Out::word, f(-1), 0, 0, 0);
  expect("cvt.rzi.s32.f32 $d, $x;", Out::word, f(1e20f), 0, 0, 0x7fffffff);
  expect("cvt.rzi.s32.f32 $d, $x;", Out::word, f(NAN), 0, 0, 0);
  expect("cvt.rzi.u64.f32 $D, $x;", Out::wide, f(0x1p40f), 0, 0, 1ull << 40);
  expect("cvt.rn.f32.s32 $u, $a;", Out::real, 16777217, 0, 0, f(16777216));
  expect("cvt.rz.f32.u32 $u, $a;", Out::real, 16777219, 0, 0, f(16777218));
  expect("cvt.rn.f32.u64 $u, $A;", Out::real, ~0ull, 0, 0, f(0x1p64f));
  expect("cvt.s64.s8 $D, $a;", Out::wide, 0x80, 0, 0, (uint64_t)-128);
  expect("cvt.s32.s8 $d, $a;", Out::word, 0x1ff, 0, 0, 0xffffffff);
  expect("cvt.u32.u8 $d, $a;", Out::word, 0x1ff, 0, 0, 0xff);
  expect("cvt.sat.u8.s32 $d, $a;", Out::word, 300, 0, 0, 255);
  expect("cvt.sat.f32.f32 $u, $x;", Out::real, f(-4), 0, 0, f(0));
  expect("cvt.rn.f16.f32 $j, $x;", Out::half, f(65520), 0, 0, 0x7c00);
  expect("cvt.rz.f16.f32 $j, $x;", Out::half, f(65520), 0, 0, 0x7bff);
  expect("cvt.rn.f16x2.f32 $d, $x, $y;", Out::word, f(2), f(1), 0, 0x40003c00);
  expect("cvt.rn.bf16x2.f32 $d, $x, $y;", Out::word, f(2), f(1), 0, 0x40003f80);
  expect("cvt.rn.relu.bf16x2.f32 $d, $x, $y;", Out::word, f(-2), f(1), 0, 0x00003f80);
  expect("cvt.f32.bf16 $u, $h;", Out::real, 0x3f80, 0, 0, f(1));
  expect("cvt.f32.f16 $u, $h;", Out::real, 0x0001, 0, 0, f(0x1p-24f));
  expect("cvt.rni.f32.f32 $u, $x;", Out::real, f(3.5f), 0, 0, f(4));
  expect("cvt.rn.f32.f64 $u, $X;", Out::real, fd(0.1), 0, 0, f(0.1f));
}

void atomics_and_specials() {
  // all 32 lanes on one word; lane 5 stores what it saw
  const std::string word = "setp.eq.s32 $p, $l, 0; .shared .align 8 .b8 s[16]; @$p st.shared.u32 [s], $a; bar.sync 0; ";
  auto after = [&](const std::string &op) { return word + op + " bar.sync 0; ld.shared.u32 $d, [s];"; };
  expect(after("red.shared.add.u32 [s], $b;"), Out::word, 7, 2, 0, 71);
  expect(after("atom.shared.inc.u32 $d, [s], $b;"), Out::word, 0, 6, 0, 32 % 7);
  expect(after("red.shared.max.s32 [s], $b;"), Out::word, (uint32_t)-9, (uint32_t)-4, 0, (uint32_t)-4);
  expect(after("atom.shared.cas.b32 $d, [s], $b, $c;"), Out::word, 1, 1, 9, 9);
  expect(after("atom.shared.exch.b32 $d, [s], $b;"), Out::word, 1, 5, 9, 5);
  expect("mov.u32 $d, %lanemask_lt;", Out::word, 0, 0, 0, 31);
  expect("mov.u32 $d, %lanemask_ge;", Out::word, 0, 0, 0, 0xffffffe0);
  expect("mov.u32 $d, %ntid.x;", Out::word, 0, 0, 0, 32);
  expect("mul.lo.u32 %r8, $l, 0x10001; movmatrix.sync.aligned.m8n8.trans.b16 $d, %r8;", Out::word, 0, 0, 0, 12 << 16 | 8);
  expect("vote.sync.uni.pred $p, 1, -1;", Out::predicate, 0, 0, 0, 1);
  expect("barrier.cta.red.popc.aligned.u32 $d, 0, 1;", Out::word, 0, 0, 0, 32);
}

void branches() {
  expect(".local .align 4 .b8 depot[64]; mov.u64 %rd8, depot; cvta.local.u64 %rd9, %rd8; st.u32 [%rd9+8], $a; ld.local.u32 $d, [%rd8+8];",
         Out::word, 77, 0, 0, 77);
  expect(
      "and.b32 %r8, $l, 3;\nbrx.idx %r8, table;\ntable: .branchtargets t0, t1, t2, t3;\nt0: mov.u32 $d, 10; bra t4;\n"
      "t1: mov.u32 $d, 11; bra t4;\nt2: mov.u32 $d, 12; bra t4;\nt3: mov.u32 $d, 13;\nt4:",
      Out::word, 0, 0, 0, 11);
}

// What the message must name, and the text that must not be swallowed.
void refusals() {
  const std::pair<const char *, const char *> bodies[] = {
      {"wgmma.fence.sync.aligned;", "wgmma"},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$u,$u,$u,$u}, {$a,$a,$a,$a}, {$b,$b}, {$x,$x,$x,$x};", "m16n8k8"},
      {"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {$d,$d}, {$a,$a,$a,$a}, {$b,$b}, {$a,$a};", "mma"},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b8 {$d,$d,$d,$d}, [$a];", "ldmatrix"},
      {"cp.async.bulk.commit_group;", ".bulk"},
      {"cp.async.cg.shared.global [$a], [$A], 8;", "cp.async"},
      {"add.sat.s32 $d, $a, $b;", ".sat"},
      {"add.f32 $u, $x;", "operands"},
      {"add.s32 $d, $a, $A;", "%rd4"},
      {"add.s32 $d, $a, %r99;", "%r99"},
      {"ld.global.b128 $d, [$A];", "b128"},
      {"ld.global.future.u32 $d, [$A];", ".future"},
      {"match.any.sync.b32 $d, $a, -1;", "match"},
      {"activemask.b32 $d;", "activemask"},
      {"mov.u32 $d, %smid;", "%smid"},
      {"bra nowhere;", "nowhere"},
      {"call somewhere;", "somewhere"},
      {"call (%r7), %rd4, ();", "indirect"},
      {"cvt.rna.tf32.f32 $d, $x;", "cvt"},
      {"atom.global.add.noftz.f16x2 $d, [$A], $a;", "atom"},
      {"red.global.xor.f32 [$A], $x;", "red"},
      {"setp.weird.s32 $p, $a, $b;", "comparison"},
      {"tex.2d.v4.f32.s32 {$u,$u,$u,$u}, [$A, {$a,$b}];", "tex"},
      {".surfref s;", ".surfref"},
  };
  for (const auto &b : bodies) {
    std::string error;
    std::vector<uint64_t> out;
    run_text(module_text(expand(b.first)), {1, 1, 1}, out, error);
    check(error.find(b.second) != std::string::npos && error.find("line") != std::string::npos,
          std::string("refusal of ") + b.first + ": " + (error.empty() ? "none" : error));
  }
  std::string error;
  check(!Ptx_module::load("this is not PTX", error) && !error.empty(), "text that is not PTX");
  error.clear();
  check(!Ptx_module::load(".version 7.0\n.target sm_80\n.address_size 32\n", error) && !error.empty(), "32-bit addresses");
}

// Errors of a run, with a site.
void run_time_errors() {
  const std::pair<const char *, const char *> bodies[] = {
      {"div.s32 $d, $a, $b;", "arithmetic"},
      {"trap;", "trap"},
      {"ld.global.u32 $d, [$A];", "bounds"},
      {"ld.global.u64 $D, [%rd0+4];", "align"},
      {"st.global.u64 [%rd0+60], $D;", "bounds"},
      {"ld.shared.u32 $d, [$a];", "bounds"},
      {".local .align 4 .b8 depot[8]; mov.u64 %rd8, depot; ld.local.u32 $d, [%rd8+8];", "bounds"},
      {"l: bar.warp.sync 3;", "sync"},
      {"bar.sync 20;", "sync"},
      {"bar.sync 1, 48;", "sync"},
      {"setp.lt.u32 $p, $l, 4; @$p bar.sync 0;", "deadlock"},
  };
  for (const auto &b : bodies) {
    std::string error;
    std::vector<uint64_t> out;
    const Report r = run_text(module_text(expand(b.first)), {1, 0, 0}, out, error);
    const bool also = std::string(b.second) == "deadlock" && r.kind == "sync";
    check(r.failed && (r.kind == b.second || also), std::string(b.first) + ": expected " + b.second + ", got " + error + r.text);
  }
}

void module_variables() {
  std::string error;
  std::vector<uint64_t> out;
  const std::string variables =
      ".const .align 4 .b8 c[8] = {1, 0, 0, 0, 2};\n.global .align 4 .u32 g[2] = {30, 40};\n.global .align 8 .u64 h;\n";
  const std::string body =
      "mov.u64 %rd8, c; ld.const.u32 %r7, [%rd8+4]; mov.u64 %rd9, g; ld.global.u32 %r8, [%rd9+4]; ld.global.u32 %r9, [g];"
      "add.s32 %r7, %r7, %r8; add.s32 %r7, %r7, %r9; cvt.u64.u32 %rd7, %r7;";
  const Report r = run_text(module_text(body, variables), {0, 0, 0}, out, error);
  check(error.empty() && !r.failed && out[3] == 72, "module variables: " + error + r.text);
}

}  // namespace

int main() {
  integer_instructions();
  bit_instructions();
  comparisons();
  float_instructions();
  conversions();
  atomics_and_specials();
  branches();
  refusals();
  run_time_errors();
  module_variables();
  return finish();
}
