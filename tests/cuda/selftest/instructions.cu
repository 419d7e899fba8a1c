// Kernels that make nvcc emit what the PTX engine must understand. Each writes numbers
// that the test computes by itself in plain C++.
#include "gpu.h"

#define FULL 0xffffffffu

// ---- the tables of the PTX ISA: matrix loads and products

GPU_DEVICE void load_matrices(gpu_shared<uint32_t> s, const uint32_t *in) {
  for (int i = 0; i < 4; ++i) s[(int)threadIdx.x + 32 * i] = gpu_load(in + threadIdx.x + 32 * i);
  __syncthreads();
}
GPU_KERNEL(table_ldmatrix, 32)(const uint32_t *in, uint32_t *out, int which) {
  GPU_DYNAMIC_SHARED(uint32_t, s);
  const int t = (int)threadIdx.x;
  uint32_t r[4] = {0, 0, 0, 0};
  load_matrices(s, in);
  const uint32_t a = gpu_shared_address(s + 4 * t);
  if (which == 0)
    gpu_ldmatrix_x4(r, a);
  else if (which == 1)
    gpu_ldmatrix_x4_trans(r, a);
  else if (which == 2)
    gpu_ldmatrix_x2(r, a);
  else
    gpu_ldmatrix_x2_trans(r, a);
  for (int i = 0; i < 4; ++i) gpu_store(out + t * 4 + i, r[i]);
}
template <class T>
GPU_DEVICE void multiply(const uint32_t *a, const uint32_t *b, float *d) {
  const int t = (int)threadIdx.x;
  float c[4] = {1, 2, 3, 4};
  uint32_t fa[4], fb[2];
  for (int i = 0; i < 4; ++i) fa[i] = gpu_load(a + t * 4 + i);
  for (int i = 0; i < 2; ++i) fb[i] = gpu_load(b + t * 2 + i);
  T::mma(c, fa, fb, c);
  for (int i = 0; i < 4; ++i) gpu_store(d + t * 4 + i, c[i]);
}
GPU_KERNEL(table_mma_f16, 32)(const uint32_t *a, const uint32_t *b, float *d) {
  multiply<gpu_f16>(a, b, d);
}
GPU_KERNEL(table_mma_bf16, 32)(const uint32_t *a, const uint32_t *b, float *d) {
  multiply<gpu_bf16>(a, b, d);
}

// ---- numbers

GPU_KERNEL(convert_halves, 128)(const float *in, uint32_t *out, int n) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float x = gpu_load(in + i), y = gpu_load(in + (i + 1) % n);
  gpu_store(out + 4 * i, gpu_f16::pack(x, y));
  gpu_store(out + 4 * i + 1, gpu_bf16::pack(x, y));
  gpu_store(out + 4 * i + 2, gpu_float_bits(gpu_f16::to_float(gpu_f16::from_float(x))));
  gpu_store(out + 4 * i + 3, gpu_float_bits(gpu_bf16::to_float(gpu_bf16::from_float(x))));
}
GPU_KERNEL(approximate, 128)(const float *in, float *out, int n) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float x = gpu_load(in + i);
  gpu_store(out + 8 * i, gpu_exp2(x));
  gpu_store(out + 8 * i + 1, gpu_log2(fabsf(x)));
  gpu_store(out + 8 * i + 2, gpu_reciprocal(x));
  gpu_store(out + 8 * i + 3, gpu_tanh(x));
  gpu_store(out + 8 * i + 4, expf(x));
  gpu_store(out + 8 * i + 5, logf(fabsf(x)));
  gpu_store(out + 8 * i + 6, rsqrtf(fabsf(x)));
  gpu_store(out + 8 * i + 7, x / 3.0f + sqrtf(fabsf(x)));
}
GPU_KERNEL(double_precision, 128)(const double *in, double *out, int n) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const double x = gpu_load(in + i);
  gpu_store(out + 4 * i, exp(x));
  gpu_store(out + 4 * i + 1, log(fabs(x)));
  gpu_store(out + 4 * i + 2, x / 3 + sqrt(fabs(x)));
  gpu_store(out + 4 * i + 3, (double)(float)x + (double)(int)x);
}

// ---- integers of 32 and 64 bits, as hashes, divisions and index arithmetic use them

GPU_KERNEL(integers, 128)(const long long *in, long long *out, int n) {
  const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const long long a = gpu_load(in + i), b = gpu_load(in + (i + 1) % n);
  const unsigned long long ua = (unsigned long long)a, ub = (unsigned long long)b | 1u;
  const int c = (int)a, d = (int)b | 1;
  long long *o = out + (int64_t)i * 16;
  gpu_store(o, (long long)(ua * ub));
  gpu_store(o + 1, (long long)__umul64hi(ua, ub));
  gpu_store(o + 2, (long long)(ua / ub));
  gpu_store(o + 3, (long long)(ua % ub));
  gpu_store(o + 4, (long long)(c / (d == -1 ? 3 : d)));
  gpu_store(o + 5, (long long)((unsigned)c % (unsigned)d));
  gpu_store(o + 6, (long long)__umulhi((unsigned)c, (unsigned)d));
  gpu_store(o + 7, (long long)((ua >> (d & 63)) ^ (ub << (c & 63))));
  gpu_store(o + 8, (long long)(c >> (d & 31)));
  gpu_store(o + 9, (long long)(__popc((unsigned)c) + 100 * __clz(c) + 10000 * __ffs(c)));
  gpu_store(o + 10, (long long)((((unsigned)c << 13) | ((unsigned)c >> 19)) + (unsigned)d));
  gpu_store(o + 11, (long long)(short)c * (signed char)d + (unsigned char)c + (unsigned short)d);
  gpu_store(o + 12, gpu_min(a, b) ^ gpu_max((long long)c, (long long)d));
  gpu_store(o + 13, (long long)((((unsigned)c >> 5) & 0x7ff) | ((unsigned)d << 20)));
  gpu_store(o + 14, (long long)(float)c + (long long)(float)(unsigned)d);
  gpu_store(o + 15,
            (long long)(c < d) + 2 * (long long)((unsigned)c < (unsigned)d) + 4 * (long long)(a < b && c != 5) + 8 * (long long)(ua <= ub));
}

