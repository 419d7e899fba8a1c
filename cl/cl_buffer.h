/* Device memory: own, host memory in place, the caller's cl_mem, shared virtual memory. All four are a cl_mem in the end, so kernels and
 * copies know one kind only. */
#ifndef SATTN_CL_BUFFER_H
#define SATTN_CL_BUFFER_H

#include "cl_context.h"

/* buffer->impl of this backend. */
typedef struct sattn_cl_buffer {
  cl_mem memory; /* NULL for 0 bytes */
} sattn_cl_buffer;

/* The cl_mem of a buffer; NULL for a NULL buffer and for one of 0 bytes. */
cl_mem sattn_cl_memory(const sattn_buffer *buffer);

sattn_status sattn_cl_buffer_create(sattn_buffer *buffer, sattn_error *error);
sattn_status sattn_cl_buffer_wrap_host(sattn_buffer *buffer, void *memory, sattn_error *error);
void sattn_cl_buffer_destroy(sattn_buffer *buffer);
sattn_status sattn_cl_buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *error);
sattn_status sattn_cl_buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *error);

/* SATTN_OUT_OF_MEMORY, with needed and allowed size, if `bytes` in one allocation are more than the device allows. */
sattn_status sattn_cl_check_allocation(const sattn_context *context, const char *what, uint64_t bytes, sattn_error *error);

#endif
