// What the gate projection G = X W^T + bias needs beside a matrix product: the bias put into every row before the product is added, and the
// column sums of dG for its gradient. Arrays are row-major [rows, outputs], fp32.
#include "gate_params.h"
#include "gpu.h"

// A thread per logit.
GPU_KERNEL(gate_fill_bias, SATTN_GATE_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_gate_call call) {
  const int64_t index = (int64_t)blockIdx.x * SATTN_GATE_THREADS + threadIdx.x;
  if (index < call.rows * call.outputs) gpu_store(call.target + index, gpu_load(call.source + index % call.outputs));
}

// A thread per column, rows in order with Kahan's compensation: the same bits on every run, and an error that does not grow with the rows.
GPU_KERNEL(gate_column_sums, SATTN_GATE_THREADS)(const GPU_GRID_CONSTANT sattn_cuda_gate_call call) {
  const int64_t column = (int64_t)blockIdx.x * SATTN_GATE_THREADS + threadIdx.x;
  if (column >= call.outputs) return;
  float total = 0.0f, lost = 0.0f;
  for (int64_t row = 0; row < call.rows; ++row) {
    const float corrected = gpu_load(call.source + row * call.outputs + column) - lost;
    const float next = total + corrected;
    lost = (next - total) - corrected;
    total = next;
  }
  gpu_store(call.target + column, total);
}

GPU_REGISTER_KERNEL(gate_fill_bias, SATTN_GATE_THREADS);
GPU_REGISTER_KERNEL(gate_column_sums, SATTN_GATE_THREADS);