// ---- warps

GPU_KERNEL(shuffles, 32)(int *out) {
  const int t = (int)threadIdx.x;
  gpu_store(out + t, __shfl_sync(FULL, t * 3, (t + 5) & 31));
  gpu_store(out + 32 + t, __shfl_up_sync(FULL, t * 3, 2));
  gpu_store(out + 64 + t, __shfl_down_sync(FULL, t * 3, 3));
  gpu_store(out + 96 + t, __shfl_xor_sync(FULL, t * 3, 9));
  gpu_store(out + 128 + t, __shfl_sync(FULL, t * 3, 2, 8));
  gpu_store(out + 160 + t, __shfl_down_sync(FULL, t * 3, 3, 16));
  gpu_store(out + 192 + t, (int)(__shfl_xor_sync(FULL, (long long)t << 33, 1) >> 33));
  gpu_store(out + 224 + t, (int)__ballot_sync(FULL, t % 3 == 0));
  gpu_store(out + 256 + t, __any_sync(FULL, t == 7) + 2 * __all_sync(FULL, t < 32) + 4 * __all_sync(FULL, t < 31));
  gpu_store(out + 288 + t, (int)__reduce_add_sync(FULL, (unsigned)t));
  gpu_store(out + 320 + t, (int)__reduce_max_sync(FULL, (unsigned)(t ^ 21)));
  gpu_store(out + 352 + t, __reduce_min_sync(FULL, t - 9));
  gpu_store(out + 384 + t, (int)__reduce_xor_sync(FULL, 1u << t));
}
GPU_KERNEL(block_votes, 96)(int *out) {
  const int t = (int)threadIdx.x;
  const int n = __syncthreads_count(t % 5 == 0), all = __syncthreads_and(t < 96), any = __syncthreads_or(t == 50);
  gpu_store(out + t, n + 1000 * all + 2000 * any + 4000 * __syncthreads_or(t == 96));
}
// Lanes leave the loop at different times and come together for the shuffle.
GPU_KERNEL(divergence, 32)(int *out) {
  const int t = (int)threadIdx.x;
  int steps = 0, x = t * 7 + 1;
  while (x != 1 && steps < 200) {
    if (x & 1)
      x = 3 * x + 1;
    else
      x >>= 1;
    ++steps;
  }
  gpu_store(out + t, steps + 1000 * __shfl_xor_sync(FULL, steps, 1));
}

// ---- code that is not one straight function

struct Several {
  int value[6];
  float scale;
};
GPU_DEVICE_CALL Several several(int x) {
  Several s;
  for (int i = 0; i < 6; ++i) s.value[i] = x * i;
  s.scale = (float)x;
  return s;
}
GPU_DEVICE_CALL int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
GPU_KERNEL(calls, 32)(int *out, int n) {
  const int t = (int)threadIdx.x;
  int local[16];
  for (int i = 0; i < 16; ++i) local[i] = i * n;
  for (int i = 0; i < n; ++i) local[(i * t) & 15] += i;
  const Several s = several(t + n);
  int r = local[t & 15] + s.value[t % 6] + (int)s.scale;
  if (t < 12) r += fibonacci(t);
  switch (t) {
    case 0:
      r += 1000;
      break;
    case 1:
      r *= 3;
      break;
    case 2:
      r -= 7;
      break;
    case 3:
      r ^= 0x55;
      break;
    case 4:
      r += local[n & 15];
      break;
    case 5:
      r = -r;
      break;
    case 6:
      r <<= 2;
      break;
    case 7:
      r |= 0x100;
      break;
    default:
      break;
  }
  gpu_store(out + t, r);
}
GPU_KERNEL(wide_addresses, 32)(const uint16_t *in, uint16_t *out, int64_t stride) {
  const int64_t t = (int64_t)threadIdx.x;
  // past 2^31 elements and back: 32-bit arithmetic would not come back
  const uint16_t *far = in + t * stride;
  const uint2 v = gpu_load((const uint2 *)(far - t * (stride - 4)));
  gpu_store((uint2 *)(out + 4 * t), make_uint2(v.y, v.x));
}
GPU_KERNEL(axes, 24)(int *out) {
  const int i = (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  const int b = (int)(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
  gpu_store(out + b * (int)(blockDim.x * blockDim.y * blockDim.z) + i, b * 100 + i);
}

GPU_REGISTER_KERNEL(table_ldmatrix, 32);
GPU_REGISTER_KERNEL(table_mma_f16, 32);
GPU_REGISTER_KERNEL(table_mma_bf16, 32);
GPU_REGISTER_KERNEL(convert_halves, 128);
GPU_REGISTER_KERNEL(approximate, 128);
GPU_REGISTER_KERNEL(double_precision, 128);
GPU_REGISTER_KERNEL(integers, 128);
GPU_REGISTER_KERNEL(shuffles, 32);
GPU_REGISTER_KERNEL(block_votes, 96);
GPU_REGISTER_KERNEL(divergence, 32);
GPU_REGISTER_KERNEL(calls, 32);
GPU_REGISTER_KERNEL(wide_addresses, 32);
GPU_REGISTER_KERNEL(axes, 24);
