/* Gate logits from a layer's input: G = X W^T + bias.
 *
 * X [B*n_q, D], W [outputs, D], bias [outputs], G [B*n_q, outputs] with outputs = H (per head) or H*d (per element); all fp32, row-major,
 * contiguous. Two independent projections make the two logits of GATED (the paper found that better than a softmax over the two).
 * The product comes from CLBlast (OpenCL), cuBLAS (CUDA) or CBLAS (reference), opened at run time; absent: SATTN_UNAVAILABLE, saying what
 * to install. Source: contract section 4.
 */
#ifndef SATTN_GATE_H
#define SATTN_GATE_H

#include <sattn/buffer.h>

SATTN_BEGIN_DECLS

typedef struct sattn_gate_options {
  size_t struct_size;
  int64_t max_rows; /* largest B*n_q */
  int64_t inputs;   /* D >= 1 */
  int64_t outputs;  /* H or H*d, >= 1 */
  int32_t has_bias; /* default 1 */
} sattn_gate_options;

SATTN_API void sattn_gate_options_init(sattn_gate_options *options);

/* Ownership: the creator's. Thread-safety: safe; calls are serialised inside. */
typedef struct sattn_gate_plan sattn_gate_plan;

SATTN_API sattn_status sattn_gate_plan_create(sattn_context *context, const sattn_gate_options *options, sattn_gate_plan **out_plan,
                                              sattn_error *out_error);
SATTN_API void sattn_gate_plan_destroy(sattn_gate_plan **plan);

/* Bytes of workspace for one call (forward or backward) at max_rows. */
SATTN_API uint64_t sattn_gate_plan_workspace(const sattn_gate_plan *plan);

typedef struct sattn_gate_args {
  size_t struct_size;
  int64_t rows;            /* <= max_rows */
  sattn_array input;       /* X */
  sattn_array weight;      /* W */
  sattn_array bias;        /* with has_bias */
  sattn_array logits;      /* forward: output G */
  sattn_array grad_logits; /* backward: input dG */
  sattn_array grad_input;  /* backward: dX = dG W; optional, as are the next two */
  sattn_array grad_weight; /* dW = dG^T X */
  sattn_array grad_bias;   /* column sums of dG */
  sattn_buffer *workspace;
  int64_t workspace_offset; /* bytes, a multiple of 256 */
} sattn_gate_args;

SATTN_API void sattn_gate_args_init(sattn_gate_args *args);
SATTN_API sattn_status sattn_gate_forward(const sattn_gate_plan *plan, const sattn_gate_args *args, sattn_queue queue,
                                          const sattn_event *wait_list, size_t wait_count, sattn_event *out_event, sattn_error *out_error);
SATTN_API sattn_status sattn_gate_backward(const sattn_gate_plan *plan, const sattn_gate_args *args, sattn_queue queue,
                                           const sattn_event *wait_list, size_t wait_count, sattn_event *out_event, sattn_error *out_error);

SATTN_END_DECLS

#endif
