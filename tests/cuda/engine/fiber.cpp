#include "fiber.h"

#include <sys/mman.h>
#include <cstdint>
#include <new>

#ifdef SATTN_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef SATTN_SIM_USE_UCONTEXT
extern "C" void sattn_sim_switch_stack(void **save, void *load);
// Only what the calling convention makes the callee keep has to be saved.
asm(R"(
.text
.globl sattn_sim_switch_stack
.hidden sattn_sim_switch_stack
.type sattn_sim_switch_stack,@function
sattn_sim_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sattn_sim_switch_stack,.-sattn_sim_switch_stack
)");
#endif

namespace sattn_sim {

void Fiber::prepare(char *stack, size_t bytes, void (*entry)()) {
  bottom_ = stack;
  size_ = bytes;
  shadow_stack_ = nullptr;
#ifdef SATTN_SIM_ASAN
  __asan_unpoison_memory_region(stack, bytes);
#endif
#ifdef SATTN_SIM_USE_UCONTEXT
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#else
  void **p = (void **)(((uintptr_t)stack + bytes) & ~(uintptr_t)15);
  *--p = nullptr;
  *--p = (void *)entry;  // rsp % 16 == 8 at entry, as after a call
  for (int i = 0; i < 6; ++i) *--p = nullptr;
  stack_pointer_ = p;
#endif
}

void Fiber::switch_to(Fiber &from, Fiber &to, bool from_is_finished) {
#ifdef SATTN_SIM_ASAN
  __sanitizer_start_switch_fiber(from_is_finished ? nullptr : &from.shadow_stack_, to.bottom_, to.size_);
#else
  (void)from_is_finished;
#endif
#ifdef SATTN_SIM_USE_UCONTEXT
  swapcontext(&from.context_, &to.context_);
#else
  sattn_sim_switch_stack(&from.stack_pointer_, to.stack_pointer_);
#endif
#ifdef SATTN_SIM_ASAN
  __sanitizer_finish_switch_fiber(from.shadow_stack_, &to.bottom_, &to.size_);
#endif
}

void Fiber::entered(Fiber &from) {
#ifdef SATTN_SIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &from.bottom_, &from.size_);
#else
  (void)from;
#endif
}

namespace {
#ifdef SATTN_SIM_ASAN
constexpr size_t stack_bytes = 512u << 10;  // its red zones make frames large
#else
constexpr size_t stack_bytes = 128u << 10;
#endif
constexpr size_t page = 4096;
char *stacks;
unsigned stack_count;
}  // namespace

size_t fiber_stack_bytes() {
  return stack_bytes;
}

char *fiber_stack(unsigned index, unsigned count) {
  if (count > stack_count) {
    if (stacks) munmap(stacks, stack_count * (stack_bytes + page));
    void *p = mmap(nullptr, count * (stack_bytes + page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    stacks = (char *)p;
    stack_count = count;
    for (unsigned i = 0; i < count; ++i) mprotect(stacks + i * (stack_bytes + page), page, PROT_NONE);
  }
  return stacks + index * (stack_bytes + page) + page;
}

}  // namespace sattn_sim
