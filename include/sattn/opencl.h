/* Objects of the caller's OpenCL program. The only header that includes an OpenCL header.
 *
 * sattn loads libOpenCL at run time; objects given here must come from the same ICD loader (libOpenCL.so.1 of the process).
 */
#ifndef SATTN_OPENCL_H
#define SATTN_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <sattn/buffer.h>
#include <sattn/device.h>

SATTN_BEGIN_DECLS

/* A context on the caller's cl_context and one of its devices. Both are retained until sattn_context_destroy. options may be NULL. */
SATTN_API sattn_status sattn_context_create_opencl(cl_context cl_context_handle, cl_device_id cl_device,
                                                   const sattn_context_options *options, sattn_context **out_context,
                                                   sattn_error *out_error);

/* Uses the caller's cl_mem, which must belong to the same cl_context. Retained until sattn_buffer_destroy. Offsets are given per tensor;
 * sub-buffers are not needed. */
SATTN_API sattn_status sattn_buffer_wrap_opencl(sattn_context *context, cl_mem memory, sattn_buffer **out_buffer, sattn_error *out_error);

/* Uses coarse-grained SVM memory (clSVMAlloc) of `bytes` bytes; it must outlive the buffer. SATTN_UNSUPPORTED where the device has no SVM.
 */
SATTN_API sattn_status sattn_buffer_wrap_opencl_svm(sattn_context *context, void *memory, uint64_t bytes, sattn_buffer **out_buffer,
                                                    sattn_error *out_error);

/* The context's own cl_context and device, borrowed; NULL if the context is of another backend. */
SATTN_API cl_context sattn_context_opencl(const sattn_context *context);
SATTN_API cl_device_id sattn_context_opencl_device(const sattn_context *context);

/* Views without change of ownership. */
static inline sattn_queue sattn_queue_opencl(cl_command_queue queue) {
  sattn_queue view;
  view.native = (void *)queue;
  return view;
}

static inline sattn_event sattn_event_opencl(cl_event event) {
  sattn_event view;
  view.native = (void *)event;
  return view;
}

static inline cl_event sattn_event_to_opencl(sattn_event event) {
  return (cl_event)event.native;
}

SATTN_END_DECLS

#endif
