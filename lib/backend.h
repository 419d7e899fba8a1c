/* What a backend is: a table of functions. The registry (registry.c) is the only place that knows which backends exist.
 *
 * Public entries validate once; a backend may assume valid input: initialised structs, sizes within maxima, buffers of the right context
 * that are large enough, strides resolved (sattn_tensor_resolve), optional arrays present exactly where the problem says so.
 * Every function may be called from any thread. Functions that return a status fill `error` (which may be NULL).
 */
#ifndef SATTN_LIB_BACKEND_H
#define SATTN_LIB_BACKEND_H

#include "objects.h"

#define SATTN_BACKEND_INTERFACE_VERSION 1

/* Dependencies and result of an asynchronous call. */
typedef struct sattn_submission {
  sattn_queue queue; /* {NULL}: the context's own */
  const sattn_event *wait_list;
  size_t wait_count;
  sattn_event *out_event; /* may be NULL */
} sattn_submission;

typedef struct sattn_backend_ops {
  uint32_t interface_version;
  sattn_backend backend;

  /* SATTN_OK if at least one device can be used. */
  sattn_status (*probe)(sattn_error *error);
  uint32_t (*device_count)(void);
  sattn_status (*device_info)(uint32_t index, sattn_device_info *out_info, sattn_error *error);

  /* Fills context->impl and context->device. `imported` is NULL, or points to the backend's struct of the caller's handles. */
  sattn_status (*context_create)(sattn_context *context, uint32_t index, const void *imported, sattn_error *error);
  void (*context_destroy)(sattn_context *context);

  /* Fill buffer->impl; context, bytes and owned are set already. */
  sattn_status (*buffer_create)(sattn_buffer *buffer, sattn_error *error);
  sattn_status (*buffer_wrap_host)(sattn_buffer *buffer, void *memory, sattn_error *error);
  void (*buffer_destroy)(sattn_buffer *buffer);
  sattn_status (*buffer_write)(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *error);
  sattn_status (*buffer_read)(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *error);

  /* Chooses kernels without building them (the OpenCL backend may build and run one with a known answer, once): fills info but struct_size.
   * The same answer as plan_prepare, always. */
  sattn_status (*plan_query)(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                             sattn_plan_info *info, sattn_error *error);
  /* Builds and launches once; fills plan->impl. plan->info comes from plan_query. */
  sattn_status (*plan_prepare)(sattn_plan *plan, sattn_error *error);
  void (*plan_destroy)(sattn_plan *plan);

  /* batch >= 1, queries >= 1. forward may read the (in) arrays of args->saved and writes
   * their contents; the struct itself is filled by the core. */
  sattn_status (*forward)(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission, sattn_error *error);
  /* batch >= 1. queries may be 0 (dK, dV, dsink_logits are then zeros). */
  sattn_status (*backward)(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission, sattn_error *error);

  /* Optional (NULL: orders are drawn on the host). Draws all orders of the permutation into device_order and waits; bit-identical to
   * sattn_permutation_draw. May allocate and build. */
  sattn_status (*draw_orders)(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *error);

  sattn_status (*rows_prepare)(sattn_context *context, sattn_error *error);
  /* inverse: 0 gather, 1 scatter. */
  sattn_status (*move_rows)(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                            sattn_error *error);
  sattn_status (*merge)(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission, sattn_error *error);

  /* Fills plan->workspace and plan->impl. */
  sattn_status (*gate_prepare)(sattn_gate_plan *plan, sattn_error *error);
  void (*gate_destroy)(sattn_gate_plan *plan);
  sattn_status (*gate_run)(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward, const sattn_submission *submission,
                           sattn_error *error);

  sattn_status (*event_wait)(sattn_context *context, sattn_event event, sattn_error *error);
  void (*event_release)(sattn_context *context, sattn_event *event);
  sattn_status (*queue_finish)(sattn_context *context, sattn_queue queue, sattn_error *error);
} sattn_backend_ops;

/* The tables; a backend left out of the build has a stub file whose probe says "built without ...". */
extern const sattn_backend_ops sattn_reference_backend;
extern const sattn_backend_ops sattn_opencl_backend;
extern const sattn_backend_ops sattn_cuda_backend;

/* registry.c. NULL for an unknown value. */
const sattn_backend_ops *sattn_registry_get(sattn_backend backend);

/* plan.c: gives an entry of a backend that cannot do a pass or operation its one answer: SATTN_UNSUPPORTED, naming backend and operation.
 */
sattn_status sattn_unsupported(const sattn_context *context, const char *operation, sattn_error *error);

#endif
