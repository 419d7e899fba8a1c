#include "cuda_device.h"

#include <stdio.h>
#include <string.h>

static sattn_status read_attributes(const sattn_cuda_api *api, sattn_cu_device device, sattn_device_info *info, sattn_error *error) {
  static const int attributes[] = {SATTN_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT, SATTN_CU_ATTRIBUTE_MAX_SHARED_PER_BLOCK_OPTIN,
                                   SATTN_CU_ATTRIBUTE_MAX_THREADS_PER_BLOCK, SATTN_CU_ATTRIBUTE_MAJOR, SATTN_CU_ATTRIBUTE_MINOR};
  int values[sizeof attributes / sizeof attributes[0]];
  for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; ++i) {
    values[i] = 0;
    sattn_cu_result code = api->device_get_attribute(&values[i], attributes[i], device);
    if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDeviceGetAttribute", error);
    if (values[i] < 0) values[i] = 0;
  }
  info->compute_units = (uint32_t)values[0];
  info->local_memory_bytes = (uint64_t)values[1];
  info->max_work_group = (uint32_t)values[2];
  info->compute_capability = (uint32_t)(10 * values[3] + values[4]);
  return SATTN_OK;
}

sattn_status sattn_cuda_device_describe(const sattn_cuda_api *api, sattn_cu_device device, sattn_device_info *out_info,
                                        sattn_error *error) {
  sattn_device_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  info.backend = SATTN_BACKEND_CUDA;
  info.index = (uint32_t)device;
  snprintf(info.id, sizeof info.id, "cuda:%d", device);
  info.type = SATTN_DEVICE_GPU;
  sattn_cu_result code = api->device_get_name(info.name, (int)sizeof info.name, device);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDeviceGetName", error);
  int version = 0;
  code = api->driver_get_version(&version);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDriverGetVersion", error);
  snprintf(info.driver, sizeof info.driver, "NVIDIA driver for CUDA %d.%d", version / 1000, version % 1000 / 10);
  size_t bytes = 0;
  code = api->device_total_mem(&bytes, device);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDeviceTotalMem", error);
  info.memory_bytes = bytes;
  info.max_allocation_bytes = bytes;
  sattn_status status = read_attributes(api, device, &info, error);
  if (status != SATTN_OK) return status;
  info.vector_width = 1;
  info.has_fp16 = 1;
  info.has_fp64 = 1;
  info.has_subgroups = 1;
  *out_info = info;
  return SATTN_OK;
}

sattn_status sattn_cuda_device_check(const sattn_device_info *info, sattn_error *error) {
  if (info->compute_capability >= SATTN_CUDA_MIN_CAPABILITY) return SATTN_OK;
  return sattn_fail(error, SATTN_UNSUPPORTED, "device", "%s (%s) has compute capability %u.%u: the CUDA backend needs 8.0 or later",
                    info->id, info->name, info->compute_capability / 10, info->compute_capability % 10);
}

static sattn_status count_devices(const sattn_cuda_api *api, int *count, sattn_error *error) {
  *count = 0;
  sattn_cu_result code = api->device_get_count(count);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDeviceGetCount", error);
  if (*count <= 0) return sattn_fail(error, SATTN_UNAVAILABLE, NULL, "the NVIDIA driver is there but knows no GPU");
  return SATTN_OK;
}

sattn_status sattn_cuda_probe(sattn_error *error) {
  const sattn_cuda_api *api = sattn_cuda_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  int count = 0;
  sattn_status status = count_devices(api, &count, error);
  for (int i = 0; status == SATTN_OK && i < count; ++i) {
    sattn_device_info info;
    sattn_cu_device device = 0;
    sattn_cu_result code = api->device_get(&device, i);
    if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDeviceGet", error);
    status = sattn_cuda_device_describe(api, device, &info, error);
    if (status != SATTN_OK) return status;
    sattn_status usable = sattn_cuda_device_check(&info, error);
    if (usable == SATTN_OK) return SATTN_OK;
    if (i == count - 1) {
      return sattn_fail(error, SATTN_UNAVAILABLE, NULL,
                        "%d NVIDIA device(s), none with compute capability 8.0 or later (the last, %s, has %u.%u)", count, info.name,
                        info.compute_capability / 10, info.compute_capability % 10);
    }
  }
  return status;
}

uint32_t sattn_cuda_device_count(void) {
  int count = 0;
  if (sattn_cuda_probe(NULL) != SATTN_OK || count_devices(sattn_cuda_api_get(NULL), &count, NULL) != SATTN_OK) return 0;
  return (uint32_t)count;
}

sattn_status sattn_cuda_device_info(uint32_t index, sattn_device_info *out_info, sattn_error *error) {
  const sattn_cuda_api *api = sattn_cuda_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  int count = 0;
  sattn_status status = count_devices(api, &count, error);
  if (status != SATTN_OK) return status;
  if (index >= (uint32_t)count) {
    return sattn_fail(error, SATTN_UNAVAILABLE, "device", "cuda:%u does not exist: CUDA has %d device(s)", index, count);
  }
  sattn_cu_device device = 0;
  sattn_cu_result code = api->device_get(&device, (int)index);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuDeviceGet", error);
  return sattn_cuda_device_describe(api, device, out_info, error);
}
