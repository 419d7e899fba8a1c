#include <inttypes.h>
#include <stdlib.h>

#include "backend.h"

static sattn_status refuse(sattn_error *error, const char *name, const char *rule) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s is NULL: %s", name, rule);
}

static sattn_status check_size(const sattn_context *context, uint64_t bytes, sattn_error *error) {
  if (bytes > INT64_MAX) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "bytes", "bytes is %" PRIu64 ": it must be below 2^63", bytes);
  uint64_t most = context->device.max_allocation_bytes;
  if (most == 0 || bytes <= most) return SATTN_OK;
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, "bytes",
                    "bytes is %" PRIu64 ": device %s allows at most %" PRIu64 " bytes in one allocation", bytes, context->device.id, most);
}

/* The struct without a backend's part. */
static sattn_status allocate(sattn_context *context, uint64_t bytes, bool owned, sattn_buffer **out_buffer, sattn_error *error) {
  sattn_buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer == NULL)
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "the host has no memory for a buffer object of %zu bytes", sizeof *buffer);
  buffer->context = context;
  buffer->bytes = bytes;
  buffer->owned = owned;
  *out_buffer = buffer;
  return SATTN_OK;
}

static sattn_status create(sattn_context *context, uint64_t bytes, sattn_buffer **out_buffer, sattn_error *error) {
  if (out_buffer == NULL) return refuse(error, "out_buffer", "it must point to a handle");
  sattn_status status = check_size(context, bytes, error);
  sattn_buffer *buffer = NULL;
  if (status == SATTN_OK) status = allocate(context, bytes, true, &buffer, error);
  if (status != SATTN_OK) return status;
  status = context->ops->buffer_create(buffer, error);
  if (status != SATTN_OK) {
    free(buffer);
    return status;
  }
  *out_buffer = buffer;
  return SATTN_OK;
}

sattn_status sattn_buffer_create(sattn_context *context, uint64_t bytes, sattn_buffer **out_buffer, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, create(context, bytes, out_buffer, error), error);
}

/* Of what kernels read from wrapped memory: fp32, int32 and uint32. Offsets count elements, so every array in it is aligned then. */
enum { HOST_ALIGNMENT = 4 };

static sattn_status wrap_host(sattn_context *context, void *memory, uint64_t bytes, sattn_buffer **out_buffer, sattn_error *error) {
  if (out_buffer == NULL) return refuse(error, "out_buffer", "it must point to a handle");
  if (memory == NULL && bytes > 0) return refuse(error, "memory", "it must point to the bytes to wrap");
  if ((uintptr_t)memory % HOST_ALIGNMENT != 0) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "memory",
                      "memory begins at %p: it must be a multiple of %d bytes, the largest element", memory, HOST_ALIGNMENT);
  }
  if (context->device.shares_host_memory == 0) {
    return sattn_fail(error, SATTN_UNSUPPORTED, "memory",
                      "device %s has memory of its own and cannot use host memory in place: create a buffer and write to it",
                      context->device.id);
  }
  sattn_status status = check_size(context, bytes, error);
  sattn_buffer *buffer = NULL;
  if (status == SATTN_OK) status = allocate(context, bytes, false, &buffer, error);
  if (status != SATTN_OK) return status;
  status = context->ops->buffer_wrap_host(buffer, memory, error);
  if (status != SATTN_OK) {
    free(buffer);
    return status;
  }
  *out_buffer = buffer;
  return SATTN_OK;
}

sattn_status sattn_buffer_wrap_host(sattn_context *context, void *memory, uint64_t bytes, sattn_buffer **out_buffer,
                                    sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, wrap_host(context, memory, bytes, out_buffer, error), error);
}

void sattn_buffer_destroy(sattn_buffer **buffer) {
  if (buffer == NULL || *buffer == NULL) return;
  (*buffer)->context->ops->buffer_destroy(*buffer);
  free(*buffer);
  *buffer = NULL;
}

uint64_t sattn_buffer_size(const sattn_buffer *buffer) {
  return buffer != NULL ? buffer->bytes : 0;
}

static sattn_status check_range(const sattn_buffer *buffer, uint64_t offset, uint64_t bytes, const char *name, const void *memory,
                                sattn_error *error) {
  if (memory == NULL && bytes > 0) return refuse(error, name, "it must point to host memory");
  uint64_t end = 0;
  if (!sattn_checked_add(offset, bytes, &end) || end > buffer->bytes) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "offset",
                      "offset is %" PRIu64 " with %" PRIu64 " bytes: the buffer has %" PRIu64 " bytes", offset, bytes, buffer->bytes);
  }
  return SATTN_OK;
}

sattn_status sattn_buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *out_error) {
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  if (buffer == NULL) return refuse(error, "buffer", "make one by sattn_buffer_create");
  sattn_status status = check_range(buffer, offset, bytes, "source", source, error);
  if (status == SATTN_OK && bytes > 0) status = buffer->context->ops->buffer_write(buffer, offset, source, bytes, error);
  return sattn_context_report(buffer->context, status, error);
}

sattn_status sattn_buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *out_error) {
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  if (buffer == NULL) return refuse(error, "buffer", "make one by sattn_buffer_create");
  sattn_status status = check_range(buffer, offset, bytes, "target", target, error);
  if (status == SATTN_OK && bytes > 0) status = buffer->context->ops->buffer_read(buffer, offset, target, bytes, error);
  return sattn_context_report(buffer->context, status, error);
}

void sattn_tensor_resolve(sattn_tensor *tensor, int64_t tokens, int64_t heads, int64_t width) {
  if (tensor->stride_batch != 0 || tensor->stride_token != 0 || tensor->stride_head != 0) return;
  tensor->stride_batch = tokens * heads * width;
  tensor->stride_token = heads * width;
  tensor->stride_head = width;
}
