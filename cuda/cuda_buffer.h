/* Device memory: own, or the caller's device pointer. Host memory is not used in place (SATTN_UNSUPPORTED). */
#ifndef SATTN_CUDA_BUFFER_H
#define SATTN_CUDA_BUFFER_H

#include "cuda_context.h"

/* buffer->impl of this backend. */
typedef struct sattn_cuda_buffer {
  sattn_cu_pointer memory; /* 0 for 0 bytes */
} sattn_cuda_buffer;

/* The address of a byte of the buffer; 0 for a NULL buffer and for one of 0 bytes. */
sattn_cu_pointer sattn_cuda_address(const sattn_buffer *buffer, int64_t byte_offset);

sattn_status sattn_cuda_buffer_create(sattn_buffer *buffer, sattn_error *error);
sattn_status sattn_cuda_buffer_wrap_host(sattn_buffer *buffer, void *memory, sattn_error *error);
void sattn_cuda_buffer_destroy(sattn_buffer *buffer);
sattn_status sattn_cuda_buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *error);
sattn_status sattn_cuda_buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *error);

#endif
