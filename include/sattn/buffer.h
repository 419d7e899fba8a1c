/* Device memory, own or the caller's, and how arrays lie in it. */
#ifndef SATTN_BUFFER_H
#define SATTN_BUFFER_H

#include <sattn/device.h>

SATTN_BEGIN_DECLS

/* A piece of device memory. Own buffers end with sattn_buffer_destroy; wrapped memory (here, opencl.h, cuda.h) stays the caller's.
 * Thread-safety: safe, but two calls in flight must not write the same bytes. */
typedef struct sattn_buffer sattn_buffer;

/* Allocates `bytes` (0 is allowed) of uninitialised device memory. SATTN_OUT_OF_MEMORY names needed and allowed size. */
SATTN_API sattn_status sattn_buffer_create(sattn_context *context, uint64_t bytes, sattn_buffer **out_buffer, sattn_error *out_error);

/* Uses host memory in place on devices that share it (sattn_device_info.shares_host_memory), else SATTN_UNSUPPORTED.
 * The memory must outlive the buffer; between sattn_queue_finish (or a completed event) and the next call the host may read and write it.
 */
SATTN_API sattn_status sattn_buffer_wrap_host(sattn_context *context, void *memory, uint64_t bytes, sattn_buffer **out_buffer,
                                              sattn_error *out_error);

SATTN_API void sattn_buffer_destroy(sattn_buffer **buffer);
SATTN_API uint64_t sattn_buffer_size(const sattn_buffer *buffer);

/* Blocking copies on the context's own queue. offset and bytes in bytes; a range outside the buffer is refused. */
SATTN_API sattn_status sattn_buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes,
                                          sattn_error *out_error);
SATTN_API sattn_status sattn_buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *out_error);

/* Where a [batch, token, head, head_dim] array lies. All numbers count ELEMENTS, not bytes, and are 64-bit.
 * The last dimension is contiguous. All three strides zero (the default) means the packed layout [B, n, H, d]; otherwise they are taken
 * as they are: (B, H, n, d) is {H*n*d, d, n*d}; one of three slices of a packed QKV buffer needs an offset and strides, no copy.
 * Negative strides are refused; a stride of zero among non-zero ones repeats an input and is refused for an output, which must not
 * overlap itself. (FlashAttention takes the same freedom.)
 * That outputs overlap nothing else is checked among arrays of one sattn_buffer. Two buffers that the caller wrapped around the same memory
 * are two to the library: keeping their outputs apart is the caller's part. */
typedef struct sattn_tensor {
  sattn_buffer *buffer; /* borrowed; NULL: not given */
  int64_t offset;       /* first element */
  int64_t stride_batch;
  int64_t stride_token;
  int64_t stride_head;
} sattn_tensor;

/* A contiguous array in a buffer: LSE [B, H, n_q], lengths [B] and so on. */
typedef struct sattn_array {
  sattn_buffer *buffer; /* borrowed; NULL: not given */
  int64_t offset;       /* first element */
} sattn_array;

SATTN_END_DECLS

#endif
