// One kernel for each kind of mistake the engines must tell apart, next to right ones
// that look like it and must pass.
#include "gpu.h"

#define FULL 0xffffffffu

GPU_KERNEL(right_reverse, 256)(const int *in, int *out) {
  GPU_STATIC_SHARED(int, s, 256);
  const int t = (int)threadIdx.x;
  s[t] = gpu_load(in + t);
  __syncthreads();
  gpu_store(out + t, (int)s[255 - t]);
}
GPU_KERNEL(wrong_reverse_without_barrier, 256)(const int *in, int *out) {
  GPU_STATIC_SHARED(int, s, 256);
  const int t = (int)threadIdx.x;
  s[t] = gpu_load(in + t);
  gpu_store(out + t, (int)s[255 - t]);
}
// The second round overwrites what slow threads of the first still read.
GPU_KERNEL(wrong_write_after_read, 64)(int *out) {
  GPU_STATIC_SHARED(int, s, 64);
  const int t = (int)threadIdx.x;
  int sum = 0;
  for (int round = 0; round < 2; ++round) {
    s[t] = t + round;
    __syncthreads();
    sum += s[63 - t];
  }
  gpu_store(out + t, sum);
}
GPU_KERNEL(right_warp_exchange, 64)(int *out) {
  GPU_STATIC_SHARED(int, s, 64);
  const int t = (int)threadIdx.x;
  s[t] = t;
  __syncwarp();
  gpu_store(out + t, (int)s[t ^ 1]);
}
GPU_KERNEL(wrong_warp_exchange, 64)(int *out) {
  GPU_STATIC_SHARED(int, s, 64);
  const int t = (int)threadIdx.x;
  s[t] = t;
  gpu_store(out + t, (int)s[t ^ 1]);
}
// __syncwarp says nothing about another warp.
GPU_KERNEL(wrong_warp_for_block, 64)(int *out) {
  GPU_STATIC_SHARED(int, s, 64);
  const int t = (int)threadIdx.x;
  s[t] = t;
  __syncwarp();
  gpu_store(out + t, (int)s[t ^ 32]);
}
GPU_KERNEL(wrong_shared_bounds, 32)(int *out) {
  GPU_STATIC_SHARED(int, s, 32);
  const int t = (int)threadIdx.x;
  s[t + 1] = 1;
  __syncthreads();
  gpu_store(out + t, (int)s[t]);
}
GPU_KERNEL(wrong_dynamic_bounds, 32)(int *out) {
  GPU_DYNAMIC_SHARED(int, s);
  const int t = (int)threadIdx.x;
  s[t] = t;
  __syncthreads();
  gpu_store(out + t, (int)s[t]);
}
GPU_KERNEL(wrong_unwritten, 32)(int *out) {
  GPU_STATIC_SHARED(int, s, 33);
  const int t = (int)threadIdx.x;
  s[t] = 1;
  __syncthreads();
  gpu_store(out + t, (int)s[t + 1]);
}
GPU_KERNEL(right_bytes, 64)(int *out) {
  GPU_STATIC_SHARED(unsigned char, s, 64);
  const int t = (int)threadIdx.x;
  s[t] = (unsigned char)t;
  __syncthreads();
  gpu_store(out + t, (int)s[63 - t]);
}

GPU_KERNEL(wrong_barrier_in_branch, 64)(int *out) {
  if (threadIdx.x < 32) __syncthreads();
  gpu_store(out + threadIdx.x, 1);
}
GPU_KERNEL(wrong_two_barriers, 64)(int *out) {
  int v = 0;
  if (gpu_load(out + 64) + (int)threadIdx.x < 32) {
    __syncthreads();
    v = 1;
    gpu_store(out + threadIdx.x, v);
  } else {
    gpu_store(out + threadIdx.x, v);
    __syncthreads();
  }
}
GPU_KERNEL(wrong_deadlock, 64)(int *out) {
  int v = 1;
  if (threadIdx.x != 3) v = __shfl_xor_sync(FULL, v, 1);
  __syncthreads();
  gpu_store(out + threadIdx.x, v);
}
GPU_KERNEL(wrong_shuffle_outside_mask, 32)(int *out) {
  int v = (int)threadIdx.x;
  if (v < 16) v = __shfl_xor_sync(0x0000ffffu, v, 16);
  gpu_store(out + threadIdx.x, v);
}
GPU_KERNEL(right_shuffle_half, 32)(int *out) {
  int v = (int)threadIdx.x;
  if (v < 16) v = __shfl_xor_sync(0x0000ffffu, v, 8);
  gpu_store(out + threadIdx.x, v);
}
GPU_KERNEL(wrong_not_in_own_mask, 32)(int *out) {
  int v = (int)threadIdx.x;
  v = __shfl_xor_sync(0x0000ffffu, v, 8);
  gpu_store(out + threadIdx.x, v);
}

