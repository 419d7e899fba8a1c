// Fibers: stacks that are switched between by hand. Plain assembly on x86-64 (a
// switch costs some nanoseconds), ucontext elsewhere.
#ifndef SATTN_SIM_FIBER_H
#define SATTN_SIM_FIBER_H

#include <cstddef>

#if !defined(__x86_64__) || defined(SATTN_SIM_UCONTEXT)
#define SATTN_SIM_USE_UCONTEXT 1
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SATTN_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SATTN_SIM_ASAN 1
#endif
#endif

namespace sattn_sim {

class Fiber {
 public:
  // A new life on the given stack: the next switch to it calls entry(), which must not return.
  void prepare(char *stack, size_t bytes, void (*entry)());
  static void switch_to(Fiber &from, Fiber &to, bool from_is_finished = false);
  // First thing in entry().
  static void entered(Fiber &from);

 private:
#ifdef SATTN_SIM_USE_UCONTEXT
  ucontext_t context_;
#else
  void *stack_pointer_ = nullptr;
#endif
  const void *bottom_ = nullptr;
  size_t size_ = 0;
  void *shadow_stack_ = nullptr;
};

// Stacks for `count` fibers with an unreadable page below each; kept for the process.
char *fiber_stack(unsigned index, unsigned count);
size_t fiber_stack_bytes();

}  // namespace sattn_sim
#endif
