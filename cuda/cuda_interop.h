/* The entries of sattn/cuda.h as this backend defines them: handles are pointers there and here, so the two declarations agree at the level
 * of the ABI, and the toolkit's header is not needed to build. */
#ifndef SATTN_CUDA_INTEROP_H
#define SATTN_CUDA_INTEROP_H

#include <sattn/buffer.h>
#include <sattn/device.h>

#include "cuda_api.h"

SATTN_API sattn_status sattn_context_create_cuda(sattn_cu_context cu_context, const sattn_context_options *options,
                                                 sattn_context **out_context, sattn_error *out_error);
SATTN_API sattn_status sattn_buffer_wrap_cuda(sattn_context *context, sattn_cu_pointer memory, uint64_t bytes, sattn_buffer **out_buffer,
                                              sattn_error *out_error);

#endif
