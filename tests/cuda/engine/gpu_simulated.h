// The host half of gpu.h: CUDA's names and the gpu_ vocabulary, bound to the fiber
// engine. Included by gpu.h only.
#ifndef SATTN_SIM_GPU_SIMULATED_H
#define SATTN_SIM_GPU_SIMULATED_H

#include "fiber_kernel.h"
#include "number.h"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#define GPU_DEVICE            static inline
#define GPU_DEVICE_CALL       static inline
#define GPU_KERNEL(name, ...) extern "C" void name
#define GPU_REGISTER_KERNEL(name, threads) \
  static sattn_sim::Host_kernel gpu_registered_##name = sattn_sim::make_host_kernel(#name, name, threads)
#define GPU_GRID_CONSTANT
#define GPU_UNROLL
#define GPU_NO_UNROLL
#define GPU_INFINITY HUGE_VALF

#define threadIdx    (sattn_sim::current_thread->index)
#define blockIdx     (sattn_sim::state.block_index)
#define blockDim     (sattn_sim::state.block)
#define gridDim      (sattn_sim::state.grid)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) {
  return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return {x, y, z, w};
}
static inline int2 make_int2(int x, int y) {
  return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w) {
  return {x, y, z, w};
}
static inline float2 make_float2(float x, float y) {
  return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}

// Inlined always, so that each access keeps its own return address as its site.
#define GPU_SIM_INLINE __attribute__((always_inline)) inline

// An index that knows the line it was written on: operators cannot take default arguments.
struct gpu_sim_index {
  ptrdiff_t i;
  const char *file;
  int line;
  template <class I>
  GPU_SIM_INLINE gpu_sim_index(I index, const char *f = __builtin_FILE(), int l = __builtin_LINE())
      : i((ptrdiff_t)index), file(f), line(l) {}
};

template <class T>
struct gpu_sim_reference {
  uint32_t address;
  const char *file;
  int line;
  GPU_SIM_INLINE operator T() const {
    T v;
    sattn_sim::fiber_shared_read(address, &v, sizeof v, alignof(T), file, line);
    return v;
  }
  GPU_SIM_INLINE T operator=(T v) const {
    sattn_sim::fiber_shared_write(address, &v, sizeof v, alignof(T), file, line);
    return v;
  }
  GPU_SIM_INLINE T operator=(const gpu_sim_reference &o) const { return *this = (T)o; }
  GPU_SIM_INLINE T operator+=(T v) const { return *this = (T)((T) * this + v); }
  GPU_SIM_INLINE T operator-=(T v) const { return *this = (T)((T) * this - v); }
  GPU_SIM_INLINE T operator*=(T v) const { return *this = (T)((T) * this * v); }
  GPU_SIM_INLINE T operator|=(T v) const { return *this = (T)((T) * this | v); }
  GPU_SIM_INLINE T operator^=(T v) const { return *this = (T)((T) * this ^ v); }
};

template <class T>
struct gpu_shared {
  uint32_t address;
  GPU_SIM_INLINE gpu_sim_reference<T> operator[](gpu_sim_index i) const {
    return {(uint32_t)(address + i.i * (ptrdiff_t)sizeof(T)), i.file, i.line};
  }
  GPU_SIM_INLINE gpu_sim_reference<T> operator*() const { return {address, "*shared", 0}; }
  gpu_shared operator+(ptrdiff_t i) const { return {(uint32_t)(address + i * (ptrdiff_t)sizeof(T))}; }
  gpu_shared operator-(ptrdiff_t i) const { return {(uint32_t)(address - i * (ptrdiff_t)sizeof(T))}; }
};
#define GPU_DYNAMIC_SHARED(T, name)   \
  const gpu_shared<T> name {          \
    sattn_sim::fiber_dynamic_shared() \
  }
// The lambda's static gives each declaration a key of its own, in templates too.
#define GPU_STATIC_SHARED(T, name, count) \
  const gpu_shared<T> name {              \
    sattn_sim::fiber_static_shared(       \
        [] {                              \
          static char key;                \
          return &key;                    \
        }(),                              \
        sizeof(T) * (count), alignof(T))  \
  }
template <class T, class U>
GPU_DEVICE gpu_shared<T> gpu_shared_cast(gpu_shared<U> p, uint32_t byte_offset) {
  return gpu_shared<T>{p.address + byte_offset};
}
template <class T>
GPU_DEVICE uint32_t gpu_shared_address(gpu_shared<T> p) {
  return p.address;
}

template <class T>
GPU_SIM_INLINE T gpu_load(const T *p, SATTN_SIM_HERE) {
  sattn_sim::fiber_global_read(p, sizeof(T), true, file, line);
  return *p;
}
template <class T>
GPU_SIM_INLINE T gpu_load_written(const T *p, SATTN_SIM_HERE) {
  sattn_sim::fiber_global_read(p, sizeof(T), false, file, line);
  return *p;
}
template <class T>
struct gpu_sim_same {
  using type = T;
};
template <class T>
GPU_SIM_INLINE void gpu_store(T *p, typename gpu_sim_same<T>::type v, SATTN_SIM_HERE) {
  sattn_sim::fiber_global_write(p, sizeof(T), file, line);
  *p = v;
}

