#include "cuda_buffer.h"

#include <stdlib.h>

#include "backend.h"
#include "cuda_interop.h"

static sattn_status allocate_impl(sattn_buffer *buffer, sattn_error *error) {
  buffer->impl = calloc(1, sizeof(sattn_cuda_buffer));
  if (buffer->impl) return SATTN_OK;
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a buffer handle");
}

sattn_cu_pointer sattn_cuda_address(const sattn_buffer *buffer, int64_t byte_offset) {
  if (!buffer || !buffer->impl) return 0;
  sattn_cu_pointer memory = ((const sattn_cuda_buffer *)buffer->impl)->memory;
  return memory ? memory + (sattn_cu_pointer)byte_offset : 0;
}

sattn_status sattn_cuda_buffer_create(sattn_buffer *buffer, sattn_error *error) {
  const sattn_context *context = buffer->context;
  if (buffer->bytes > context->device.max_allocation_bytes) {
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, "bytes", "%llu bytes needed, at most %llu bytes in one allocation on %s",
                      (unsigned long long)buffer->bytes, (unsigned long long)context->device.max_allocation_bytes, context->device.id);
  }
  sattn_status status = allocate_impl(buffer, error);
  if (status != SATTN_OK || buffer->bytes == 0) return status;
  status = sattn_cuda_enter(context, error);
  if (status == SATTN_OK) {
    sattn_cu_pointer memory = 0;
    sattn_cu_result code = sattn_cuda_of(context)->api->memory_allocate(&memory, (size_t)buffer->bytes);
    if (code == SATTN_CU_ERROR_OUT_OF_MEMORY) {
      status = sattn_fail_driver(error, SATTN_OUT_OF_MEMORY, code, "%llu bytes needed, device %s of %llu bytes has not that many free",
                                 (unsigned long long)buffer->bytes, context->device.id, (unsigned long long)context->device.memory_bytes);
    } else {
      status = sattn_cuda_check(sattn_cuda_of(context)->api, code, "cuMemAlloc", error);
    }
    ((sattn_cuda_buffer *)buffer->impl)->memory = memory;
    status = sattn_cuda_leave(context, status, error);
  }
  if (status != SATTN_OK) sattn_cuda_buffer_destroy(buffer);
  return status;
}

sattn_status sattn_cuda_buffer_wrap_host(sattn_buffer *buffer, void *memory, sattn_error *error) {
  (void)memory;
  return sattn_fail(error, SATTN_UNSUPPORTED, "memory", "device %s does not share memory with the host: use sattn_buffer_create",
                    buffer->context->device.id);
}

void sattn_cuda_buffer_destroy(sattn_buffer *buffer) {
  sattn_cuda_buffer *impl = buffer->impl;
  if (!impl) return;
  if (buffer->owned && impl->memory && sattn_cuda_enter(buffer->context, NULL) == SATTN_OK) {
    sattn_cuda_of(buffer->context)->api->memory_free(impl->memory);
    sattn_cuda_leave(buffer->context, SATTN_OK, NULL);
  }
  free(impl);
  buffer->impl = NULL;
}

/* The synchronisation is what makes the copy blocking: pageable copies may return before the device has the bytes. */
static sattn_status finish_copy(sattn_context *context, sattn_cu_result code, const char *function, sattn_error *error) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  sattn_status status = sattn_cuda_check(cuda->api, code, function, error);
  if (status == SATTN_OK) {
    code = cuda->api->stream_synchronize(cuda->stream);
    if (code != SATTN_CU_SUCCESS) status = sattn_cuda_context_fail(context, code, "cuStreamSynchronize", error);
  }
  return sattn_cuda_leave(context, status, error);
}

sattn_status sattn_cuda_buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *error) {
  if (bytes == 0) return SATTN_OK;
  sattn_status status = sattn_cuda_enter(buffer->context, error);
  if (status != SATTN_OK) return status;
  sattn_cuda_context *cuda = sattn_cuda_of(buffer->context);
  sattn_cu_result code = cuda->api->copy_to_device(sattn_cuda_address(buffer, (int64_t)offset), source, (size_t)bytes, cuda->stream);
  return finish_copy(buffer->context, code, "cuMemcpyHtoDAsync", error);
}

sattn_status sattn_cuda_buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *error) {
  if (bytes == 0) return SATTN_OK;
  sattn_status status = sattn_cuda_enter(buffer->context, error);
  if (status != SATTN_OK) return status;
  sattn_cuda_context *cuda = sattn_cuda_of(buffer->context);
  sattn_cu_result code = cuda->api->copy_to_host(target, sattn_cuda_address(buffer, (int64_t)offset), (size_t)bytes, cuda->stream);
  return finish_copy(buffer->context, code, "cuMemcpyDtoHAsync", error);
}

/* ---- interop entry (sattn/cuda.h) ---- */

sattn_status sattn_buffer_wrap_cuda(sattn_context *context, sattn_cu_pointer memory, uint64_t bytes, sattn_buffer **out_buffer,
                                    sattn_error *out_error) {
  if (!out_buffer) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "out_buffer", "NULL; must point to a handle");
  if (!context || context->ops != &sattn_cuda_backend) {
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "context", "must be a context of the CUDA backend");
  }
  if (bytes > INT64_MAX) {
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "bytes", "bytes is %llu: it must be below 2^63", (unsigned long long)bytes);
  }
  if (!memory && bytes) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "memory", "0 with %llu bytes", (unsigned long long)bytes);
  sattn_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return sattn_fail(out_error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a buffer handle");
  buffer->context = context;
  buffer->bytes = bytes;
  sattn_status status = allocate_impl(buffer, out_error);
  if (status != SATTN_OK) {
    free(buffer);
    return status;
  }
  ((sattn_cuda_buffer *)buffer->impl)->memory = memory;
  *out_buffer = buffer;
  return SATTN_OK;
}
