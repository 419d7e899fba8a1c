// Two partial results over disjoint keys into one:
//
//     LSE = log(exp LSE_a + exp LSE_b)        O = exp(LSE_a - LSE) O_a + exp(LSE_b - LSE) O_b
//
// A warp per row (query, head, batch entry), so that the LSE is read and written by one thread and may be updated in place. A part with
// LSE = -infinity contributes nothing, whatever its O holds. The twin of cl/kernels/merge.cl.
#include "elements.h"
#include "general_params.h"

namespace {

constexpr int kLanes = 32;
constexpr int kWarps = SATTN_SMALL_THREADS / kLanes;

// In-place updates read and write the same array in one launch, so nothing here may go through the read-only path.
template <int dtype>
GPU_DEVICE float load_written(const void *array, int64_t index) {
  if (dtype == 1) return gpu_load_written(static_cast<const float *>(array) + index);
  const uint16_t bits = gpu_load_written(static_cast<const uint16_t *>(array) + index);
  return dtype == 2 ? gpu_f16::to_float(bits) : gpu_bf16::to_float(bits);
}

GPU_DEVICE int64_t row_start(const sattn_kernel_tensor &tensor, int64_t b, int64_t i, int64_t h) {
  return tensor.offset + b * tensor.stride_batch + i * tensor.stride_token + h * tensor.stride_head;
}

// Lane 0 alone reads it, as it alone writes the new one.
GPU_DEVICE float row_lse(const float *lse, int lane) {
  const float mine = lane == 0 || gpu_fault("merge_lse_read_by_all") ? gpu_load_written(lse) : 0.0f;
  return __shfl_sync(0xffffffffu, mine, 0);
}

template <int dtype>
GPU_DEVICE void merge(const sattn_cuda_merge_call &call) {
  const sattn_merge_params &p = call.params;
  const int64_t index = (int64_t)blockIdx.x * kWarps + threadIdx.x / kLanes;
  const int lane = (int)threadIdx.x % kLanes;
  if (index >= p.batch * p.heads * p.queries) return;
  const int64_t i = index % p.queries, h = index / p.queries % p.heads, b = index / p.queries / p.heads;
  const float lse_a = row_lse(call.lse_a + p.lse_a + index, lane), lse_b = row_lse(call.lse_b + p.lse_b + index, lane);
  const float largest = fmaxf(lse_a, lse_b);
  float share_a = 0.0f, share_b = 0.0f, lse = -GPU_INFINITY;
  if (largest > -GPU_INFINITY) {
    const float weight_a = expf(lse_a - largest), weight_b = expf(lse_b - largest);
    share_a = weight_a / (weight_a + weight_b);
    share_b = weight_b / (weight_a + weight_b);
    lse = largest + logf(weight_a + weight_b);
  }
  for (int64_t c = lane; c < p.width; c += kLanes) {
    float sum = 0.0f;
    if (lse_a > -GPU_INFINITY) sum = share_a * load_written<dtype>(call.out_a, row_start(p.out_a, b, i, h) + c);
    if (lse_b > -GPU_INFINITY || gpu_fault("merge_empty_counts"))
      sum += share_b * load_written<dtype>(call.out_b, row_start(p.out_b, b, i, h) + c);
    store_element<dtype>(sum, call.out, row_start(p.out, b, i, h) + c);
  }
  if (call.lse && lane == 0) gpu_store(call.lse + p.lse + index, lse);
}

}  // namespace

GPU_KERNEL(merge_fp32, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_merge_call call) {
  merge<1>(call);
}
GPU_KERNEL(merge_fp16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_merge_call call) {
  merge<2>(call);
}
GPU_KERNEL(merge_bf16, SATTN_SMALL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_merge_call call) {
  merge<3>(call);
}
GPU_REGISTER_KERNEL(merge_fp32, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(merge_fp16, SATTN_SMALL_THREADS);
GPU_REGISTER_KERNEL(merge_bf16, SATTN_SMALL_THREADS);