GPU_KERNEL(wrong_global_race, 32)(int *out) {
  gpu_store(out, (int)blockIdx.x);
}
// Block 0 reads what block 1 writes.
GPU_KERNEL(wrong_global_read_write, 32)(int *out) {
  const int t = (int)threadIdx.x, b = (int)blockIdx.x;
  const int v = gpu_load_written(out + b * 32 + t);
  gpu_store(out + (1 - b) * 32 + t, v);
}
GPU_KERNEL(wrong_global_in_block, 64)(int *out) {
  const int t = (int)threadIdx.x;
  gpu_store(out + t, t);
  gpu_store(out + 64 + t, gpu_load_written(out + (t ^ 32)));
}
GPU_KERNEL(right_global_in_block, 64)(int *out) {
  const int t = (int)threadIdx.x;
  gpu_store(out + t, t);
  __syncthreads();
  gpu_store(out + 64 + t, gpu_load_written(out + (t ^ 32)));
}
// The read-only path may hold what was there before the launch.
GPU_KERNEL(wrong_read_only_path, 32)(int *out) {
  const int t = (int)threadIdx.x;
  gpu_store(out + t, t);
  gpu_store(out + 64 + t, gpu_load(out + t));
}
GPU_KERNEL(wrong_global_bounds, 32)(const int *in, int *out) {
  gpu_store(out + threadIdx.x, gpu_load(in + threadIdx.x + 256));
}
GPU_KERNEL(right_atomics, 64)(unsigned *out) {
  GPU_STATIC_SHARED(unsigned, count, 1);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  gpu_atomic_add(count + 0, 2u);
  gpu_atomic_add(out + 0, 1u);
  gpu_atomic_max(out + 1, threadIdx.x + 64 * blockIdx.x);
  gpu_atomic_or(out + 2, 1u << (threadIdx.x % 32));
  __syncthreads();
  if (threadIdx.x == 0) gpu_store(out + 4 + blockIdx.x, (unsigned)count[0]);
}
GPU_KERNEL(wrong_atomic_and_store, 64)(unsigned *out) {
  if (threadIdx.x == 5)
    gpu_store(out, 7u);
  else
    gpu_atomic_add(out, 1u);
}

// Producer and consumer warps meet at barriers of their own.
GPU_KERNEL(right_named_barriers, 64)(int *out) {
  GPU_STATIC_SHARED(int, s, 32);
  const int t = (int)threadIdx.x;
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (t < 32) {
      if (round > 0) gpu_barrier_sync(2, 64);
      s[t] = t * 10 + round;
      gpu_barrier_arrive(1, 64);
    } else {
      gpu_barrier_sync(1, 64);
      sum += s[63 - t];
      if (round < 2) gpu_barrier_arrive(2, 64);
    }
  }
  if (t >= 32) gpu_store(out + t - 32, sum);
}
GPU_KERNEL(wrong_named_barriers, 64)(int *out) {
  GPU_STATIC_SHARED(int, s, 32);
  const int t = (int)threadIdx.x;
  int sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (t < 32) {
      s[t] = t * 10 + round;  // nobody waited for the consumers of the last round
      gpu_barrier_arrive(1, 64);
    } else {
      gpu_barrier_sync(1, 64);
      sum += s[63 - t];
    }
  }
  if (t >= 32) gpu_store(out + t - 32, sum);
}

