// Branches, calls, returns and block barriers: decoded here, carried out by the scheduler.
#include "decoder.h"
#include "warp.h"

namespace sattn_sim {

namespace {

std::vector<std::string> names_in(std::string list) {
  list = trim(list);
  if (!list.empty() && list.front() == '(') list = list.substr(1, list.size() - 2);
  std::vector<std::string> v;
  for (const auto &x : split(list, ','))
    if (!trim(x).empty()) v.push_back(trim(x));
  return v;
}

// call (result), name, (parameters); the result and the list may be absent. Offsets of
// the caller's .param variables are kept as targets: results first.
void decode_call(Decoder &d) {
  Instruction &i = d.i;
  i.flow = Flow::call;
  d.has("uni");
  size_t k = 0;
  std::vector<std::string> results, parameters;
  if (d.argument(0).front() == '(') results = names_in(d.argument(k++));
  const std::string name = d.argument(k++);
  if (name.front() == '%') d.refuse("indirect calls are not supported");
  if (k < d.arguments()) parameters = names_in(d.argument(k++));
  if (k < d.arguments()) d.refuse("indirect calls are not supported");
  auto offset = [&](const std::string &n) {
    const auto p = d.scope.parameters.find(n);
    if (p == d.scope.parameters.end()) d.refuse("unknown parameter " + n);
    return p->second.offset;
  };
  i.d_count = (uint8_t)results.size();
  for (const auto &r : results) i.targets.push_back(offset(r));
  for (const auto &p : parameters) i.targets.push_back(offset(p));
  d.scope.module.names.emplace_back(new std::string(name));
  i.name = d.scope.module.names.back()->c_str();
}

// bar.sync, bar.arrive, bar.red, barrier.*; option: 0 none, 1 popc, 2 and, 3 or
void decode_barrier(Decoder &d) {
  Instruction &i = d.i;
  i.flow = Flow::barrier;
  d.has("cta");
  d.has("aligned");
  const bool sync = d.has("sync"), arrive = d.has("arrive"), reduces = d.has("red");
  if (sync + arrive + reduces != 1) d.refuse("unknown barrier");
  i.waits = !arrive;
  size_t k = 0;
  if (reduces) {
    i.option = d.has("popc") ? 1 : d.has("and") ? 2 : d.has("or") ? 3 : 9;
    if (i.option == 9) d.refuse("unknown reduction");
    const Type t = d.type();
    i.d[0] = d.destination(d.argument(k++), t.bits);
  }
  i.s[0] = d.source(k++, 32);
  const size_t left = d.arguments() - k - (reduces ? 1 : 0);
  if (left > 1) d.refuse("wrong number of operands");
  i.s_count = 1;
  if (left == 1) {
    i.s[1] = d.source(k++, 32);
    i.s_count = 2;
  }
  if (reduces) i.s[2] = d.predicate(d.argument(k));
}

void trap(Warp &w, const Instruction &i) {
  state.thread = w.thread((unsigned)__builtin_ctz(w.lanes));
  fail("trap", i.site, "the kernel stopped itself");
}
void nothing(Warp &, const Instruction &) {}

}  // namespace

bool decode_control(Decoder &d) {
  Instruction &i = d.i;
  const std::string &m = d.mnemonic();
  if (m == "bra") {
    i.flow = Flow::branch;
    d.has("uni");
  } else if (m == "brx") {
    i.flow = Flow::indirect_branch;
    if (!d.has("idx")) d.refuse("only brx.idx");
    d.has("uni");
    i.s[0] = d.source((size_t)0, 32);
  } else if (m == "call") {
    decode_call(d);
  } else if (m == "ret") {
    i.flow = Flow::ret;
    d.has("uni");
  } else if (m == "exit") {
    i.flow = Flow::exit;
  } else if (m == "bar" || m == "barrier") {
    decode_barrier(d);
  } else if (m == "trap") {
    i.run = trap;
  } else if (m == "nanosleep") {
    d.type();
    i.run = nothing;
  } else {
    return false;
  }
  return true;
}

}  // namespace sattn_sim
