/* Stands in for the CUDA backend in a build without it: the same entry points, each with one clear answer. */
#include <sattn/buffer.h>
#include <sattn/device.h>

#include "backend.h"

/* The types of cuda.h, which is absent here. */
typedef struct CUctx_st *CUcontext;
typedef unsigned long long CUdeviceptr;

SATTN_API sattn_status sattn_context_create_cuda(CUcontext cu_context, const sattn_context_options *options, sattn_context **out_context,
                                                 sattn_error *out_error);
SATTN_API sattn_status sattn_buffer_wrap_cuda(sattn_context *context, CUdeviceptr memory, uint64_t bytes, sattn_buffer **out_buffer,
                                              sattn_error *out_error);

static sattn_status absent(sattn_error *error) {
  return sattn_fail(error, SATTN_UNAVAILABLE, NULL, "this sattn was built without CUDA; rebuild it with -DSATTN_CUDA=ON");
}

static uint32_t device_count(void) {
  return 0;
}

static sattn_status device_info(uint32_t index, sattn_device_info *out_info, sattn_error *error) {
  (void)index;
  (void)out_info;
  return absent(error);
}

static sattn_status context_create(sattn_context *context, uint32_t index, const void *imported, sattn_error *error) {
  (void)context;
  (void)index;
  (void)imported;
  return absent(error);
}

static void context_destroy(sattn_context *context) {
  (void)context;
}

/* No context can exist, so nothing else is ever called. */
const sattn_backend_ops sattn_cuda_backend = {
    .interface_version = SATTN_BACKEND_INTERFACE_VERSION,
    .backend = SATTN_BACKEND_CUDA,
    .probe = absent,
    .device_count = device_count,
    .device_info = device_info,
    .context_create = context_create,
    .context_destroy = context_destroy,
};

sattn_status sattn_context_create_cuda(CUcontext cu_context, const sattn_context_options *options, sattn_context **out_context,
                                       sattn_error *out_error) {
  (void)cu_context;
  (void)options;
  (void)out_context;
  return absent(out_error);
}

sattn_status sattn_buffer_wrap_cuda(sattn_context *context, CUdeviceptr memory, uint64_t bytes, sattn_buffer **out_buffer,
                                    sattn_error *out_error) {
  (void)context;
  (void)memory;
  (void)bytes;
  (void)out_buffer;
  return absent(out_error);
}
