// Before the backward pass on tensor cores: for each row (query, head) and branch
//
//     delta = sum of dY Y, minus dLSE          dY = dO, in GATED sigmoid(g) dO
//     dg    = sum of dO Y sigmoid(g) sigmoid(-g)
//
//              Y rows, columns of B                    a warp takes 16 rows (query, head)
//            +----------------+
//     dO     | x              |                        the diagonal of dO Y^T by mma, so that the sums are rounded as those of dO V^T
//     rows   |   x            |                        will be: a row that sees one key then has dP = delta to the bit, and its dQ and
//     of A   |     x  ...     |                        dS are exact zeros
//            +----------------+
//
// dO, Y [B, n_q, H, d] with 16-byte aligned rows; LSE, dLSE, deltas [B, H, n_q] for each branch. Rows that are empty are never read.
#include "general_grad.h"
#include "grad_params.h"

namespace {

constexpr int kGroupRows = 16;
constexpr float kLog2e = 1.44269504088896341f;

// One of the two rows that a lane has fragments of.
struct Side {
  int64_t number;  // of the row in the LSE
  int64_t b;
  int i, h;
  bool inside, exists;  // of the arrays; not empty
  const uint16_t *grad_out, *out;
};

template <int dtype>
GPU_DEVICE Side side_of(const sattn_cuda_grad_rows &call, int64_t number, int branch) {
  const sattn_general_params &p = call.general.params.forward;
  Side side = {number, 0, 0, 0, false, false, nullptr, nullptr};
  side.inside = number < p.batch * p.heads * p.queries;
  if (!side.inside) return side;
  const Row row = query_row(p, call.general.lengths, call.general.query_start, number);
  side.b = row.b;
  side.i = row.i;
  side.h = row.h;
  side.exists = row.position < row.length;
  side.grad_out = static_cast<const uint16_t *>(call.general.grad_out) + row_offset(call.general.params.grad_out, row.b, row.i, row.h);
  if (p.mode == kGated) {
    const void *y = branch ? call.general.y_swa : call.general.y_sa;
    const int64_t at = (branch ? p.y_swa : p.y_sa) + ((row.b * p.queries + row.i) * p.heads + row.h) * call.general.head_dim;
    side.out = static_cast<const uint16_t *>(y) + at;
  } else {
    side.out = static_cast<const uint16_t *>(call.out_rows) + row_offset(call.out, row.b, row.i, row.h);
  }
  return side;
}

// Elements c, c + 1 of a row.
GPU_DEVICE uint32_t pair_at(bool exists, const uint16_t *row, int c) {
  return exists ? gpu_load(reinterpret_cast<const uint32_t *>(row + c)) : 0u;
}

// Sums of dO Y of the rows lane / 4 and lane / 4 + 8, in the lane of each group of four that has the diagonal.
template <class T>
GPU_DEVICE void dot_sides(float *dot, const Side *sides, int head_dim, int lane) {
  float low[4] = {0.0f, 0.0f, 0.0f, 0.0f}, high[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  GPU_NO_UNROLL
  for (int c = lane % 4 * 2; c < head_dim; c += 16) {
    uint32_t a[4], b[4];
    GPU_UNROLL
    for (int half = 0; half < 2; ++half) {
      GPU_UNROLL
      for (int r = 0; r < 2; ++r) {
        a[2 * half + r] = pair_at(sides[r].exists, sides[r].grad_out, c + 8 * half);
        b[2 * r + half] = pair_at(sides[r].exists, sides[r].out, c + 8 * half);
      }
    }
    T::mma(low, a, b, low);
    T::mma(high, a, b + 2, high);
  }
  dot[0] = lane / 4 % 2 && !gpu_fault("grad_rows_off_diagonal") ? low[1] : low[0];
  dot[1] = lane / 4 % 2 ? high[3] : high[2];
}

GPU_DEVICE void finish_side(const sattn_cuda_grad_rows &call, const Side &side, int branch, float dot) {
  const sattn_general_params &p = call.general.params.forward;
  const int64_t at = branch * p.batch * p.heads * p.queries + side.number;
  float4 stats = make_float4(GPU_INFINITY, 0.0f, 1.0f, 0.0f);
  float grad_gate = 0.0f;
  if (side.exists) {
    const Gate gate = gate_of(call.general, branch, side.b, side.i, side.h);
    if (gate.logits) {
      const float logit = gate_logit(gate, 0);
      stats.z = gpu_fault("grad_gate_open") ? 1.0f : sigmoid(logit);
      grad_gate = dot * sigmoid(logit) * sigmoid(-logit);
    }
    stats.x = row_lse(call.general, branch, side.number) * kLog2e;
    // The product is rounded by itself, as that of the gate and dP is.
    stats.y = gpu_multiply(stats.z, dot) - (gpu_fault("grad_lse_grad_missing") ? 0.0f : row_grad_lse(call.general, branch, side.number));
    if (gpu_fault("grad_delta_missing")) stats.y = 0.0f;
    if (gpu_fault("grad_delta_rounded")) stats.y = gpu_bf16::to_float(gpu_bf16::from_float(stats.y));
    if (gpu_fault("grad_lse_of_a_part") && p.mode == kUnion) stats.x -= 1.0f;  // as if half of the sum were elsewhere
  }
  gpu_store(reinterpret_cast<float4 *>(call.row_stats) + at, stats);
  gpu_store(call.general.deltas + delta_index(call.general.params, branch, side.number), stats.y);
  if (p.mode != kGated) return;
  void *target = branch ? call.general.grad_gate_swa : call.general.grad_gate_sa;
  const sattn_kernel_tensor &place = branch ? call.general.params.grad_gate_swa : call.general.params.grad_gate_sa;
  store_element_of(p.gate_dtype, grad_gate, target, row_offset(place, side.b, side.i, side.h));
}

template <class T, int dtype>
GPU_DEVICE void grad_rows(const sattn_cuda_grad_rows &call) {
  const sattn_general_params &p = call.general.params.forward;
  const int lane = (int)threadIdx.x % kLanes;
  const int64_t first = ((int64_t)blockIdx.x * kWarps + threadIdx.x / kLanes) * kGroupRows;
  if (first >= p.batch * p.heads * p.queries) return;
  const int branches = branch_count(p);
  GPU_NO_UNROLL
  for (int branch = 0; branch < branches; ++branch) {
    Side sides[2];
    GPU_UNROLL
    for (int r = 0; r < 2; ++r) sides[r] = side_of<dtype>(call, first + lane / 4 + 8 * r, branch);
    float dot[2];
    dot_sides<T>(dot, sides, call.general.head_dim, lane);
    const bool diagonal = lane % 4 == lane / 8;
    GPU_UNROLL
    for (int r = 0; r < 2; ++r) {
      if (diagonal && sides[r].inside) finish_side(call, sides[r], branch, dot[r]);
    }
    __syncwarp();
  }
}

}  // namespace

GPU_KERNEL(grad_rows_fp16, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_grad_rows call) {
  grad_rows<gpu_f16, 2>(call);
}
GPU_KERNEL(grad_rows_bf16, SATTN_GENERAL_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_grad_rows call) {
  grad_rows<gpu_bf16, 3>(call);
}
GPU_REGISTER_KERNEL(grad_rows_fp16, SATTN_GENERAL_THREADS);
GPU_REGISTER_KERNEL(grad_rows_bf16, SATTN_GENERAL_THREADS);
