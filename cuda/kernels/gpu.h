// The one vocabulary in which the CUDA kernels are written, and the only place
// with inline PTX. nvcc (sm_80 and later) sees the device half; a C++17 host
// compiler with -DSATTN_SIMULATE sees the same names bound to the checking
// engine of the tests, so every kernel also runs where there is no GPU.
//
// Rules for kernels, each there because the two halves must agree:
//   - global memory is read by gpu_load (read-only during the launch) or
//     gpu_load_written (written earlier in the same launch), written by gpu_store;
//   - shared memory is a gpu_shared<T>, never a raw pointer; shared addresses for
//     ldmatrix and cp.async are 32-bit numbers from gpu_shared_address;
//   - parameters are one plain C struct passed by value, marked GPU_GRID_CONSTANT;
//   - every kernel is registered once, at the end of its file.
#ifndef SATTN_CUDA_KERNELS_GPU_H
#define SATTN_CUDA_KERNELS_GPU_H

#include <stdint.h>

#ifdef SATTN_SIMULATE
#include "gpu_simulated.h"
#define GPU_DEVICE_MEMBER inline
#else

#define GPU_DEVICE                         static __device__ __forceinline__
#define GPU_DEVICE_CALL                    static __device__ __noinline__
#define GPU_DEVICE_MEMBER                  __device__ __forceinline__
// Threads per block, then optionally the blocks that must fit on one multiprocessor.
#define GPU_KERNEL(name, ...)              extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name
#define GPU_REGISTER_KERNEL(name, threads) static_assert(threads > 0, #name)
#define GPU_GRID_CONSTANT                  __grid_constant__
#define GPU_UNROLL                         _Pragma("unroll")
#define GPU_NO_UNROLL                      _Pragma("unroll 1")

// ---- memory

template <class T>
using gpu_shared = T *;
#define GPU_DYNAMIC_SHARED(T, name)                                     \
  extern __shared__ __align__(128) unsigned char gpu_dynamic_shared_[]; \
  T *const name = reinterpret_cast<T *>(gpu_dynamic_shared_)
#define GPU_STATIC_SHARED(T, name, count) __shared__ T name[count]

template <class T, class U>
GPU_DEVICE T *gpu_shared_cast(U *p, uint32_t byte_offset) {
  return reinterpret_cast<T *>(reinterpret_cast<unsigned char *>(p) + byte_offset);
}
template <class T>
GPU_DEVICE uint32_t gpu_shared_address(T *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

template <class T>
GPU_DEVICE T gpu_load(const T *p) {
  return __ldg(p);
}
template <class T>
GPU_DEVICE T gpu_load_written(const T *p) {
  return *p;
}
template <class T>
GPU_DEVICE void gpu_store(T *p, T v) {
  *p = v;
}

// ---- asynchronous copies, global to shared
// Only 16-byte copies may bypass L1. Bytes past source_bytes are zeroes, and with
// source_bytes == 0 the global address is not touched.

template <int bytes>
GPU_DEVICE void gpu_cp_async(uint32_t shared, const void *global, unsigned source_bytes) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
  if (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(bytes), "r"(source_bytes) : "memory");
}
GPU_DEVICE void gpu_cp_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `pending` of the newest groups are still in flight.
template <int pending>
GPU_DEVICE void gpu_cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// ---- tensor cores
// Lane l passes the address of row l % 8 of matrix l / 8; every row is 16 bytes.

GPU_DEVICE void gpu_ldmatrix_x4(uint32_t *r, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
GPU_DEVICE void gpu_ldmatrix_x4_trans(uint32_t *r, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared)
               : "memory");
}
GPU_DEVICE void gpu_ldmatrix_x2(uint32_t *r, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared) : "memory");
}
GPU_DEVICE void gpu_ldmatrix_x2_trans(uint32_t *r, uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared) : "memory");
}

// One struct per 16-bit element type: how it is packed, converted and multiplied.
// pack puts `low` into bits 0..15, as fragments want it. mma: d = a b + c, m16n8k16.
struct gpu_f16 {
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static __device__ __forceinline__ uint16_t from_float(float x) {
    uint16_t r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
  }
  static __device__ __forceinline__ float to_float(uint16_t x) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
    return r;
  }
  static __device__ __forceinline__ void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
};
struct gpu_bf16 {
  static __device__ __forceinline__ uint32_t pack(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static __device__ __forceinline__ uint16_t from_float(float x) {
    uint16_t r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
  }
  static __device__ __forceinline__ float to_float(uint16_t x) { return __uint_as_float((uint32_t)x << 16); }
  static __device__ __forceinline__ void mma(float *d, const uint32_t *a, const uint32_t *b, const float *c) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
};

// ---- numbers
// The approximations are good to about 2 units in the last place and flush subnormals.

GPU_DEVICE float gpu_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_DEVICE float gpu_log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_DEVICE float gpu_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_DEVICE float gpu_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// A product that is rounded by itself, where the compiler might fuse it with the sum that follows.
GPU_DEVICE float gpu_multiply(float a, float b) {
  return __fmul_rn(a, b);
}
GPU_DEVICE uint32_t gpu_float_bits(float x) {
  return __float_as_uint(x);
}
GPU_DEVICE float gpu_bits_float(uint32_t x) {
  return __uint_as_float(x);
}
#define GPU_INFINITY                      __int_as_float(0x7f800000)

// ---- barriers of a part of the block, and atomics on integers
// id 1..15; threads counts all that sync or arrive, in whole warps.

GPU_DEVICE void gpu_barrier_sync(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
GPU_DEVICE void gpu_barrier_arrive(int id, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
#define gpu_atomic_add                    atomicAdd
#define gpu_atomic_min                    atomicMin
#define gpu_atomic_max                    atomicMax
#define gpu_atomic_and                    atomicAnd
#define gpu_atomic_or                     atomicOr
#define gpu_atomic_exchange               atomicExch
#define gpu_atomic_cas                    atomicCAS

#endif  // SATTN_SIMULATE

template <class T>
GPU_DEVICE T gpu_min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
GPU_DEVICE T gpu_max(T a, T b) {
  return a < b ? b : a;
}

// Mutation tests build kernels with -DGPU_FAULT=name: code under
// `if (gpu_fault("name"))` is then a mistake that the tests must notice. On the host
// one build with -DGPU_FAULT_RUNTIME serves all, the variable SATTN_GPU_FAULT names one.
#ifdef GPU_FAULT
#define GPU_FAULT_TEXT_(x) #x
#define GPU_FAULT_TEXT(x)  GPU_FAULT_TEXT_(x)
GPU_DEVICE constexpr bool gpu_fault(const char *name) {
  const char *injected = GPU_FAULT_TEXT(GPU_FAULT);
  while (*name && *name == *injected) {
    ++name;
    ++injected;
  }
  return *name == *injected;
}
#elif defined(GPU_FAULT_RUNTIME)
GPU_DEVICE bool gpu_fault(const char *name) {
  static const char *const injected = getenv("SATTN_GPU_FAULT");
  return injected && strcmp(injected, name) == 0;
}
#else
GPU_DEVICE constexpr bool gpu_fault(const char *) {
  return false;
}
#endif

#endif
