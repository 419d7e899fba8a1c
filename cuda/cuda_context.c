#include "cuda_context.h"

#include <stdlib.h>

#include "backend.h"
#include "cuda_device.h"
#include "cuda_interop.h"
#include "cuda_program.h"

sattn_status sattn_cuda_enter(const sattn_context *context, sattn_error *error) {
  const sattn_cuda_context *cuda = sattn_cuda_of(context);
  return sattn_cuda_check(cuda->api, cuda->api->context_push(cuda->handle), "cuCtxPushCurrent", error);
}

sattn_status sattn_cuda_leave(const sattn_context *context, sattn_status status, sattn_error *error) {
  const sattn_cuda_context *cuda = sattn_cuda_of(context);
  sattn_cu_context popped = NULL;
  sattn_cu_result code = cuda->api->context_pop(&popped);
  return status == SATTN_OK ? sattn_cuda_check(cuda->api, code, "cuCtxPopCurrent", error) : status;
}

static sattn_status open_own(sattn_cuda_context *cuda, uint32_t index, sattn_device_info *info, sattn_error *error) {
  sattn_status status = sattn_cuda_device_info(index, info, error);
  if (status == SATTN_OK) status = sattn_cuda_device_check(info, error);
  if (status != SATTN_OK) return status;
  sattn_cu_result code = cuda->api->device_get(&cuda->device, (int)index);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(cuda->api, code, "cuDeviceGet", error);
  code = cuda->api->primary_context_retain(&cuda->handle, cuda->device);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(cuda->api, code, "cuDevicePrimaryCtxRetain", error);
  cuda->primary = true;
  return SATTN_OK;
}

static sattn_status open_imported(sattn_context *context, sattn_cuda_context *cuda, sattn_cu_context handle, sattn_error *error) {
  cuda->handle = handle;
  sattn_status status = sattn_cuda_enter(context, error);
  if (status != SATTN_OK) return status;
  sattn_cu_result code = cuda->api->context_get_device(&cuda->device);
  status = sattn_cuda_leave(context, sattn_cuda_check(cuda->api, code, "cuCtxGetDevice", error), error);
  if (status == SATTN_OK) status = sattn_cuda_device_describe(cuda->api, cuda->device, &context->device, error);
  return status == SATTN_OK ? sattn_cuda_device_check(&context->device, error) : status;
}

static sattn_status open_stream(sattn_context *context, sattn_cuda_context *cuda, sattn_error *error) {
  sattn_status status = sattn_cuda_enter(context, error);
  if (status != SATTN_OK) return status;
  sattn_cu_result code = cuda->api->stream_create(&cuda->stream, SATTN_CU_STREAM_NON_BLOCKING);
  return sattn_cuda_leave(context, sattn_cuda_check(cuda->api, code, "cuStreamCreate", error), error);
}

sattn_status sattn_cuda_context_create(sattn_context *context, uint32_t index, const void *imported, sattn_error *error) {
  const sattn_cuda_api *api = sattn_cuda_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  sattn_cuda_context *cuda = calloc(1, sizeof *cuda);
  if (!cuda) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a context of %zu bytes", sizeof *cuda);
  cuda->api = api;
  pthread_mutex_init(&cuda->program_lock, NULL);
  context->impl = cuda;
  sattn_status status =
      imported ? open_imported(context, cuda, *(const sattn_cu_context *)imported, error) : open_own(cuda, index, &context->device, error);
  if (status == SATTN_OK) status = open_stream(context, cuda, error);
  if (status != SATTN_OK) sattn_cuda_context_destroy(context);
  return status;
}

void sattn_cuda_context_destroy(sattn_context *context) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  if (!cuda) return;
  if (cuda->handle && sattn_cuda_enter(context, NULL) == SATTN_OK) {
    sattn_cuda_programs_destroy(context);
    if (cuda->stream) cuda->api->stream_destroy(cuda->stream);
    sattn_cuda_leave(context, SATTN_OK, NULL);
  }
  if (cuda->primary) cuda->api->primary_context_release(cuda->device);
  pthread_mutex_destroy(&cuda->program_lock);
  free(cuda);
  context->impl = NULL;
}

sattn_status sattn_cuda_context_fail(sattn_context *context, sattn_cu_result code, const char *function, sattn_error *error) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  pthread_mutex_lock(&context->lock);
  if (cuda->failure == SATTN_CU_SUCCESS) cuda->failure = code;
  pthread_mutex_unlock(&context->lock);
  const char *name = NULL;
  cuda->api->get_error_name(code, &name);
  return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "device %s failed: %s reports %d (%s)", context->device.id, function, code,
                           name ? name : "unknown CUDA error");
}

sattn_status sattn_cuda_context_usable(sattn_context *context, sattn_error *error) {
  pthread_mutex_lock(&context->lock);
  sattn_cu_result code = sattn_cuda_of(context)->failure;
  pthread_mutex_unlock(&context->lock);
  if (code == SATTN_CU_SUCCESS) return SATTN_OK;
  return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "device %s failed earlier with %d; make a new context", context->device.id,
                           code);
}

sattn_status sattn_cuda_queue_finish(sattn_context *context, sattn_queue queue, sattn_error *error) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  sattn_status status = sattn_cuda_enter(context, error);
  if (status != SATTN_OK) return status;
  sattn_cu_result code = cuda->api->stream_synchronize(queue.native ? queue.native : cuda->stream);
  if (code != SATTN_CU_SUCCESS) status = sattn_cuda_context_fail(context, code, "cuStreamSynchronize", error);
  return sattn_cuda_leave(context, status, error);
}

/* ---- interop entries (sattn/cuda.h) ---- */

sattn_status sattn_context_create_cuda(sattn_cu_context cu_context, const sattn_context_options *options, sattn_context **out_context,
                                       sattn_error *out_error) {
  if (!out_context) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "out_context", "NULL; must point to a handle");
  if (!cu_context) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "cu_context", "NULL; must be a CUcontext");
  sattn_context *context = NULL;
  sattn_status status = sattn_context_allocate(&sattn_cuda_backend, options, &context, out_error);
  if (status != SATTN_OK) return status;
  status = sattn_cuda_context_create(context, 0, &cu_context, out_error);
  if (status != SATTN_OK) {
    sattn_context_destroy(&context);
    return status;
  }
  *out_context = context;
  return SATTN_OK;
}
