// Running a block of interpreted PTX. A warp runs the group of lanes that is deepest
// in calls and lowest in the code, so that branches come together again where the
// compiler laid them out; lanes wait for each other only at collectives and barriers.
#include "execute.h"
#include "async_copy.h"
#include "barrier.h"
#include "shared_memory.h"

#include <algorithm>
#include <cstring>

namespace sattn_sim {

namespace {

constexpr uint64_t step_limit = 1ull << 33;  // of one block: past this it spins

class Block_run {
 public:
  Block_run(const Module &module, const Function &entry, void **arguments, const std::vector<size_t> &sizes);
  void run();

 private:
  const Module &module_;
  std::vector<Warp> warps_;
  uint64_t steps_ = 0, wakes_ = 0;
  unsigned votes_[16] = {};

  void start_warp(Warp &w, const Function &entry, void **arguments, const std::vector<size_t> &sizes);
  Warp *choose();
  Group take(Warp &w);
  void run_warp(Warp &w, uint64_t quantum);
  bool step(Warp &w, Group &g, const Instruction &i);
  bool split(Warp &w, Group &g, uint32_t taken);
  void branch(Warp &w, Group &g, const Instruction &i);
  void indirect(Warp &w, Group &g, const Instruction &i);
  void call(Warp &w, Group &g, const Instruction &i);
  void leave(Warp &w, Group &g, bool whole_kernel);
  bool gather(Warp &w, Group &g, const Instruction &i);
  bool gather_mask(Warp &w, Group &g, const Instruction &i, uint32_t mask, uint32_t lanes);
  bool barrier(Warp &w, Group &g, const Instruction &i);
  void release(unsigned id);
  [[noreturn]] void deadlock();
};

// Device functions are taken to be called by every kernel of their module.
bool uses_shared(const Module &m, const Function &entry, size_t k) {
  auto uses = [k](const Function &f) { return k < f.shared_used.size() && f.shared_used[k]; };
  bool used = uses(entry);
  for (const auto &f : m.functions) used |= !f.second->entry && uses(*f.second);
  return used;
}

void fill_block_area(Warp &w, const Module &m, const Function &entry) {
  w.block_area.assign((size_t)m.block_slots * warp_size, 0);
  auto slot = [&](uint32_t s) { return w.block_area.data() + (size_t)s * warp_size; };
  for (unsigned l = 0; l < warp_size; ++l) {
    const unsigned t = w.index * warp_size + l;
    const Dim3 tid = {t % state.block.x, t / state.block.x % state.block.y, t / state.block.x / state.block.y};
    const Dim3 *vectors[] = {&tid, &state.block, &state.block_index, &state.grid};
    for (uint32_t v = 0; v < 4; ++v) {
      slot(slot_tid + 3 * v)[l] = vectors[v]->x;
      slot(slot_tid + 3 * v + 1)[l] = vectors[v]->y;
      slot(slot_tid + 3 * v + 2)[l] = vectors[v]->z;
    }
    slot(slot_lane)[l] = l;
    slot(slot_warp)[l] = w.index;
    const uint32_t eq = 1u << l, lt = eq - 1;
    const uint32_t masks[] = {eq, lt | eq, lt, ~lt, ~(lt | eq)};
    for (uint32_t k = 0; k < 5; ++k) slot(slot_lanemask + k)[l] = masks[k];
    slot(slot_dynamic_bytes)[l] = shared_bytes();
  }
  for (size_t k = 0; k < m.shared.size(); ++k) {
    const Shared_variable &s = m.shared[k];
    if (!uses_shared(m, entry, k)) continue;
    const uint32_t a = s.dynamic ? shared_base : shared_allocate(&s, s.bytes, s.alignment, {"shared variable", 0, nullptr});
    for (unsigned l = 0; l < warp_size; ++l) {
      slot(s.slot)[l] = a;
      ((uint64_t *)slot(s.slot + 1))[l] = a;
    }
  }
}

Frame *new_frame(Warp &w, const Function &f, uint32_t lanes, Frame *parent) {
  std::unique_ptr<Frame> frame(new Frame);
  frame->function = &f;
  frame->registers.assign((size_t)f.slots * warp_size, 0xcdcdcdcdu);
  frame->parameters.assign((size_t)f.parameter_bytes * warp_size, 0xff);
  frame->lanes = lanes;
  frame->parent = parent;
  if (parent) {
    frame->depth = parent->depth + 1;
    frame->local_base = (parent->local_base + parent->function->local_bytes + 15) & ~15ull;
  }
  for (unsigned l = 0; l < warp_size; ++l) ((uint64_t *)frame->registers.data())[l] = frame->local_base;
  w.frames.push_back(std::move(frame));
  return w.frames.back().get();
}

void delete_frame(Warp &w, Frame *f) {
  for (size_t k = 0; k < w.frames.size(); ++k)
    if (w.frames[k].get() == f) {
      w.frames[k].swap(w.frames.back());
      w.frames.pop_back();
      return;
    }
}

Block_run::Block_run(const Module &module, const Function &entry, void **arguments, const std::vector<size_t> &sizes)
    : module_(module), warps_(state.warps) {
  for (unsigned k = 0; k < state.warps; ++k) {
    warps_[k].index = k;
    start_warp(warps_[k], entry, arguments, sizes);
  }
}

void Block_run::start_warp(Warp &w, const Function &entry, void **arguments, const std::vector<size_t> &sizes) {
  w.module = &module_;
  w.alive = existing_lanes(w.index);
  fill_block_area(w, module_, entry);
  Frame *f = new_frame(w, entry, w.alive, nullptr);
  for (unsigned l = 0; l < warp_size; ++l)
    for (size_t k = 0; k < sizes.size(); ++k) memcpy(f->parameter(l) + entry.parameters[k].offset, arguments[k], sizes[k]);
  w.runnable.push_back({f, 0, w.alive});
  w.woken = ++wakes_;
}

Warp *Block_run::choose() {
  Warp *best = nullptr;
  unsigned candidates = 0;
  for (Warp &w : warps_) {
    if (w.runnable.empty()) continue;
    ++candidates;
    switch (state.options.schedule) {
      case Schedule::fifo:
        best = best ? best : &w;
        break;
      case Schedule::reverse:
        best = &w;
        break;
      case Schedule::lifo:
        best = !best || w.woken > best->woken ? &w : best;
        break;
      case Schedule::random:
        best = random_number() % candidates == 0 ? &w : best;
        break;
    }
  }
  return best;
}

void Block_run::run() {
  for (;;) {
    Warp *w = choose();
    if (!w) break;
    run_warp(*w, state.options.schedule == Schedule::random ? 1 + random_number() % 64 : 1u << 20);
  }
  for (const Warp &w : warps_)
    if (w.alive) deadlock();
}

// Removes the group to run from those that could, together with all that stand at the
// same place.
Group Block_run::take(Warp &w) {
  auto &r = w.runnable;
  if (r.size() == 1) {
    const Group g = r[0];
    r.clear();
    return g;
  }
  size_t best = state.options.schedule == Schedule::random ? random_number() % r.size() : 0;
  if (state.options.schedule != Schedule::random)
    for (size_t k = 1; k < r.size(); ++k)
      if (r[k].frame->depth > r[best].frame->depth || (r[k].frame->depth == r[best].frame->depth && r[k].pc < r[best].pc)) best = k;
  Group g = r[best];
  g.lanes = 0;
  size_t kept = 0;
  for (const Group &x : r) {
    if (x.frame == g.frame && x.pc == g.pc)
      g.lanes |= x.lanes;
    else
      r[kept++] = x;
  }
  r.resize(kept, g);
  return g;
}

// The lowest place above g where another group of the same call stands.
uint32_t next_meeting(const Warp &w, const Group &g) {
  uint32_t limit = ~0u;
  for (const Group &x : w.runnable)
    if (x.frame == g.frame && x.pc > g.pc) limit = std::min(limit, x.pc);
  return limit;
}

void Block_run::run_warp(Warp &w, uint64_t quantum) {
  while (!w.runnable.empty()) {
    Group g = take(w);
    w.enter(g.frame);
    const size_t others = w.runnable.size();
    const uint32_t limit = next_meeting(w, g);
    for (;;) {
      const Instruction &i = g.frame->function->code[g.pc];
      w.lanes = g.lanes & w.predicate(i.guard);
      ++steps_;
      if (quantum) --quantum;
      if (i.flow == Flow::plain) {
        if (w.lanes) i.run(w, i);
        ++g.pc;
      } else if (!step(w, g, i)) {
        break;
      }
      // With other groups about, see after each jump and at the next one's place
      // whether they can be joined.
      const bool alone = w.runnable.size() == others && (others == 0 || (i.flow == Flow::plain && g.pc < limit));
      if (!alone || !quantum) {
        w.runnable.push_back(g);
        break;
      }
    }
    if (!quantum) break;
  }
  state.report.counters.instructions = steps_;
  if (steps_ > step_limit) fail("deadlock", {"kernel", 0, nullptr}, "no end after %llu instructions", (unsigned long long)steps_);
}

// Carries out an instruction that is not plain. False: the group is no longer ours.
bool Block_run::step(Warp &w, Group &g, const Instruction &i) {
  if (!w.lanes) {
    ++g.pc;
    return true;
  }
  state.thread = w.thread((unsigned)__builtin_ctz(w.lanes));
  switch (i.flow) {
    case Flow::branch:
      branch(w, g, i);
      return true;
    case Flow::indirect_branch:
      indirect(w, g, i);
      return false;
    case Flow::call:
      call(w, g, i);
      return true;
    case Flow::ret:
      leave(w, g, !g.frame->parent);
      return false;
    case Flow::exit:
      leave(w, g, true);
      return false;
    case Flow::warp:
      return gather(w, g, i);
    case Flow::barrier:
      return barrier(w, g, i);
    case Flow::plain:
      break;
  }
  return true;
}

// Leaves `taken` in g; the others go on at the next instruction by themselves.
bool Block_run::split(Warp &w, Group &g, uint32_t taken) {
  if (taken == g.lanes) return false;
  w.runnable.push_back({g.frame, g.pc + 1, g.lanes & ~taken});
  g.lanes = taken;
  return true;
}

void Block_run::branch(Warp &w, Group &g, const Instruction &i) {
  split(w, g, w.lanes);
  g.pc = i.target;
}

void Block_run::indirect(Warp &w, Group &g, const Instruction &i) {
  split(w, g, w.lanes);
  each_lane(g.lanes, [&](unsigned l) {
    const uint64_t k = w.value(i.s[0], l);
    if (k >= i.targets.size()) fail("bounds", i.site, "entry %llu of a branch table of %zu", (unsigned long long)k, i.targets.size());
    w.runnable.push_back({g.frame, i.targets[k], 1u << l});
  });
}

void Block_run::call(Warp &w, Group &g, const Instruction &i) {
  if (!i.callee) fail("assert", i.site, "an assertion of the kernel failed");
  split(w, g, w.lanes);
  if (g.frame->depth > 200) fail("bounds", i.site, "calls nested deeper than 200");
  Frame *f = new_frame(w, *i.callee, g.lanes, g.frame);
  f->return_to = g.pc + 1;
  f->call = &i;
  for (size_t k = 0; k < i.callee->parameters.size(); ++k) {
    const Parameter &p = i.callee->parameters[k];
    each_lane(g.lanes, [&](unsigned l) { memcpy(f->parameter(l) + p.offset, g.frame->parameter(l) + i.targets[i.d_count + k], p.bytes); });
  }
  g.frame = f;
  g.pc = 0;
  w.enter(f);
}

void Block_run::leave(Warp &w, Group &g, bool whole_kernel) {
  split(w, g, w.lanes);
  Frame *f = g.frame;
  if (whole_kernel) {
    each_lane(g.lanes, [&](unsigned l) {
      state.thread = w.thread(l);
      async_thread_exits(w.thread(l), {"kernel exit", 0, nullptr});
      barriers.thread_exits();
    });
    w.alive &= ~g.lanes;
    return;
  }
  for (size_t k = 0; k < f->function->results.size() && k < f->call->d_count; ++k) {
    const Parameter &r = f->function->results[k];
    each_lane(g.lanes, [&](unsigned l) { memcpy(f->parent->parameter(l) + f->call->targets[k], f->parameter(l) + r.offset, r.bytes); });
  }
  w.runnable.push_back({f->parent, f->return_to, g.lanes});
  f->lanes &= ~g.lanes;
  if (!f->lanes) delete_frame(w, f);
}

bool Block_run::gather(Warp &w, Group &g, const Instruction &i) {
  split(w, g, w.lanes);
  uint32_t left = g.lanes;
  bool continues = true;
  while (left) {
    uint32_t mask = all_lanes, same = left;
    if (i.s[9].base != Base::none && !i.aligned) {
      const uint32_t *masks = w.in<uint32_t>(i.s[9]);
      mask = masks[__builtin_ctz(left)];
      same = 0;
      each_lane(left, [&](unsigned l) { same |= masks[l] == mask ? 1u << l : 0u; });
      if (i.option == 255 && mask == all_lanes) mask = existing_lanes(w.index);  // __syncwarp()
    }
    left &= ~same;
    continues = gather_mask(w, g, i, mask, same);
  }
  return continues && w.lanes == g.lanes;
}

// `lanes` of the group have come, of `mask` that must. True if g may simply go on.
bool Block_run::gather_mask(Warp &w, Group &g, const Instruction &i, uint32_t mask, uint32_t lanes) {
  if (lanes & ~mask) fail("sync", i.site, "%s: lanes %08x are not in their own mask %08x", i.name, lanes & ~mask, mask);
  if (mask & ~existing_lanes(w.index)) fail("sync", i.site, "%s: mask %08x names lanes that the warp does not have", i.name, mask);
  Gathered *mine = nullptr;
  for (Gathered &x : w.gathering) {
    const bool here = x.group.frame == g.frame && x.group.pc == g.pc && x.mask == mask;
    if (here)
      mine = &x;
    else if (x.mask & lanes) {
      const Instruction &other = x.group.frame->function->code[x.group.pc];
      fail("sync", i.site, "divergent warp: lanes %08x are in %s here with mask %08x, lanes %08x in %s at %s:%d with mask %08x", lanes,
           i.name, mask, x.group.lanes, other.name, other.site.file, other.site.line, x.mask);
    }
  }
  const uint32_t arrived = lanes | (mine ? mine->group.lanes : 0);
  if (arrived != mask) {
    if (mine)
      mine->group.lanes = arrived;
    else
      w.gathering.push_back({{g.frame, g.pc, lanes}, mask});
    return false;
  }
  if (mine) w.gathering.erase(w.gathering.begin() + (mine - w.gathering.data()));
  ++state.report.counters.warp_syncs;
  const uint32_t before = w.lanes;
  w.lanes = mask;
  i.run(w, i);
  if (lanes == g.lanes && arrived == lanes) {
    ++g.pc;
    w.lanes = g.lanes;
    return true;
  }
  w.lanes = before;
  w.runnable.push_back({g.frame, g.pc + 1, mask});
  return false;
}

bool Block_run::barrier(Warp &w, Group &g, const Instruction &i) {
  split(w, g, w.lanes);
  const unsigned first = (unsigned)__builtin_ctz(g.lanes);
  const uint64_t id = w.value(i.s[0], first), threads = i.s_count > 1 ? w.value(i.s[1], first) : 0;
  each_lane(g.lanes, [&](unsigned l) {
    if (w.value(i.s[0], l) != id) fail("sync", i.site, "lanes of a warp name different barriers");
  });
  if (i.option && id < 16) votes_[id] += (unsigned)__builtin_popcount(w.predicate(i.s[2]) & g.lanes);
  const bool complete = barriers.reach((unsigned)id, (unsigned)threads, w.index, g.lanes, i.waits, i.site);
  if (i.waits) w.at_barrier.push_back({g, (unsigned)id});
  if (complete) release((unsigned)id);
  if (i.waits) return false;
  ++g.pc;
  return true;
}

void Block_run::release(unsigned id) {
  for (Warp &w : warps_) {
    size_t kept = 0;
    for (const At_barrier &b : w.at_barrier) {
      if (b.id != id) {
        w.at_barrier[kept++] = b;
        continue;
      }
      const Instruction &i = b.group.frame->function->code[b.group.pc];
      if (i.option) {
        Frame *frame = w.frame;
        const uint32_t lanes = w.lanes;
        w.enter(b.group.frame);
        w.lanes = b.group.lanes;
        const unsigned n = votes_[id];
        if (i.option == 1)
          each_lane(w.lanes, [&](unsigned l) { w.set(i.d[0], l, n); });
        else
          w.set_predicate(i.d[0], (i.option == 2 ? n == state.threads : n != 0) ? all_lanes : 0);
        w.lanes = lanes;
        if (frame) w.enter(frame);
      }
      w.runnable.push_back({b.group.frame, b.group.pc + 1, b.group.lanes});
      w.woken = ++wakes_;
    }
    w.at_barrier.resize(kept, At_barrier{});
  }
  votes_[id] = 0;
}

void Block_run::deadlock() {
  std::string who;
  unsigned waiting = 0;
  Site site{"kernel", 0, nullptr};
  auto add = [&](const Warp &w, const Group &g) {
    const Instruction &i = g.frame->function->code[g.pc];
    if (!waiting) {
      state.thread = w.thread((unsigned)__builtin_ctz(g.lanes));
      site = i.site;
    }
    waiting += (unsigned)__builtin_popcount(g.lanes);
    if (who.size() < 300) who += " [warp " + std::to_string(w.index) + " in " + i.name + " at line " + std::to_string(i.site.line) + "]";
  };
  for (const Warp &w : warps_) {
    for (const Gathered &x : w.gathering) add(w, x.group);
    for (const At_barrier &x : w.at_barrier) add(w, x.group);
  }
  fail("deadlock", site, "%u threads wait for ever:%s", waiting, who.c_str());
}

}  // namespace

void execute_block(const Module &module, const Function &entry, void **arguments, const std::vector<size_t> &sizes) {
  state.in_block = true;
  const uint64_t before = state.report.counters.instructions;
  Block_run run(module, entry, arguments, sizes);
  run.run();
  state.report.counters.instructions += before;
}

}  // namespace sattn_sim
