// Parameters of the general kernels: the struct that OpenCL has too (lib/kernel_params.h), with the device addresses that OpenCL passes as
// arguments of their own. Read by C and by CUDA; pointers are 64-bit on both sides. Arrays that a call does not have are NULL.
#ifndef SATTN_CUDA_KERNELS_GENERAL_PARAMS_H
#define SATTN_CUDA_KERNELS_GENERAL_PARAMS_H

#include "kernel_params.h"

#define SATTN_GENERAL_THREADS 128  // four rows at once, a warp each
#define SATTN_SMALL_THREADS   128  // slots, select, rows, merge

typedef struct sattn_cuda_general {
  sattn_general_params params;
  const void *query, *key, *value;
  void *out;
  float *lse, *lse_sa, *lse_swa;
  void *y_sa, *y_swa;
  const uint32_t *order, *slots;
  const int32_t *lengths, *query_start;
  const float *sink_logits;
  const void *gate_sa, *gate_swa;
  uint32_t *selected;
  float *means, *scores;
  int32_t head_dim;  // OpenCL compiles it in
  int32_t unused;
} sattn_cuda_general;

typedef struct sattn_cuda_general_grad {
  sattn_general_grad_params params;
  const void *query, *key, *value, *grad_out;
  const float *lse_0, *lse_1, *grad_lse_0, *grad_lse_1;  // by branch
  const uint32_t *order, *slots, *selected;
  const void *gate_sa, *gate_swa, *y_sa, *y_swa;
  const int32_t *lengths, *query_start;
  const float *sink_logits;
  void *grad_query, *grad_key, *grad_value, *grad_gate_sa, *grad_gate_swa;
  float *deltas, *grad_sink_logits;
  int32_t head_dim;
  int32_t unused;
} sattn_cuda_general_grad;

typedef struct sattn_cuda_slots_call {
  sattn_slots_params params;
  const uint32_t *order;
  const int32_t *lengths;
  uint32_t *counts, *compact, *slots;
} sattn_cuda_slots_call;

typedef struct sattn_cuda_rows_call {
  sattn_rows_params params;
  const void *source;
  void *target;
  const uint32_t *order;
} sattn_cuda_rows_call;

typedef struct sattn_cuda_merge_call {
  sattn_merge_params params;
  const void *out_a, *out_b;
  const float *lse_a, *lse_b;
  void *out;
  float *lse;
} sattn_cuda_merge_call;

#endif
