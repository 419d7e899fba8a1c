// The gradient of the sink logits: dsink_h = - sum over queries and branches of P_sink delta, P_sink = exp(sink - LSE).
//
//     head h ----> its rows, 32 at a time, one a lane          (batch entry, query), both branches of GATED
//                    sum of the 32, added with compensation     one warp per head, a fixed order, no atomics
//
// LSE [B, H, n_q]; deltas [branches, B, H, n_q] as the kernels of dQ leave them; dsink [H]. Empty rows have LSE = -infinity and are passed
// over. The twin of grad_sinks in cl/kernels/attend_general_grad.cl.
#include "general_grad.h"

GPU_KERNEL(grad_sinks, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_general_grad call) {
  const sattn_general_params &p = call.params.forward;
  const int lane = (int)threadIdx.x % kLanes;
  const int64_t h = (int64_t)blockIdx.x * kWarps + threadIdx.x / kLanes;
  if (h >= p.heads) return;
  const int64_t rows = p.batch * p.queries;
  const int branches = branch_count(p);
  const float logit = rows > 0 ? gpu_load(call.sink_logits + p.sink_logits + h) : 0.0f;
  float sum = 0.0f, lost = 0.0f;
  for (int64_t first = 0; first < rows; first += kLanes) {
    float part = 0.0f;
    for (int branch = 0; branch < branches && first + lane < rows; ++branch) {
      const int64_t number = row_number(p, (first + lane) / p.queries, h, (first + lane) % p.queries);
      const float lse = row_lse(call, branch, number);
      if (lse != -GPU_INFINITY) part -= expf(logit - lse) * gpu_load(call.deltas + delta_index(call.params, branch, number));
    }
    add_compensated(warp_sum(part), sum, lost);
  }
  if (lane == 0) gpu_store(call.grad_sink_logits + call.params.grad_sink_logits + h, sum - lost);
}
GPU_REGISTER_KERNEL(grad_sinks, SATTN_GENERAL_THREADS);
