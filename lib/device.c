#include <inttypes.h>
#include <string.h>

#include "backend.h"

const char *sattn_backend_name(sattn_backend backend) {
  switch (backend) {
    case SATTN_BACKEND_REFERENCE:
      return "reference";
    case SATTN_BACKEND_OPENCL:
      return "opencl";
    case SATTN_BACKEND_CUDA:
      return "cuda";
  }
  return NULL;
}

static sattn_status find(sattn_backend backend, const sattn_backend_ops **out_ops, sattn_error *error) {
  *out_ops = sattn_registry_get(backend);
  if (*out_ops != NULL) return SATTN_OK;
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "backend",
                    "backend is %d: it must be one of sattn_backend (SATTN_BACKEND_REFERENCE, _OPENCL, _CUDA)", (int)backend);
}

sattn_status sattn_backend_probe(sattn_backend backend, sattn_error *out_error) {
  const sattn_backend_ops *ops = NULL;
  sattn_status status = find(backend, &ops, out_error);
  return status == SATTN_OK ? ops->probe(out_error) : status;
}

void sattn_device_info_init(sattn_device_info *info) {
  if (info == NULL) return;
  memset(info, 0, sizeof *info);
  info->struct_size = sizeof *info;
}

sattn_status sattn_device_count(sattn_backend backend, uint32_t *out_count, sattn_error *out_error) {
  const sattn_backend_ops *ops = NULL;
  sattn_status status = find(backend, &ops, out_error);
  if (status != SATTN_OK) return status;
  if (out_count == NULL) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "out_count", "out_count is NULL: it must point to a number");
  *out_count = ops->device_count();
  return SATTN_OK;
}

sattn_status sattn_device_get_info(sattn_backend backend, uint32_t index, sattn_device_info *out_info, sattn_error *out_error) {
  const sattn_backend_ops *ops = NULL;
  sattn_status status = find(backend, &ops, out_error);
  if (status == SATTN_OK) status = sattn_check_struct("out_info", out_info, sizeof *out_info, out_error);
  if (status != SATTN_OK) return status;
  uint32_t count = ops->device_count();
  if (index >= count) {
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "index", "index is %" PRIu32 ": backend %s has %" PRIu32 " device(s) here", index,
                      sattn_backend_name(backend), count);
  }
  sattn_device_info info;
  sattn_device_info_init(&info);
  status = ops->device_info(index, &info, out_error);
  if (status == SATTN_OK) sattn_return_struct(&info, out_info);
  return status;
}
