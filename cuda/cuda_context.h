/* A context: one device made ready, its primary context or the caller's CUcontext. */
#ifndef SATTN_CUDA_CONTEXT_H
#define SATTN_CUDA_CONTEXT_H

#include "cuda_api.h"
#include "objects.h"

struct sattn_cuda_program;

/* context->impl of this backend. */
typedef struct sattn_cuda_context {
  const sattn_cuda_api *api;
  sattn_cu_device device;
  sattn_cu_context handle; /* the primary context (retained) or the caller's (borrowed) */
  bool primary;
  sattn_cu_stream stream;       /* own, does not synchronise with the default stream */
  pthread_mutex_t program_lock; /* guards the module below while it is loaded */
  struct sattn_cuda_program *programs;
  sattn_cu_result failure; /* first failure of the device, guarded by sattn_context.lock; 0: none */
} sattn_cuda_context;

static inline sattn_cuda_context *sattn_cuda_of(const sattn_context *context) {
  return (sattn_cuda_context *)context->impl;
}

/* `imported`: NULL, or points to the caller's CUcontext (a sattn_cu_context). */
sattn_status sattn_cuda_context_create(sattn_context *context, uint32_t index, const void *imported, sattn_error *error);
void sattn_cuda_context_destroy(sattn_context *context);

/* Every entry of this backend runs between these two, so that the caller's current context is never changed. Leave takes the status so far
 * and returns the first failure. */
sattn_status sattn_cuda_enter(const sattn_context *context, sattn_error *error);
sattn_status sattn_cuda_leave(const sattn_context *context, sattn_status status, sattn_error *error);

/* Remembers a failure of the device for ever: what was computed after it cannot be trusted. */
sattn_status sattn_cuda_context_fail(sattn_context *context, sattn_cu_result code, const char *function, sattn_error *error);

/* SATTN_OK, or the failure that sticks to the context. */
sattn_status sattn_cuda_context_usable(sattn_context *context, sattn_error *error);

sattn_status sattn_cuda_queue_finish(sattn_context *context, sattn_queue queue, sattn_error *error);

#endif
