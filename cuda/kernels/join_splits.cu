// Few queries over many keys (decoding): the attention kernels give each part of the keys a thread block of its own, and this joins what
// they found, in the order of the parts.
//
//     partial      [splits][B, H, n_q, d]        O of each part, normalised
//     partial_lse  [splits][B, H, n_q]           -infinity where a part has no key that the row sees
//     O = sum over s of exp(lse[s] - LSE) O[s],  LSE = log of the sum of exp lse[s]
//
// A warp per row; lane c owns elements c, c + 32, ...
#include "band_params.h"
#include "elements.h"

namespace {

constexpr int kThreads = SATTN_BAND_THREADS;
constexpr int kMaxOwned = 256 / 32;
constexpr float kLog2e = 1.44269504088896341f;

template <int dtype>
GPU_DEVICE void join_splits(const sattn_cuda_join &call) {
  const int64_t rows = call.batch * call.heads * call.queries;
  const int64_t row = (int64_t)blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  const int lane = (int)threadIdx.x % 32;
  if (row >= rows) return;
  float max = -GPU_INFINITY;
  for (int s = 0; s < call.splits; ++s) max = fmaxf(max, gpu_load(call.partial_lse + s * rows + row));
  const float reference = max == -GPU_INFINITY ? 0.0f : max;  // infinity minus infinity would be NaN
  float sum = 0.0f, out[kMaxOwned] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (int s = 0; s < call.splits; ++s) {
    const float weight = gpu_exp2((gpu_load(call.partial_lse + s * rows + row) - reference) * (gpu_fault("join_natural") ? 1.0f : kLog2e));
    sum += weight;
    const float *part = call.partial + (s * rows + row) * call.head_dim;
    GPU_UNROLL
    for (int k = 0; k < kMaxOwned; ++k) {
      const int c = lane + 32 * k;
      if (c < call.head_dim) out[k] = fmaf(weight, gpu_load(part + c), out[k]);
    }
  }
  const bool empty = sum == 0.0f;
  const int i = (int)(row % call.queries), h = (int)(row / call.queries % call.heads);
  const int64_t b = row / call.queries / call.heads;
  const int64_t at = call.out.offset + b * call.out.stride_batch + i * call.out.stride_token + h * call.out.stride_head;
  GPU_UNROLL
  for (int k = 0; k < kMaxOwned; ++k) {
    const int c = lane + 32 * k;
    if (c < call.head_dim) store_element<dtype>(empty ? 0.0f : out[k] / sum, call.out_rows, at + c);
  }
  if (call.lse && (lane == 0 || gpu_fault("join_lse_by_all")))
    gpu_store(call.lse + row, empty ? -GPU_INFINITY : reference + gpu_log2(sum) / kLog2e);
}

}  // namespace

GPU_KERNEL(join_splits_fp32, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_join call) {
  join_splits<1>(call);
}
GPU_KERNEL(join_splits_fp16, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_join call) {
  join_splits<2>(call);
}
GPU_KERNEL(join_splits_bf16, SATTN_BAND_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_join call) {
  join_splits<3>(call);
}
GPU_REGISTER_KERNEL(join_splits_fp32, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(join_splits_fp16, SATTN_BAND_THREADS);
GPU_REGISTER_KERNEL(join_splits_bf16, SATTN_BAND_THREADS);
