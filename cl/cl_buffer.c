#include "cl_buffer.h"

#include <inttypes.h>
#include <stdlib.h>

#include <sattn/opencl.h>

#include "backend.h"

cl_mem sattn_cl_memory(const sattn_buffer *buffer) {
  return buffer ? ((const sattn_cl_buffer *)buffer->impl)->memory : NULL;
}

sattn_status sattn_cl_check_allocation(const sattn_context *context, const char *what, uint64_t bytes, sattn_error *error) {
  uint64_t allowed = context->device.max_allocation_bytes;
  if (bytes <= allowed && bytes <= SIZE_MAX) return SATTN_OK;
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, what, "needs %" PRIu64 " bytes; device %s allows at most %" PRIu64 " in one allocation",
                    bytes, context->device.id, allowed);
}

/* Makes buffer->impl around a cl_mem whose reference it takes over, also on failure. */
static sattn_status keep(sattn_buffer *buffer, cl_mem memory, sattn_error *error) {
  sattn_cl_buffer *impl = calloc(1, sizeof *impl);
  if (!impl) {
    if (memory) sattn_cl_of(buffer->context)->api->clReleaseMemObject(memory);
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a buffer object of %zu bytes", sizeof *impl);
  }
  impl->memory = memory;
  buffer->impl = impl;
  return SATTN_OK;
}

static sattn_status make(sattn_buffer *buffer, cl_mem_flags flags, void *host, sattn_error *error) {
  sattn_cl_context *cl = sattn_cl_of(buffer->context);
  if (buffer->bytes == 0) return keep(buffer, NULL, error); /* OpenCL has no empty buffers */
  sattn_status status = sattn_cl_check_allocation(buffer->context, "bytes", buffer->bytes, error);
  if (status != SATTN_OK) return status;
  cl_int code = CL_SUCCESS;
  cl_mem memory = cl->api->clCreateBuffer(cl->handle, flags, (size_t)buffer->bytes, host, &code);
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_OUT_OF_RESOURCES) {
    return sattn_fail_driver(error, SATTN_OUT_OF_MEMORY, code,
                             "clCreateBuffer returned %d (%s): %" PRIu64 " bytes needed, device %s allows %" PRIu64 " in one allocation",
                             (int)code, sattn_cl_status_text(code), buffer->bytes, buffer->context->device.id,
                             buffer->context->device.max_allocation_bytes);
  }
  status = sattn_cl_check(code, "clCreateBuffer", error);
  return status == SATTN_OK ? keep(buffer, memory, error) : status;
}

sattn_status sattn_cl_buffer_create(sattn_buffer *buffer, sattn_error *error) {
  return make(buffer, CL_MEM_READ_WRITE, NULL, error);
}

sattn_status sattn_cl_buffer_wrap_host(sattn_buffer *buffer, void *memory, sattn_error *error) {
  if (!buffer->context->device.shares_host_memory) {
    return sattn_fail(error, SATTN_UNSUPPORTED, "memory", "host memory cannot be used in place by device %s: it has memory of its own",
                      buffer->context->device.id);
  }
  return make(buffer, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, memory, error);
}

void sattn_cl_buffer_destroy(sattn_buffer *buffer) {
  sattn_cl_buffer *impl = buffer->impl;
  if (!impl) return;
  if (impl->memory) sattn_cl_of(buffer->context)->api->clReleaseMemObject(impl->memory);
  free(impl);
  buffer->impl = NULL;
}

sattn_status sattn_cl_buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *error) {
  if (bytes == 0) return SATTN_OK;
  sattn_cl_context *cl = sattn_cl_of(buffer->context);
  cl_int code =
      cl->api->clEnqueueWriteBuffer(cl->queue, sattn_cl_memory(buffer), CL_TRUE, (size_t)offset, (size_t)bytes, source, 0, NULL, NULL);
  return sattn_cl_check(code, "clEnqueueWriteBuffer", error);
}

sattn_status sattn_cl_buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *error) {
  if (bytes == 0) return SATTN_OK;
  sattn_cl_context *cl = sattn_cl_of(buffer->context);
  cl_int code =
      cl->api->clEnqueueReadBuffer(cl->queue, sattn_cl_memory(buffer), CL_TRUE, (size_t)offset, (size_t)bytes, target, 0, NULL, NULL);
  return sattn_cl_check(code, "clEnqueueReadBuffer", error);
}

/* ---- interop entries (sattn/opencl.h) ---- */

static sattn_status check_wrap(const sattn_context *context, const void *memory, sattn_buffer **out_buffer, sattn_error *error) {
  if (!context) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "context", "NULL; must be a context");
  if (!out_buffer) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "out_buffer", "NULL; must point to a handle");
  if (!memory) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "memory", "NULL; must be memory of the context");
  if (context->ops != &sattn_opencl_backend) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "context", "belongs to backend %s; must be an OpenCL context",
                      sattn_backend_name(context->device.backend));
  }
  return SATTN_OK;
}

static sattn_buffer *allocate(sattn_context *context, uint64_t bytes, sattn_error *error) {
  sattn_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) {
    sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a buffer object of %zu bytes", sizeof *buffer);
    return NULL;
  }
  buffer->context = context;
  buffer->bytes = bytes;
  return buffer;
}

sattn_status sattn_buffer_wrap_opencl(sattn_context *context, cl_mem memory, sattn_buffer **out_buffer, sattn_error *out_error) {
  sattn_status status = check_wrap(context, memory, out_buffer, out_error);
  if (status != SATTN_OK) return status;
  const sattn_cl_context *cl = sattn_cl_of(context);
  size_t bytes = 0;
  cl_context owner = NULL;
  status = sattn_cl_check(cl->api->clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL), "clGetMemObjectInfo", out_error);
  if (status != SATTN_OK) return status;
  status = sattn_cl_check(cl->api->clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof owner, (void *)&owner, NULL), "clGetMemObjectInfo",
                          out_error);
  if (status != SATTN_OK) return status;
  if (owner != cl->handle) {
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "memory", "belongs to another cl_context; must be of the context's own");
  }
  status = sattn_cl_check(cl->api->clRetainMemObject(memory), "clRetainMemObject", out_error);
  if (status != SATTN_OK) return status;
  sattn_buffer *buffer = allocate(context, bytes, out_error);
  if (!buffer) {
    cl->api->clReleaseMemObject(memory);
    return SATTN_OUT_OF_MEMORY;
  }
  status = keep(buffer, memory, out_error);
  if (status != SATTN_OK) {
    free(buffer);
    return status;
  }
  *out_buffer = buffer;
  return SATTN_OK;
}

/* A buffer made with CL_MEM_USE_HOST_PTR on SVM memory is that memory (OpenCL 2.0, clCreateBuffer), so no kernel needs an SVM argument and
 * no symbol beyond 1.2 is called. */
sattn_status sattn_buffer_wrap_opencl_svm(sattn_context *context, void *memory, uint64_t bytes, sattn_buffer **out_buffer,
                                          sattn_error *out_error) {
  sattn_status status = check_wrap(context, memory, out_buffer, out_error);
  if (status != SATTN_OK) return status;
  if (!sattn_cl_of(context)->has_svm) {
    return sattn_fail(out_error, SATTN_UNSUPPORTED, "memory", "device %s has no coarse-grained shared virtual memory", context->device.id);
  }
  sattn_buffer *buffer = allocate(context, bytes, out_error);
  if (!buffer) return SATTN_OUT_OF_MEMORY;
  status = make(buffer, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, memory, out_error);
  if (status != SATTN_OK) {
    free(buffer);
    return status;
  }
  *out_buffer = buffer;
  return SATTN_OK;
}