template <int bytes>
GPU_SIM_INLINE void gpu_cp_async(uint32_t shared, const void *global, unsigned source_bytes, SATTN_SIM_HERE) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  sattn_sim::fiber_copy(bytes, shared, global, source_bytes, file, line);
}
GPU_DEVICE void gpu_cp_async_commit() {
  sattn_sim::fiber_copy_commit();
}
template <int pending>
GPU_DEVICE void gpu_cp_async_wait() {
  sattn_sim::fiber_copy_wait(pending);
}

#define gpu_ldmatrix_x4(r, shared)       sattn_sim::fiber_ldmatrix(4, false, r, shared)
#define gpu_ldmatrix_x4_trans(r, shared) sattn_sim::fiber_ldmatrix(4, true, r, shared)
#define gpu_ldmatrix_x2(r, shared)       sattn_sim::fiber_ldmatrix(2, false, r, shared)
#define gpu_ldmatrix_x2_trans(r, shared) sattn_sim::fiber_ldmatrix(2, true, r, shared)

struct gpu_f16 {
  static uint16_t from_float(float x) { return sattn_sim::float_to_half(x); }
  static float to_float(uint16_t x) { return sattn_sim::half_to_float(x); }
  static uint32_t pack(float low, float high) { return from_float(low) | (uint32_t)from_float(high) << 16; }
  static void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, SATTN_SIM_HERE) {
    sattn_sim::fiber_mma(false, d, a, b, c, file, line);
  }
};
struct gpu_bf16 {
  static uint16_t from_float(float x) { return sattn_sim::float_to_bf16(x); }
  static float to_float(uint16_t x) { return sattn_sim::bf16_to_float(x); }
  static uint32_t pack(float low, float high) { return from_float(low) | (uint32_t)from_float(high) << 16; }
  static void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, SATTN_SIM_HERE) {
    sattn_sim::fiber_mma(true, d, a, b, c, file, line);
  }
};

GPU_DEVICE float gpu_exp2(float x) {
  return sattn_sim::flush(exp2f(sattn_sim::flush(x)));
}
GPU_DEVICE float gpu_log2(float x) {
  return log2f(sattn_sim::flush(x));
}
GPU_DEVICE float gpu_reciprocal(float x) {
  return sattn_sim::flush(1.0f / sattn_sim::flush(x));
}
GPU_DEVICE float gpu_tanh(float x) {
  return tanhf(x);
}
GPU_DEVICE float gpu_multiply(float a, float b) {
  return a * b;
}
GPU_DEVICE uint32_t gpu_float_bits(float x) {
  return sattn_sim::bits<uint32_t>(x);
}
GPU_DEVICE float gpu_bits_float(uint32_t x) {
  return sattn_sim::bits<float>(x);
}
GPU_DEVICE float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
GPU_DEVICE int __popc(unsigned x) {
  return __builtin_popcount(x);
}
GPU_DEVICE int __clz(int x) {
  return x ? __builtin_clz((unsigned)x) : 32;
}
GPU_DEVICE int __ffs(int x) {
  return __builtin_ffs(x);
}
GPU_DEVICE unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((uint64_t)a * b >> 32);
}
GPU_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

#define __syncthreads()                 sattn_sim::fiber_barrier(0, 0, true)
#define __syncthreads_count(p)          sattn_sim::fiber_barrier_vote(sattn_sim::Block_vote::sum, p)
#define __syncthreads_and(p)            sattn_sim::fiber_barrier_vote(sattn_sim::Block_vote::all, p)
#define __syncthreads_or(p)             sattn_sim::fiber_barrier_vote(sattn_sim::Block_vote::any, p)
#define __syncwarp(...)                 sattn_sim::fiber_sync_warp(__VA_ARGS__)
#define gpu_barrier_sync(id, threads)   sattn_sim::fiber_barrier(id, threads, true)
#define gpu_barrier_arrive(id, threads) sattn_sim::fiber_barrier(id, threads, false)
GPU_DEVICE void __threadfence() {}
GPU_DEVICE void __threadfence_block() {}

