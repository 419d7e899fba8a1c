/* Attention on host arrays in one call, on any backend: for people who just want the result.
 *
 * Makes context (unless given), plan, permutation, workspace, runs forward and, if grad_out is given, backward, and waits. On devices that
 * share memory with the host the arrays are used in place. Values of lengths, query_start are seen here and bad ones refused.
 */
#ifndef SATTN_HOST_H
#define SATTN_HOST_H

#include <sattn/attention.h>
#include <sattn/device.h>

SATTN_BEGIN_DECLS

/* A host array with element strides; three zero strides mean packed, as in sattn_tensor. */
typedef struct sattn_host_input {
  const void *data;
  int64_t stride_batch;
  int64_t stride_token;
  int64_t stride_head;
} sattn_host_input;

typedef struct sattn_host_output {
  void *data;
  int64_t stride_batch;
  int64_t stride_token;
  int64_t stride_head;
} sattn_host_output;

typedef struct sattn_host_call {
  size_t struct_size;
  /* The device: a context to use, else a device id as in sattn_context_create, else (both NULL) the best device. */
  sattn_context *context;
  const char *device_id;

  /* The description; its has_lengths, has_query_start, has_sink_logits are set from the pointers below. */
  sattn_attention attention;
  int64_t batch;
  int64_t queries;
  int64_t keys;

  sattn_host_input query; /* [B, n_q, H, d] in the dtype */
  sattn_host_input key;   /* [B, n_k, H_kv, d] */
  sattn_host_input value;
  sattn_host_input gate_sa; /* GATED: logits in gate_dtype */
  sattn_host_input gate_swa;
  const int32_t *lengths;     /* [B] or NULL */
  const int32_t *query_start; /* [B] or NULL */
  const float *sink_logits;   /* [H] or NULL */

  /* The permutation: drawn from the key, or the caller's orders. */
  sattn_permutation_key permutation_key;
  const uint32_t *order; /* [order_count][order_size] or NULL */
  int64_t order_count;   /* must be 1, H_kv, B or B*H_kv as attention.sharing says */
  int64_t order_size;    /* must be n_k, or attention.order_length if that is set */

  sattn_host_output out; /* [B, n_q, H, d] in the dtype */
  float *lse;            /* [B, H, n_q]; optional; not in GATED */
  float *lse_sa;         /* GATED; optional */
  float *lse_swa;

  /* Backward runs when grad_out.data is given; then grad_query, grad_key, grad_value are required. */
  sattn_host_input grad_out;
  const float *grad_lse;
  const float *grad_lse_sa;
  const float *grad_lse_swa;
  sattn_host_output grad_query;
  sattn_host_output grad_key;
  sattn_host_output grad_value;
  sattn_host_output grad_gate_sa; /* in gate_dtype */
  sattn_host_output grad_gate_swa;
  float *grad_sink_logits;
} sattn_host_call;

SATTN_API void sattn_host_call_init(sattn_host_call *call);

/* Blocks until the result is there. A refused call leaves every output as it was: all checks and allocations come before the first kernel.
 * Only a device that fails while it computes can leave outputs half written, where it uses them in place. Thread-safety: safe. */
SATTN_API sattn_status sattn_attention_host(const sattn_host_call *call, sattn_error *out_error);

SATTN_END_DECLS

#endif
