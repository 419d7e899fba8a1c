// Host-compiled kernels: one fiber per CUDA thread. gpu_simulated.h gives kernels
// these operations under their usual names.
#ifndef SATTN_SIM_FIBER_KERNEL_H
#define SATTN_SIM_FIBER_KERNEL_H

#include "warp_ops.h"

#include <type_traits>
#include <utility>

namespace sattn_sim {

struct Thread {
  Dim3 index;
  unsigned linear, warp, lane;
};
extern Thread *current_thread;

// The return address tells apart accesses that share a line.
#define SATTN_SIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SATTN_SIM_SITE                      \
  sattn_sim::Site {                         \
    file, line, __builtin_return_address(0) \
  }

enum class Block_vote { sum, all, any };

void fiber_barrier(unsigned id, unsigned threads, bool waits, SATTN_SIM_HERE);
int fiber_barrier_vote(Block_vote how, int predicate, SATTN_SIM_HERE);
void fiber_sync_warp(uint32_t mask = all_lanes, SATTN_SIM_HERE);
uint32_t fiber_shuffle(Shuffle mode, uint32_t mask, uint32_t value, unsigned b, int width, const char *file, int line);
uint32_t fiber_ballot(uint32_t mask, bool predicate, SATTN_SIM_HERE);
uint32_t fiber_reduce(Reduction how, uint32_t mask, uint32_t value, const char *file, int line);
void fiber_ldmatrix(int count, bool trans, uint32_t *result, uint32_t address, SATTN_SIM_HERE);
void fiber_mma(bool bf16, float *d, const uint32_t *a, const uint32_t *b, const float *c, SATTN_SIM_HERE);
void fiber_copy(unsigned bytes, uint32_t shared, const void *global, unsigned source_bytes, SATTN_SIM_HERE);
void fiber_copy_commit();
void fiber_copy_wait(int pending);

void fiber_shared_read(uint32_t address, void *to, unsigned bytes, unsigned alignment, const char *file, int line);
void fiber_shared_write(uint32_t address, const void *from, unsigned bytes, unsigned alignment, const char *file, int line);
void fiber_atomic_begin(uint32_t address, void *old, unsigned bytes, const char *file, int line);
void fiber_atomic_end(uint32_t address, const void *value, unsigned bytes);
uint32_t fiber_dynamic_shared();
uint32_t fiber_static_shared(const void *key, size_t bytes, size_t alignment, SATTN_SIM_HERE);

void fiber_global_read(const void *p, unsigned bytes, bool read_only, const char *file, int line);
void fiber_global_write(const void *p, unsigned bytes, const char *file, int line);
void fiber_global_atomic(const void *p, unsigned bytes, const char *file, int line);

class Host_kernel : public Kernel {
 public:
  using Call = void (*)(void *function, void **arguments);
  Host_kernel(const char *kernel_name, void *function, Call call, std::vector<size_t> sizes, unsigned threads);
  void run_block(void **arguments) const override;
  void *function;
  Call call;
  Host_kernel *next;
};

// Deduces the parameter list, so that the stub driver can copy each argument.
template <class... A>
struct Kernel_signature {
  template <size_t... I>
  static void expand(void *f, void **p, std::index_sequence<I...>) {
    (void)p;
    ((void (*)(A...))f)(*(std::remove_cv_t<std::remove_reference_t<A>> *)p[I]...);
  }
  static void call(void *f, void **p) { expand(f, p, std::index_sequence_for<A...>{}); }
};
template <class... A>
Host_kernel make_host_kernel(const char *name, void (*f)(A...), unsigned threads) {
  return Host_kernel(name, (void *)f, &Kernel_signature<A...>::call, {sizeof(A)...}, threads);
}

}  // namespace sattn_sim
#endif