template <class T>
GPU_SIM_INLINE T gpu_sim_shuffle(sattn_sim::Shuffle mode, unsigned mask, T value, unsigned b, int width, const char *file, int line) {
  static_assert(sizeof(T) % 4 == 0 && sizeof(T) <= 8, "shuffles move 32 or 64 bits");
  uint32_t word[sizeof(T) / 4];
  memcpy(word, &value, sizeof value);
  for (uint32_t &w : word) w = sattn_sim::fiber_shuffle(mode, mask, w, b, width, file, line);
  memcpy(&value, word, sizeof value);
  return value;
}
template <class T>
GPU_SIM_INLINE T __shfl_sync(unsigned mask, T v, int lane, int width = 32, SATTN_SIM_HERE) {
  return gpu_sim_shuffle(sattn_sim::Shuffle::index, mask, v, (unsigned)lane, width, file, line);
}
template <class T>
GPU_SIM_INLINE T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, SATTN_SIM_HERE) {
  return gpu_sim_shuffle(sattn_sim::Shuffle::butterfly, mask, v, (unsigned)with, width, file, line);
}
template <class T>
GPU_SIM_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, SATTN_SIM_HERE) {
  return gpu_sim_shuffle(sattn_sim::Shuffle::up, mask, v, by, width, file, line);
}
template <class T>
GPU_SIM_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, SATTN_SIM_HERE) {
  return gpu_sim_shuffle(sattn_sim::Shuffle::down, mask, v, by, width, file, line);
}
GPU_DEVICE unsigned __ballot_sync(unsigned mask, int p, SATTN_SIM_HERE) {
  return sattn_sim::fiber_ballot(mask, p != 0, file, line);
}
GPU_DEVICE int __any_sync(unsigned mask, int p, SATTN_SIM_HERE) {
  return sattn_sim::fiber_ballot(mask, p != 0, file, line) != 0;
}
GPU_DEVICE int __all_sync(unsigned mask, int p, SATTN_SIM_HERE) {
  return sattn_sim::fiber_ballot(mask, p != 0, file, line) == mask;
}
#define GPU_SIM_REDUCE(name, T, how)                                                             \
  GPU_DEVICE T name(unsigned mask, T v, SATTN_SIM_HERE) {                                        \
    return (T)sattn_sim::fiber_reduce(sattn_sim::Reduction::how, mask, (uint32_t)v, file, line); \
  }
GPU_SIM_REDUCE(__reduce_add_sync, unsigned, add)
GPU_SIM_REDUCE(__reduce_add_sync, int, add)
GPU_SIM_REDUCE(__reduce_min_sync, unsigned, min_unsigned)
GPU_SIM_REDUCE(__reduce_min_sync, int, min_signed)
GPU_SIM_REDUCE(__reduce_max_sync, unsigned, max_unsigned)
GPU_SIM_REDUCE(__reduce_max_sync, int, max_signed)
GPU_SIM_REDUCE(__reduce_and_sync, unsigned, bit_and)
GPU_SIM_REDUCE(__reduce_or_sync, unsigned, bit_or)
GPU_SIM_REDUCE(__reduce_xor_sync, unsigned, bit_xor)
#undef GPU_SIM_REDUCE

template <class T, class F>
GPU_SIM_INLINE T gpu_sim_atomic(T *p, F combine, const char *file, int line) {
  sattn_sim::fiber_global_atomic(p, sizeof(T), file, line);
  const T old = *p;
  *p = combine(old);
  return old;
}
template <class T, class F>
GPU_SIM_INLINE T gpu_sim_atomic(gpu_shared<T> p, F combine, const char *file, int line) {
  T old;
  sattn_sim::fiber_atomic_begin(p.address, &old, sizeof old, file, line);
  const T value = combine(old);
  sattn_sim::fiber_atomic_end(p.address, &value, sizeof value);
  return old;
}
template <class P>
struct gpu_sim_element;
template <class T>
struct gpu_sim_element<T *> {
  using type = T;
};
template <class T>
struct gpu_sim_element<gpu_shared<T>> {
  using type = T;
};
#define GPU_SIM_ATOMIC(name, expression)                                                                            \
  template <class P>                                                                                                \
  GPU_SIM_INLINE typename gpu_sim_element<P>::type name(P p, typename gpu_sim_element<P>::type v, SATTN_SIM_HERE) { \
    using T = typename gpu_sim_element<P>::type;                                                                    \
    return gpu_sim_atomic(                                                                                          \
        p, [=](T old) -> T { return expression; }, file, line);                                                     \
  }
GPU_SIM_ATOMIC(gpu_atomic_add, (T)(old + v))
GPU_SIM_ATOMIC(gpu_atomic_min, v < old ? v : old)
GPU_SIM_ATOMIC(gpu_atomic_max, old < v ? v : old)
GPU_SIM_ATOMIC(gpu_atomic_and, (T)(old &v))
GPU_SIM_ATOMIC(gpu_atomic_or, (T)(old | v))
GPU_SIM_ATOMIC(gpu_atomic_exchange, ((void)old, v))
#undef GPU_SIM_ATOMIC
template <class P>
GPU_SIM_INLINE typename gpu_sim_element<P>::type gpu_atomic_cas(P p, typename gpu_sim_element<P>::type compare,
                                                                typename gpu_sim_element<P>::type v, SATTN_SIM_HERE) {
  using T = typename gpu_sim_element<P>::type;
  return gpu_sim_atomic(
      p, [=](T old) -> T { return old == compare ? v : old; }, file, line);
}

#endif