GPU_KERNEL(right_copies, 32)(const int *in, int *out) {
  GPU_STATIC_SHARED(int4, s, 32);
  const int t = (int)threadIdx.x;
  const uint32_t to = gpu_shared_address(s);
  gpu_cp_async<16>(to + 16 * t, in + 4 * t, t < 16 ? 16 : 4 * (t % 4));  // the rest is zeroes
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
  __syncthreads();
  const int4 v = s[31 - t];
  gpu_store(out + t, v.x + 3 * v.y + 5 * v.z + 7 * v.w);
}
GPU_KERNEL(right_narrow_copies, 32)(const int *in, int *out) {
  GPU_STATIC_SHARED(int, s, 96);
  const int t = (int)threadIdx.x;
  const uint32_t to = gpu_shared_address(s);
  gpu_cp_async<4>(to + 4 * t, in + t, t & 1 ? 4 : 0);
  gpu_cp_async<8>(to + 128 + 8 * t, in + 2 * t, 8);
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
  __syncthreads();
  gpu_store(out + t, s[31 - t] + 1000 * s[32 + t]);
}
GPU_KERNEL(wrong_copy_without_wait, 32)(const int *in, int *out) {
  GPU_STATIC_SHARED(int4, s, 32);
  const int t = (int)threadIdx.x;
  gpu_cp_async<16>(gpu_shared_address(s) + 16 * t, in + 4 * t, 16);
  gpu_cp_async_commit();
  __syncthreads();
  const int4 v = s[31 - t];
  gpu_store(out + t, v.x);
  gpu_cp_async_wait<0>();
}
GPU_KERNEL(wrong_copy_never_waited, 32)(const int *in) {
  GPU_STATIC_SHARED(int4, s, 32);
  gpu_cp_async<16>(gpu_shared_address(s) + 16 * threadIdx.x, in + 4 * threadIdx.x, 16);
  gpu_cp_async_commit();
}
GPU_KERNEL(wrong_copy_alignment, 32)(const int *in) {
  GPU_STATIC_SHARED(int4, s, 32);
  gpu_cp_async<16>(gpu_shared_address(s) + 16 * threadIdx.x, in + 1, 16);
  gpu_cp_async_commit();
  gpu_cp_async_wait<0>();
}
// Every lane in one bank: 31 passes too many, and right results.
GPU_KERNEL(right_but_bank_conflicts, 32)(int *out) {
  GPU_DYNAMIC_SHARED(int, s);
  const int t = (int)threadIdx.x;
  s[t * 32] = t;
  __syncthreads();
  gpu_store(out + t, (int)s[t * 32]);
}
GPU_KERNEL(wrong_raw_store, 32)(int *p) {
  *(p + 4096 * 64) = 1;  // no wrapper sees this
}

GPU_REGISTER_KERNEL(right_reverse, 256);
GPU_REGISTER_KERNEL(wrong_reverse_without_barrier, 256);
GPU_REGISTER_KERNEL(wrong_write_after_read, 64);
GPU_REGISTER_KERNEL(right_warp_exchange, 64);
GPU_REGISTER_KERNEL(wrong_warp_exchange, 64);
GPU_REGISTER_KERNEL(wrong_warp_for_block, 64);
GPU_REGISTER_KERNEL(wrong_shared_bounds, 32);
GPU_REGISTER_KERNEL(wrong_dynamic_bounds, 32);
GPU_REGISTER_KERNEL(wrong_unwritten, 32);
GPU_REGISTER_KERNEL(right_bytes, 64);
GPU_REGISTER_KERNEL(wrong_barrier_in_branch, 64);
GPU_REGISTER_KERNEL(wrong_two_barriers, 64);
GPU_REGISTER_KERNEL(wrong_deadlock, 64);
GPU_REGISTER_KERNEL(wrong_shuffle_outside_mask, 32);
GPU_REGISTER_KERNEL(right_shuffle_half, 32);
GPU_REGISTER_KERNEL(wrong_not_in_own_mask, 32);
GPU_REGISTER_KERNEL(wrong_global_race, 32);
GPU_REGISTER_KERNEL(wrong_global_read_write, 32);
GPU_REGISTER_KERNEL(wrong_global_in_block, 64);
GPU_REGISTER_KERNEL(right_global_in_block, 64);
GPU_REGISTER_KERNEL(wrong_read_only_path, 32);
GPU_REGISTER_KERNEL(wrong_global_bounds, 32);
GPU_REGISTER_KERNEL(right_atomics, 64);
GPU_REGISTER_KERNEL(wrong_atomic_and_store, 64);
GPU_REGISTER_KERNEL(right_named_barriers, 64);
GPU_REGISTER_KERNEL(wrong_named_barriers, 64);
GPU_REGISTER_KERNEL(right_copies, 32);
GPU_REGISTER_KERNEL(right_narrow_copies, 32);
GPU_REGISTER_KERNEL(wrong_copy_without_wait, 32);
GPU_REGISTER_KERNEL(wrong_copy_never_waited, 32);
GPU_REGISTER_KERNEL(wrong_copy_alignment, 32);
GPU_REGISTER_KERNEL(right_but_bank_conflicts, 32);
GPU_REGISTER_KERNEL(wrong_raw_store, 32);
