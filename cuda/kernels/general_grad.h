// What the kernels of the general backward pass share: where rows of LSE and delta lie, and dY.
#ifndef SATTN_CUDA_KERNELS_GENERAL_GRAD_H
#define SATTN_CUDA_KERNELS_GENERAL_GRAD_H

#include "visible.h"

namespace {

GPU_DEVICE int branch_count(const sattn_general_params &p) {
  return p.mode == kGated ? 2 : 1;
}

GPU_DEVICE float row_lse(const sattn_cuda_general_grad &call, int branch, int64_t row) {
  const sattn_general_params &p = call.params.forward;
  return branch ? gpu_load(call.lse_1 + p.lse_swa + row) : gpu_load(call.lse_0 + p.lse_sa + row);
}

GPU_DEVICE float row_grad_lse(const sattn_cuda_general_grad &call, int branch, int64_t row) {
  const float *array = branch ? call.grad_lse_1 : call.grad_lse_0;
  return array ? gpu_load(array + (branch ? call.params.grad_lse_swa : call.params.grad_lse_sa) + row) : 0.0f;
}

GPU_DEVICE int64_t delta_index(const sattn_general_grad_params &params, int branch, int64_t row) {
  const sattn_general_params &p = params.forward;
  return params.deltas + branch * p.batch * p.heads * p.queries + row;
}

// d score / d (scale * <q, k>): 1 - tanh^2 as 4 e / (1 + e)^2, which keeps its digits far beyond the cap. Where double precision has a
// tanh of 1, it is 0.
GPU_DEVICE float softcap_slope(float raw, const sattn_general_params &p) {
  if (!(p.softcap > 0.0f)) return 1.0f;
  const float e = expf(-2.0f * fabsf(raw / p.softcap));
  return e < 0x1p-55f ? 0.0f : 4.0f * e / ((1.0f + e) * (1.0f + e));
}

// ---- dY of a branch: dO, in GATED through the open gate

struct Gate {
  const void *logits;  // NULL: always open
  int64_t at;
  int dtype;
  bool per_element;
};

GPU_DEVICE Gate gate_of(const sattn_cuda_general_grad &call, int branch, int64_t b, int64_t i, int64_t h) {
  const sattn_general_params &p = call.params.forward;
  Gate gate = {nullptr, 0, p.gate_dtype, false};
  if (p.mode != kGated) return gate;
  gate.logits = branch ? call.gate_swa : call.gate_sa;
  gate.at = branch ? row_offset(p.gate_swa, b, i, h) : row_offset(p.gate_sa, b, i, h);
  gate.per_element = branch ? p.gate_swa_element != 0 : p.gate_sa_element != 0;
  return gate;
}

GPU_DEVICE float gate_logit(const Gate &gate, int c) {
  return load_element_of(gate.dtype, gate.logits, gate.at + (gate.per_element ? c : 0));
}

// The one factor of all elements; of a gate per element, 1.
GPU_DEVICE float head_factor(const Gate &gate) {
  return gate.logits && !gate.per_element ? sigmoid(gate_logit(gate, 0)) : 1.0f;
}

// Element c of dY; `open` is the head's factor.
template <int dtype>
GPU_DEVICE float grad_branch(const void *grad_out, int64_t at, const Gate &gate, float open, int c) {
  return load_element<dtype>(grad_out, at + c) * (gate.per_element ? sigmoid(gate_logit(gate, c)) : open);
}

}  // namespace

#endif
