#include "cl_context.h"

#include <stdlib.h>

#include <sattn/opencl.h>

#include "backend.h"
#include "cl_device.h"
#include "cl_program.h"
#include "cl_rows.h"

static sattn_status adopt_context(sattn_cl_context *cl, const sattn_cl_imported *imported, sattn_error *error) {
  cl_device_id devices[64];
  size_t bytes = 0;
  cl_int code = cl->api->clGetContextInfo(imported->handle, CL_CONTEXT_DEVICES, sizeof devices, (void *)devices, &bytes);
  if (code != CL_SUCCESS) return sattn_cl_check(code, "clGetContextInfo(CL_CONTEXT_DEVICES)", error);
  for (size_t i = 0; i < bytes / sizeof devices[0]; ++i) {
    if (devices[i] != imported->device) continue;
    code = cl->api->clRetainContext(imported->handle);
    if (code == CL_SUCCESS) cl->handle = imported->handle;
    return sattn_cl_check(code, "clRetainContext", error);
  }
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "cl_device", "is not one of the %zu device(s) of the cl_context",
                    bytes / sizeof devices[0]);
}

static sattn_status open_context(sattn_context *context, sattn_cl_context *cl, const sattn_cl_imported *imported, sattn_error *error) {
  cl_int code = CL_SUCCESS;
  sattn_status status = SATTN_OK;
  if (imported) {
    status = adopt_context(cl, imported, error);
  } else {
    cl->handle = cl->api->clCreateContext(NULL, 1, &cl->device, NULL, NULL, &code);
    status = sattn_cl_check(code, "clCreateContext", error);
  }
  if (status != SATTN_OK) return status;
  cl->queue = cl->api->clCreateCommandQueue(cl->handle, cl->device, 0, &code);
  status = sattn_cl_check(code, "clCreateCommandQueue", error);
  if (status != SATTN_OK) return status;
  cl->is_pocl = sattn_cl_device_is_pocl(cl->api, cl->device);
  cl->has_svm = sattn_cl_device_has_svm(cl->api, cl->device);
  return sattn_cl_device_describe(cl->device, &context->device, error);
}

sattn_status sattn_cl_context_create(sattn_context *context, uint32_t index, const void *imported, sattn_error *error) {
  const sattn_cl_api *api = sattn_cl_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  cl_device_id device = NULL;
  if (imported) {
    device = ((const sattn_cl_imported *)imported)->device;
  } else {
    sattn_status status = sattn_cl_device_handle(index, &device, error);
    if (status != SATTN_OK) return status;
  }
  sattn_cl_context *cl = calloc(1, sizeof *cl);
  if (!cl) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a context of %zu bytes", sizeof *cl);
  cl->api = api;
  cl->device = device;
  pthread_mutex_init(&cl->program_lock, NULL);
  context->impl = cl;
  sattn_status status = open_context(context, cl, imported, error);
  if (status != SATTN_OK) sattn_cl_context_destroy(context);
  return status;
}

void sattn_cl_context_destroy(sattn_context *context) {
  sattn_cl_context *cl = sattn_cl_of(context);
  if (!cl) return;
  sattn_cl_rows_destroy(context);
  sattn_cl_programs_destroy(context);
  if (cl->queue) cl->api->clReleaseCommandQueue(cl->queue);
  if (cl->handle) cl->api->clReleaseContext(cl->handle);
  pthread_mutex_destroy(&cl->program_lock);
  free(cl);
  context->impl = NULL;
}

sattn_status sattn_cl_context_fail(sattn_context *context, cl_int code, const char *function, sattn_error *error) {
  sattn_cl_context *cl = sattn_cl_of(context);
  pthread_mutex_lock(&context->lock);
  if (cl->failure == CL_SUCCESS) cl->failure = code;
  pthread_mutex_unlock(&context->lock);
  return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "device %s failed: %s reports %d (%s)", context->device.id, function, (int)code,
                           sattn_cl_status_text(code));
}

sattn_status sattn_cl_context_usable(sattn_context *context, sattn_error *error) {
  pthread_mutex_lock(&context->lock);
  cl_int code = sattn_cl_of(context)->failure;
  pthread_mutex_unlock(&context->lock);
  if (code == CL_SUCCESS) return SATTN_OK;
  return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "device %s failed earlier with %d (%s); make a new context", context->device.id,
                           (int)code, sattn_cl_status_text(code));
}

sattn_status sattn_cl_queue_finish(sattn_context *context, sattn_queue queue, sattn_error *error) {
  sattn_cl_context *cl = sattn_cl_of(context);
  cl_int code = cl->api->clFinish(queue.native ? (cl_command_queue)queue.native : cl->queue);
  return code == CL_SUCCESS ? SATTN_OK : sattn_cl_context_fail(context, code, "clFinish", error);
}

/* ---- interop entries (sattn/opencl.h) ---- */

sattn_status sattn_context_create_opencl(cl_context cl_context_handle, cl_device_id cl_device, const sattn_context_options *options,
                                         sattn_context **out_context, sattn_error *out_error) {
  if (!out_context) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "out_context", "NULL; must point to a handle");
  if (!cl_context_handle) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "cl_context_handle", "NULL; must be a cl_context");
  if (!cl_device) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "cl_device", "NULL; must be a device of the cl_context");
  sattn_context *context = NULL;
  sattn_status status = sattn_context_allocate(&sattn_opencl_backend, options, &context, out_error);
  if (status != SATTN_OK) return status;
  sattn_cl_imported imported = {cl_context_handle, cl_device};
  status = sattn_cl_context_create(context, 0, &imported, out_error);
  if (status != SATTN_OK) {
    sattn_context_destroy(&context);
    return status;
  }
  *out_context = context;
  return SATTN_OK;
}

cl_context sattn_context_opencl(const sattn_context *context) {
  return context && context->ops == &sattn_opencl_backend ? sattn_cl_of(context)->handle : NULL;
}

cl_device_id sattn_context_opencl_device(const sattn_context *context) {
  return context && context->ops == &sattn_opencl_backend ? sattn_cl_of(context)->device : NULL;
}
