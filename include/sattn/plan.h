/* Plan, workspace, execute.
 *
 *     sattn_plan_create      for the largest B, n_q, n_k that will come: validates, chooses kernels, builds and launches each program once
 *     sattn_plan_workspace   how much scratch memory one call in flight needs
 *     sattn_forward          enqueues on the caller's queue: no allocation, no driver object but events, no waiting
 *     sattn_backward         the same for the gradients
 *
 * Results repeat to the bit on every run of one build on one device, and the result of a batch entry depends neither on B nor on the
 * others.
 *
 * Source: contract sections 6 and 7.
 */
#ifndef SATTN_PLAN_H
#define SATTN_PLAN_H

#include <sattn/attention.h>
#include <sattn/buffer.h>

SATTN_BEGIN_DECLS

/* Largest sizes that a plan will be asked for. 0 <= queries <= keys < 2^31, batch >= 0. */
typedef struct sattn_sizes {
  int64_t batch;
  int64_t queries;
  int64_t keys;
} sattn_sizes;

typedef enum sattn_pass { SATTN_PASS_FORWARD = 1, SATTN_PASS_BACKWARD = 2 } sattn_pass;

typedef enum sattn_path {
  SATTN_PATH_FAST = 1,   /* a tuned kernel */
  SATTN_PATH_GENERAL = 2 /* the plain kernel: right, slower */
} sattn_path;

/* What a plan chose. Filled by sattn_plan_query and sattn_plan_get_info. */
typedef struct sattn_plan_info {
  size_t struct_size;
  sattn_path forward_path; /* 0 when the pass was not asked for */
  sattn_path backward_path;
  uint64_t forward_workspace; /* bytes; O(n_q + n_k), MOBA plus n_q * topk */
  uint64_t backward_workspace;
  char forward_kernel[64]; /* name of the attention kernel */
  char backward_kernel[64];
  char reason[256]; /* why not a faster one; empty for the fastest */
} sattn_plan_info;

SATTN_API void sattn_plan_info_init(sattn_plan_info *info);

/* Programs and kernels for one description and all sizes up to the maxima. Ownership: the creator's; must not be destroyed while a call is
 * in flight. Thread-safety: safe; several threads may enqueue from one plan with separate workspaces. */
typedef struct sattn_plan sattn_plan;

/* The support query: SATTN_OK exactly when sattn_plan_create with the same arguments succeeds (memory apart, but the device's
 * single-allocation limit included); otherwise the same status and message. passes: sum of sattn_pass values. Builds nothing, except that
 * the first question about bf16 on a CPU with AMX builds and runs a small kernel whose answer is known. */
SATTN_API sattn_status sattn_plan_query(sattn_context *context, const sattn_attention *attention, const sattn_sizes *maxima,
                                        uint32_t passes, sattn_plan_info *out_info, sattn_error *out_error);

/* May take seconds: compiles, or loads compiled programs from the cache, and launches each kernel once on an empty range. */
SATTN_API sattn_status sattn_plan_create(sattn_context *context, const sattn_attention *attention, const sattn_sizes *maxima,
                                         uint32_t passes, sattn_plan **out_plan, sattn_error *out_error);
SATTN_API void sattn_plan_destroy(sattn_plan **plan);

/* Optional, after creation: runs every pass of the plan once on a small call (one batch entry, at most 256 keys) in memory of its own, on
 * the context's own queue, and waits. What drivers put off until a kernel is first launched over a real range (threads, code for the shape
 * of a launch, library handles) is done then, and the first real call takes as long as the second but for the pages of its own memory.
 * Allocates a workspace for the plan's maxima and gives it back. A plan for backward alone has nothing to run. Thread-safety: safe. */
SATTN_API sattn_status sattn_plan_warm_up(const sattn_plan *plan, sattn_error *out_error);

SATTN_API sattn_status sattn_plan_get_info(const sattn_plan *plan, sattn_plan_info *out_info, sattn_error *out_error);

/* Bytes of workspace for one call of the pass at the plan's maxima; 0 is possible. */
SATTN_API uint64_t sattn_plan_workspace(const sattn_plan *plan, sattn_pass pass);

/* ---- what forward saves for backward ---- */

/* Caller-owned, a plain value. Before forward: _init, then the buffers marked (in). Forward fills the rest. Backward takes it and no
 * permutation of its own; if plan, permutation (identity and hash) or sizes differ, it is refused with SATTN_MISMATCH.
 * The saved arrays, and the permutation, must stay unchanged until backward is complete. */
typedef struct sattn_saved {
  size_t struct_size;
  sattn_array y_sa;     /* (in) GATED: branch outputs [B, n_q, H, d] in the dtype, contiguous */
  sattn_array y_swa;    /* (in) GATED */
  sattn_array selected; /* (in) MOBA: uint32 [B, H, n_q, topk], selected blocks in ascending order, unused places 0xffffffff */
  /* --- filled by forward --- */
  sattn_tensor out;
  sattn_array lse;
  sattn_array lse_sa;
  sattn_array lse_swa;
  const sattn_permutation *permutation;
  uint64_t permutation_id;
  uint64_t permutation_hash;
  uint64_t plan_id;
  sattn_sizes sizes;
} sattn_saved;

SATTN_API void sattn_saved_init(sattn_saved *saved);

