// The operations of host-compiled kernels: gather the lanes, call what both engines share.
#include "async_copy.h"
#include "fiber_collective.h"
#include "fiber_kernel.h"
#include "global_memory.h"
#include "order.h"
#include "shared_memory.h"

#include <cstring>

namespace sattn_sim {

namespace {

struct Shuffle_payload {
  uint32_t value, b, c;
  Shuffle mode;
};
struct Reduce_payload {
  uint32_t value;
  Reduction how;
};
struct Ldmatrix_payload {
  int count;
  bool trans;
  uint32_t *result, address;
};
struct Mma_payload {
  bool bf16;
  float *d;
  const uint32_t *a, *b;
  const float *c;
};

template <class P>
P &of(void *const *payload, unsigned lane) {
  return *(P *)payload[lane];
}
template <class P>
P &first(void *const *payload, uint32_t mask) {
  return of<P>(payload, (unsigned)__builtin_ctz(mask));
}

void sync_lanes(void *const *, uint32_t mask, unsigned warp, const Site &) {
  // Part of a warp orders nothing: the model has one clock per warp.
  if (mask == existing_lanes(warp)) order.sync_warp(warp);
}

void shuffle_lanes(void *const *payload, uint32_t mask, unsigned, const Site &site) {
  Lanes value = {}, b = {}, c = {}, result = {};
  uint32_t in_range;
  for (unsigned l = 0; l < warp_size; ++l)
    if (mask >> l & 1) {
      const auto &x = of<Shuffle_payload>(payload, l);
      value[l] = x.value;
      b[l] = x.b;
      c[l] = x.c;
    }
  shuffle(first<Shuffle_payload>(payload, mask).mode, value, b, c, mask, result, in_range, site);
  for (unsigned l = 0; l < warp_size; ++l)
    if (mask >> l & 1) of<Shuffle_payload>(payload, l).value = result[l];
}

void reduce_lanes(void *const *payload, uint32_t mask, unsigned, const Site &) {
  Lanes value = {};
  for (unsigned l = 0; l < warp_size; ++l)
    if (mask >> l & 1) value[l] = of<Reduce_payload>(payload, l).value;
  const uint32_t r = reduce(first<Reduce_payload>(payload, mask).how, value, mask);
  for (unsigned l = 0; l < warp_size; ++l)
    if (mask >> l & 1) of<Reduce_payload>(payload, l).value = r;
}

void ldmatrix_lanes(void *const *payload, uint32_t mask, unsigned warp, const Site &site) {
  Lanes address, result[4];
  const auto &p = first<Ldmatrix_payload>(payload, mask);
  for (unsigned l = 0; l < warp_size; ++l) address[l] = of<Ldmatrix_payload>(payload, l).address;
  ldmatrix(warp, p.count, p.trans, address, result, site);
  for (unsigned l = 0; l < warp_size; ++l)
    for (int i = 0; i < p.count; ++i) of<Ldmatrix_payload>(payload, l).result[i] = result[i][l];
}

void mma_lanes(void *const *payload, uint32_t, unsigned, const Site &) {
  Lanes a[4], b[2], c[4], d[4];
  for (unsigned l = 0; l < warp_size; ++l) {
    const auto &x = of<Mma_payload>(payload, l);
    for (int i = 0; i < 4; ++i) {
      a[i][l] = x.a[i];
      memcpy(&c[i][l], &x.c[i], 4);
    }
    for (int i = 0; i < 2; ++i) b[i][l] = x.b[i];
  }
  mma_m16n8k16(of<Mma_payload>(payload, 0).bf16, d, a, b, c);
  for (unsigned l = 0; l < warp_size; ++l)
    for (int i = 0; i < 4; ++i) memcpy(&of<Mma_payload>(payload, l).d[i], &d[i][l], 4);
}

}  // namespace

void fiber_sync_warp(uint32_t mask, const char *file, int line) {
  if (mask == all_lanes) mask = existing_lanes(current_thread->warp);
  collective("__syncwarp", false, mask, nullptr, sync_lanes, SATTN_SIM_SITE);
}

uint32_t fiber_shuffle(Shuffle mode, uint32_t mask, uint32_t value, unsigned b, int width, const char *file, int line) {
  const uint32_t segment = (uint32_t)(warp_size - (unsigned)width);
  Shuffle_payload p{value, b, segment << 8 | (mode == Shuffle::up ? 0u : 31u), mode};
  collective("a shuffle", false, mask, &p, shuffle_lanes, SATTN_SIM_SITE);
  return p.value;
}

uint32_t fiber_reduce(Reduction how, uint32_t mask, uint32_t value, const char *file, int line) {
  Reduce_payload p{value, how};
  collective("a warp reduction", false, mask, &p, reduce_lanes, SATTN_SIM_SITE);
  return p.value;
}

uint32_t fiber_ballot(uint32_t mask, bool predicate, const char *file, int line) {
  return fiber_reduce(Reduction::bit_or, mask, predicate ? 1u << current_thread->lane : 0, file, line);
}

void fiber_ldmatrix(int count, bool trans, uint32_t *result, uint32_t address, const char *file, int line) {
  Ldmatrix_payload p{count, trans, result, address};
  collective("ldmatrix", true, all_lanes, &p, ldmatrix_lanes, SATTN_SIM_SITE);
}

void fiber_mma(bool bf16, float *d, const uint32_t *a, const uint32_t *b, const float *c, const char *file, int line) {
  Mma_payload p{bf16, d, a, b, c};
  collective("mma", true, all_lanes, &p, mma_lanes, SATTN_SIM_SITE);
}

void fiber_copy(unsigned bytes, uint32_t shared, const void *global, unsigned source_bytes, const char *file, int line) {
  async_copy(current_thread->linear, shared, global, bytes, source_bytes, SATTN_SIM_SITE);
}
void fiber_copy_commit() {
  async_commit(current_thread->linear);
}
void fiber_copy_wait(int pending) {
  async_wait(current_thread->linear, pending);
}

void fiber_shared_read(uint32_t address, void *to, unsigned bytes, unsigned alignment, const char *file, int line) {
  shared_read(current_thread->linear, address, to, bytes, alignment, SATTN_SIM_SITE);
}
void fiber_shared_write(uint32_t address, const void *from, unsigned bytes, unsigned alignment, const char *file, int line) {
  shared_write(current_thread->linear, address, from, bytes, alignment, SATTN_SIM_SITE);
}
void fiber_atomic_begin(uint32_t address, void *old, unsigned bytes, const char *file, int line) {
  shared_atomic_begin(current_thread->linear, address, old, bytes, SATTN_SIM_SITE);
}
void fiber_atomic_end(uint32_t address, const void *value, unsigned bytes) {
  shared_atomic_end(address, value, bytes);
}
uint32_t fiber_dynamic_shared() {
  return shared_base;
}
uint32_t fiber_static_shared(const void *key, size_t bytes, size_t alignment, const char *file, int line) {
  return shared_allocate(key, bytes, alignment, SATTN_SIM_SITE);
}

void fiber_global_read(const void *p, unsigned bytes, bool read_only, const char *file, int line) {
  global_read_check(current_thread->linear, p, bytes, bytes, read_only ? Global_read::read_only : Global_read::ordinary, SATTN_SIM_SITE);
}
void fiber_global_write(const void *p, unsigned bytes, const char *file, int line) {
  global_write_check(current_thread->linear, p, bytes, SATTN_SIM_SITE);
}
void fiber_global_atomic(const void *p, unsigned bytes, const char *file, int line) {
  global_atomic_check(current_thread->linear, p, bytes, SATTN_SIM_SITE);
}

}  // namespace sattn_sim
