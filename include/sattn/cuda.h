/* Objects of the caller's CUDA program (driver API). The only header that includes a CUDA header.
 *
 * sattn loads libcuda at run time. The context is pushed at the start of every call and popped at its end, so the caller's current context
 * is never changed.
 */
#ifndef SATTN_CUDA_H
#define SATTN_CUDA_H

#include <cuda.h>

#include <sattn/buffer.h>
#include <sattn/device.h>

SATTN_BEGIN_DECLS

/* A context on the caller's CUcontext, which must outlive it. options may be NULL. */
SATTN_API sattn_status sattn_context_create_cuda(CUcontext cu_context, const sattn_context_options *options, sattn_context **out_context,
                                                 sattn_error *out_error);

/* Uses `bytes` bytes at the caller's device pointer; they must outlive the buffer. */
SATTN_API sattn_status sattn_buffer_wrap_cuda(sattn_context *context, CUdeviceptr memory, uint64_t bytes, sattn_buffer **out_buffer,
                                              sattn_error *out_error);

/* Views without change of ownership. The default stream is spelled CU_STREAM_LEGACY or CU_STREAM_PER_THREAD; NULL is the context's own. */
static inline sattn_queue sattn_queue_cuda(CUstream stream) {
  sattn_queue view;
  view.native = (void *)stream;
  return view;
}

static inline sattn_event sattn_event_cuda(CUevent event) {
  sattn_event view;
  view.native = (void *)event;
  return view;
}

SATTN_END_DECLS

#endif
