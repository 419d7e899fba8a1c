// Rows into slot order and back: target[b, s, h] = source[b, order[s], h], or the other way round. A thread per element; consecutive
// threads move consecutive elements of a row. Elements are moved as bits, so fp16 and bf16 share a kernel. The twin of cl/kernels/rows.cl.
#include "general_params.h"
#include "gpu.h"

namespace {

template <class T>
GPU_DEVICE void move_rows(const sattn_cuda_rows_call &call) {
  const sattn_rows_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * SATTN_SMALL_THREADS + threadIdx.x;
  if (index >= p.batch * p.tokens * p.heads * p.width) return;
  const int64_t c = index % p.width, h = index / p.width % p.heads, slot = index / p.width / p.heads % p.tokens;
  const int64_t b = index / p.width / p.heads / p.tokens;
  const int64_t token = gpu_load(call.order + p.order.offset + b * p.order.stride_batch + h * p.order.stride_head + slot);
  const int64_t from = p.inverse || gpu_fault("rows_not_gathered") ? slot : token, to = p.inverse ? token : slot;
  const T *source = static_cast<const T *>(call.source) + p.source.offset;
  T *target = static_cast<T *>(call.target) + p.target.offset;
  gpu_store(target + b * p.target.stride_batch + to * p.target.stride_token + h * p.target.stride_head + c,
            gpu_load(source + b * p.source.stride_batch + from * p.source.stride_token + h * p.source.stride_head + c));
}

}  // namespace

GPU_KERNEL(move_rows_32, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_rows_call call) {
  move_rows<uint32_t>(call);
}
GPU_KERNEL(move_rows_16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_rows_call call) {
  move_rows<uint16_t>(call);
}
GPU_REGISTER_KERNEL(move_rows_32, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(move_rows_16, SATTN_SMALL_THREADS);