/* ---- forward ---- */

typedef struct sattn_forward_args {
  size_t struct_size;
  sattn_sizes sizes; /* actual B, n_q, n_k, each within the plan's maxima. batch or queries of 0: success, nothing is written */

  /* --- inputs, in the plan's dtype --- */
  sattn_tensor query; /* [B, n_q, H, d] */
  sattn_tensor key;   /* [B, n_k, H_kv, d] */
  sattn_tensor value; /* [B, n_k, H_kv, d] */
  /* STOCHASTIC, UNION, GATED: length n_k (or order_length), sharing as described, count for B. NULL elsewhere. */
  const sattn_permutation *permutation;
  sattn_tensor gate_sa; /* GATED: logits [B, n_q, H, 1 or d] in gate_dtype; zero strides mean packed */
  sattn_tensor gate_swa;
  /* Exactly where the description says has_...; read by kernels only, which clamp lengths and query_start into their ranges. */
  sattn_array lengths;     /* int32 [B] */
  sattn_array query_start; /* int32 [B] */
  sattn_array sink_logits; /* fp32 [H] */

  /* --- outputs; must not overlap inputs, workspace or each other --- */
  sattn_tensor out;   /* [B, n_q, H, d] */
  sattn_array lse;    /* fp32 [B, H, n_q]; optional unless saved is given; not in GATED */
  sattn_array lse_sa; /* the same for GATED's branches; in GATED only */
  sattn_array lse_swa;

  /* --- scratch --- */
  sattn_buffer *workspace;  /* at least sattn_plan_workspace bytes beyond workspace_offset; may be NULL if that is 0 */
  int64_t workspace_offset; /* bytes, a multiple of 256 */

  sattn_saved *saved; /* NULL (default): nothing is kept for backward */
} sattn_forward_args;

SATTN_API void sattn_forward_args_init(sattn_forward_args *args);

/* Enqueues the forward pass after the events of wait_list. Returns once it is enqueued and flushed, without waiting for the device. If only
 * flushing fails (SATTN_DRIVER_ERROR), the whole pass is in the queue: sattn_queue_finish completes it.
 * out_event (may be NULL) receives the event that ends the last kernel; the caller owns it. All memory named in args is in use until then.
 * A call with nothing to do (batch or queries of 0) enqueues nothing and gives the event {NULL} at once, whatever wait_list holds.
 * On an out-of-order queue kernels are chained by events; the context's own queue ({NULL}) is in order. */
SATTN_API sattn_status sattn_forward(const sattn_plan *plan, const sattn_forward_args *args, sattn_queue queue,
                                     const sattn_event *wait_list, size_t wait_count, sattn_event *out_event, sattn_error *out_error);

/* ---- backward ---- */

/* Gradients of L = sum(O * dO) + sum(LSE * dLSE). Every output element is written; dK, dV of keys that no query sees are exactly 0. */
typedef struct sattn_backward_args {
  size_t struct_size;
  const sattn_saved *saved; /* required: sizes, permutation, out and LSE come from here */

  /* --- inputs: the same arrays that forward had --- */
  sattn_tensor query;
  sattn_tensor key;
  sattn_tensor value;
  sattn_tensor gate_sa;
  sattn_tensor gate_swa;
  sattn_array lengths;
  sattn_array query_start;
  sattn_array sink_logits;
  sattn_tensor grad_out;   /* dO, shaped as out, in the dtype */
  sattn_array grad_lse;    /* dLSE, fp32 [B, H, n_q]; optional (default: zero) */
  sattn_array grad_lse_sa; /* GATED instead of grad_lse; optional each */
  sattn_array grad_lse_swa;

  /* --- outputs --- */
  sattn_tensor grad_query;   /* required, in the dtype */
  sattn_tensor grad_key;     /* required */
  sattn_tensor grad_value;   /* required */
  sattn_tensor grad_gate_sa; /* GATED: required, in gate_dtype, shaped as the logits */
  sattn_tensor grad_gate_swa;
  sattn_array grad_sink_logits; /* fp32 [H]; required exactly where sink logits are given */

  sattn_buffer *workspace;
  int64_t workspace_offset;
} sattn_backward_args;

SATTN_API void sattn_backward_args_init(sattn_backward_args *args);

SATTN_API sattn_status sattn_backward(const sattn_plan *plan, const sattn_backward_args *args, sattn_queue queue,
                                      const sattn_event *wait_list, size_t wait_count, sattn_event *out_event, sattn_error *out_error);

/* ---- where the time goes ---- */

/* Seconds of the stages of the last call while profiling was on. */
typedef struct sattn_profile {
  size_t struct_size;
  double permute_seconds; /* sorting, slots, index lists on the device */
  double pack_seconds;
  double attend_seconds;
  double other_seconds; /* selection, gates, merging */
} sattn_profile;

SATTN_API void sattn_profile_init(sattn_profile *profile);

/* With profiling on (1), every call WAITS after each stage and times it; results are the same. For measurements only. Default off.
 * Not to be switched while calls of the plan are in flight. */
SATTN_API void sattn_plan_set_profiling(sattn_plan *plan, int on);
SATTN_API void sattn_plan_get_profile(const sattn_plan *plan, sattn_profile *out_profile);

SATTN_END_DECLS

#endif
