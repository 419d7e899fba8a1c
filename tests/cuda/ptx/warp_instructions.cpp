// What a warp does together: shfl, vote, redux, bar.warp, ldmatrix, movmatrix, mma.
// The scheduler calls these once all lanes of the member mask are here.
#include "decoder.h"
#include "order.h"
#include "warp.h"
#include "warp_ops.h"

namespace sattn_sim {

namespace {

const Lanes &lanes_in(const Warp &w, const Operand &o) {
  return *(const Lanes *)w.in<uint32_t>(o);
}

void run_shuffle(Warp &w, const Instruction &i) {
  Lanes result;
  memcpy(result, w.in<uint32_t>(i.s[0]), sizeof result);
  uint32_t in_range;
  shuffle((Shuffle)i.option, lanes_in(w, i.s[0]), lanes_in(w, i.s[1]), lanes_in(w, i.s[2]), w.lanes, result, in_range, i.site);
  uint32_t *d = w.out<uint32_t>(i.d[0]);
  each_lane(w.lanes, [&](unsigned l) { d[l] = result[l]; });
  w.set_predicate(i.d[1], in_range);
}

void run_vote(Warp &w, const Instruction &i) {
  const uint32_t p = w.predicate(i.s[0]) & w.lanes;
  if (i.option == 0) {
    each_lane(w.lanes, [&](unsigned l) { w.set(i.d[0], l, p); });
    return;
  }
  const bool all = p == w.lanes, any = p != 0;
  const bool result = i.option == 1 ? any : i.option == 2 ? all : all || !any;
  w.set_predicate(i.d[0], result ? all_lanes : 0);
}

void run_reduction(Warp &w, const Instruction &i) {
  const uint32_t r = reduce((Reduction)i.option, lanes_in(w, i.s[0]), w.lanes);
  each_lane(w.lanes, [&](unsigned l) { w.set(i.d[0], l, r); });
}

void run_sync(Warp &w, const Instruction &) {
  // Part of a warp orders nothing: the model has one clock per warp.
  if (w.lanes == existing_lanes(w.index)) order.sync_warp(w.index);
}

void run_ldmatrix(Warp &w, const Instruction &i) {
  Lanes address, result[4];
  const Operand &base = i.address;
  for (unsigned l = 0; l < warp_size; ++l)
    address[l] = (uint32_t)((base.bits == 64 ? w.in<uint64_t>(base)[l] & ~shared_window : w.in<uint32_t>(base)[l]) + (uint64_t)i.offset);
  ldmatrix(w.index, i.d_count, i.trans, address, result, i.site);
  for (unsigned m = 0; m < i.d_count; ++m)
    for (unsigned l = 0; l < warp_size; ++l) w.set(i.d[m], l, result[m][l]);
}

void run_movmatrix(Warp &w, const Instruction &i) {
  Lanes result;
  movmatrix(lanes_in(w, i.s[0]), result);
  memcpy(w.out<uint32_t>(i.d[0]), result, sizeof result);
}

void run_mma(Warp &w, const Instruction &i) {
  Lanes in[10], d[4];
  for (unsigned k = 0; k < 10; ++k) memcpy(in[k], w.in<uint32_t>(i.s[k]), sizeof in[k]);
  mma_m16n8k16(i.option, d, in, in + 4, in + 6);
  for (unsigned k = 0; k < 4; ++k) memcpy(w.out<uint32_t>(i.d[k]), d[k], sizeof d[k]);
}

// s[9] carries the member mask of everything that has one.
void member_mask(Decoder &d, size_t k) {
  d.i.s[9] = d.source(k, 32);
}

void decode_shuffle(Decoder &d) {
  Instruction &i = d.i;
  if (!d.has("sync")) d.refuse("shuffles need .sync");
  i.option = (uint8_t)(d.has("up")     ? Shuffle::up
                       : d.has("down") ? Shuffle::down
                       : d.has("bfly") ? Shuffle::butterfly
                       : d.has("idx")  ? Shuffle::index
                                       : (d.refuse("unknown shuffle"), Shuffle::index));
  i.type = d.type();
  const auto to = d.pair(0);
  i.d[0] = d.destination(to.first, 32);
  i.d[1] = d.destination(to.second, 1);
  for (size_t k = 0; k < 3; ++k) i.s[k] = d.source(k + 1, 32);
  member_mask(d, 4);
  i.run = run_shuffle;
}

void decode_vote(Decoder &d) {
  Instruction &i = d.i;
  if (!d.has("sync")) d.refuse("votes need .sync");
  i.option = d.has("ballot") ? 0 : d.has("any") ? 1 : d.has("all") ? 2 : d.has("uni") ? 3 : 9;
  if (i.option == 9) d.refuse("unknown vote");
  const Type t = d.type();
  i.d[0] = d.destination(d.argument(0), t.bits);
  i.s[0] = d.predicate(d.argument(1));
  member_mask(d, 2);
  i.run = run_vote;
}

void decode_reduction(Decoder &d) {
  Instruction &i = d.i;
  if (!d.has("sync")) d.refuse("reductions need .sync");
  i.type = d.type();
  const bool s = i.type.is_signed();
  Reduction how = Reduction::add;
  if (d.has("min"))
    how = s ? Reduction::min_signed : Reduction::min_unsigned;
  else if (d.has("max"))
    how = s ? Reduction::max_signed : Reduction::max_unsigned;
  else if (d.has("and"))
    how = Reduction::bit_and;
  else if (d.has("or"))
    how = Reduction::bit_or;
  else if (d.has("xor"))
    how = Reduction::bit_xor;
  else if (!d.has("add"))
    d.refuse("unknown reduction");
  i.option = (uint8_t)how;
  i.d[0] = d.destination(d.argument(0), 32);
  i.s[0] = d.source((size_t)1, 32);
  member_mask(d, 2);
  if (i.type.bits != 32 || i.type.is_float()) d.refuse("only 32-bit integers");
  i.run = run_reduction;
}

void decode_ldmatrix(Decoder &d) {
  Instruction &i = d.i;
  i.aligned = true;
  if (!d.has("sync") || !d.has("aligned") || !d.has("m8n8") || !(d.has("shared") || d.has("shared::cta"))) d.refuse("form of ldmatrix");
  const size_t count = d.has("x4") ? 4 : d.has("x2") ? 2 : d.has("x1") ? 1 : 0;
  i.trans = d.has("trans");
  i.type = d.type();
  const auto to = d.list(0);
  if (!count || to.size() != count || i.type.bits != 16) d.refuse("form of ldmatrix");
  i.d_count = (uint8_t)count;
  for (size_t k = 0; k < count; ++k) i.d[k] = d.destination(to[k], 32);
  d.address(1, i.address, i.offset, Space::shared);
  i.run = run_ldmatrix;
}

void decode_mma(Decoder &d) {
  Instruction &i = d.i;
  i.aligned = true;
  for (const char *x : {"sync", "aligned", "m16n8k16", "row", "col"})
    if (!d.has(x)) d.refuse(std::string("form of mma, without .") + x);
  const Type out = d.type(), a = d.type(), b = d.type(), in = d.type();
  const bool single = out.kind == Kind::floating && out.bits == 32 && in.kind == out.kind && in.bits == 32;
  if (!single || a.bits != 16 || b.bits != 16 || a.kind != b.kind || !a.is_float()) d.refuse("types of mma");
  i.option = a.kind == Kind::bfloat;
  const auto to = d.list(0);
  std::vector<std::string> from;
  for (size_t k = 1; k < 4; ++k)
    for (const auto &x : d.list(k)) from.push_back(x);
  if (to.size() != 4 || from.size() != 10 || d.list(1).size() != 4 || d.list(2).size() != 2) d.refuse("registers of mma");
  for (size_t k = 0; k < 4; ++k) i.d[k] = d.destination(to[k], 32);
  for (size_t k = 0; k < 10; ++k) i.s[k] = d.source(from[k], 32);
  i.run = run_mma;
}

void decode_movmatrix(Decoder &d) {
  Instruction &i = d.i;
  i.aligned = true;
  for (const char *x : {"sync", "aligned", "m8n8", "trans"})
    if (!d.has(x)) d.refuse("form of movmatrix");
  d.type();
  i.d[0] = d.destination(d.argument(0), 32);
  i.s[0] = d.source((size_t)1, 32);
  i.run = run_movmatrix;
}

}  // namespace

bool decode_warp(Decoder &d) {
  const std::string &m = d.mnemonic();
  if (m == "shfl")
    decode_shuffle(d);
  else if (m == "vote")
    decode_vote(d);
  else if (m == "redux")
    decode_reduction(d);
  else if (m == "ldmatrix")
    decode_ldmatrix(d);
  else if (m == "movmatrix")
    decode_movmatrix(d);
  else if (m == "mma")
    decode_mma(d);
  else if (m == "bar" && d.has("warp")) {
    if (!d.has("sync")) d.refuse("form of bar.warp");
    member_mask(d, 0);
    d.i.option = 255;
    d.i.run = run_sync;
  } else {
    return false;
  }
  d.i.flow = Flow::warp;
  return true;
}

}  // namespace sattn_sim
