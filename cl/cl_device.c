#include "cl_device.h"

#include <stdio.h>
#include <string.h>

/* Platforms and devices beyond these are not listed; a fixed limit keeps enumeration free of allocation and of global state. */
#define MAX_PLATFORMS 16
#define MAX_DEVICES   64

/* Of the 2.0 and 3.0 headers; older drivers answer such a query with an error. */
#define DEVICE_SVM_CAPABILITIES   0x1053
#define SVM_COARSE_GRAIN_BUFFER   (1u << 0)
#define DEVICE_MAX_NUM_SUB_GROUPS 0x105C

#define PLATFORM_NOT_FOUND        (-1001)

typedef struct device_list {
  uint32_t count;
  cl_device_id devices[MAX_DEVICES];
} device_list;

static sattn_status list_devices(const sattn_cl_api *api, device_list *list, sattn_error *error) {
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_uint platform_count = 0;
  list->count = 0;
  cl_int code = api->clGetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count);
  if (code != CL_SUCCESS || platform_count == 0) {
    if (code == CL_SUCCESS) code = PLATFORM_NOT_FOUND;
    return sattn_fail_driver(error, SATTN_UNAVAILABLE, code,
                             "no OpenCL platform: clGetPlatformIDs returned %d (%s); install an ICD such as pocl-opencl-icd", (int)code,
                             sattn_cl_status_text(code));
  }
  if (platform_count > MAX_PLATFORMS) platform_count = MAX_PLATFORMS;
  for (cl_uint p = 0; p < platform_count; ++p) {
    cl_uint room = MAX_DEVICES - list->count, found = 0;
    if (room == 0) break;
    code = api->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, room, list->devices + list->count, &found);
    if (code != CL_SUCCESS) continue; /* a platform without devices must not hide the others */
    uint32_t kept = list->count;
    for (cl_uint d = 0; d < (found < room ? found : room); ++d) {
      cl_device_id device = list->devices[list->count + d];
      cl_bool available = CL_FALSE, compiler = CL_FALSE;
      api->clGetDeviceInfo(device, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
      api->clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
      if (available && compiler) list->devices[kept++] = device;
    }
    list->count = kept;
  }
  if (list->count == 0) {
    return sattn_fail_driver(error, SATTN_UNAVAILABLE, CL_DEVICE_NOT_FOUND,
                             "%u OpenCL platform(s), but no device that is available and has a compiler; install an ICD such as "
                             "pocl-opencl-icd",
                             (unsigned)platform_count);
  }
  return SATTN_OK;
}

sattn_status sattn_cl_probe(sattn_error *error) {
  const sattn_cl_api *api = sattn_cl_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  device_list list;
  return list_devices(api, &list, error);
}

uint32_t sattn_cl_device_count(void) {
  const sattn_cl_api *api = sattn_cl_api_get(NULL);
  device_list list;
  if (!api || list_devices(api, &list, NULL) != SATTN_OK) return 0;
  return list.count;
}

sattn_status sattn_cl_device_handle(uint32_t index, cl_device_id *out_device, sattn_error *error) {
  const sattn_cl_api *api = sattn_cl_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  device_list list;
  sattn_status status = list_devices(api, &list, error);
  if (status != SATTN_OK) return status;
  if (index >= list.count) {
    return sattn_fail(error, SATTN_UNAVAILABLE, "device", "opencl:%u does not exist: OpenCL has %u device(s)", index, list.count);
  }
  *out_device = list.devices[index];
  return SATTN_OK;
}

static void get_text(const sattn_cl_api *api, cl_device_id device, cl_device_info what, char *text, size_t capacity) {
  char value[512];
  size_t bytes = 0;
  text[0] = '\0';
  if (api->clGetDeviceInfo(device, what, sizeof value, value, &bytes) != CL_SUCCESS || bytes == 0) return;
  value[sizeof value - 1] = '\0';
  snprintf(text, capacity, "%.*s", (int)(capacity - 1), value);
}

static void get_platform_text(const sattn_cl_api *api, cl_device_id device, cl_platform_info what, char *text, size_t capacity) {
  char value[512];
  size_t bytes = 0;
  cl_platform_id platform = NULL;
  text[0] = '\0';
  if (api->clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, (void *)&platform, NULL) != CL_SUCCESS) return;
  if (api->clGetPlatformInfo(platform, what, sizeof value, value, &bytes) != CL_SUCCESS || bytes == 0) return;
  value[sizeof value - 1] = '\0';
  snprintf(text, capacity, "%.*s", (int)(capacity - 1), value);
}

static cl_uint get_uint(const sattn_cl_api *api, cl_device_id device, cl_device_info what) {
  cl_uint value = 0;
  return api->clGetDeviceInfo(device, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static cl_ulong get_ulong(const sattn_cl_api *api, cl_device_id device, cl_device_info what) {
  cl_ulong value = 0;
  return api->clGetDeviceInfo(device, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static uint32_t index_of(const sattn_cl_api *api, cl_device_id device) {
  device_list list;
  if (list_devices(api, &list, NULL) != SATTN_OK) return SATTN_CL_NO_INDEX;
  for (uint32_t i = 0; i < list.count; ++i) {
    if (list.devices[i] == device) return i;
  }
  return SATTN_CL_NO_INDEX;
}

static void describe_memory(const sattn_cl_api *api, cl_device_id device, sattn_device_info *info) {
  info->memory_bytes = get_ulong(api, device, CL_DEVICE_GLOBAL_MEM_SIZE);
  info->max_allocation_bytes = get_ulong(api, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  cl_device_local_mem_type local_type = CL_GLOBAL;
  api->clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_TYPE, sizeof local_type, &local_type, NULL);
  info->local_memory_bytes = local_type == CL_LOCAL ? get_ulong(api, device, CL_DEVICE_LOCAL_MEM_SIZE) : 0;
}

sattn_status sattn_cl_device_describe(cl_device_id device, sattn_device_info *out_info, sattn_error *error) {
  const sattn_cl_api *api = sattn_cl_api_get(error);
  if (!api) return SATTN_UNAVAILABLE;
  cl_device_type type = 0;
  cl_int code = api->clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  if (code != CL_SUCCESS) return sattn_cl_check(code, "clGetDeviceInfo(CL_DEVICE_TYPE)", error);

  sattn_device_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  info.backend = SATTN_BACKEND_OPENCL;
  info.index = index_of(api, device);
  if (info.index == SATTN_CL_NO_INDEX) {
    snprintf(info.id, sizeof info.id, "opencl:caller");
  } else {
    snprintf(info.id, sizeof info.id, "opencl:%u", info.index);
  }
  info.type = type & CL_DEVICE_TYPE_GPU ? SATTN_DEVICE_GPU : type & CL_DEVICE_TYPE_CPU ? SATTN_DEVICE_CPU : SATTN_DEVICE_ACCELERATOR;
  get_text(api, device, CL_DEVICE_NAME, info.name, sizeof info.name);
  char platform[80], version[40];
  get_platform_text(api, device, CL_PLATFORM_NAME, platform, sizeof platform);
  get_text(api, device, CL_DRIVER_VERSION, version, sizeof version);
  snprintf(info.driver, sizeof info.driver, "%s, driver %s", platform, version);

  describe_memory(api, device, &info);
  info.compute_units = get_uint(api, device, CL_DEVICE_MAX_COMPUTE_UNITS);
  info.vector_width = get_uint(api, device, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT);
  info.has_fp16 = get_uint(api, device, CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF) != 0;
  info.has_fp64 = get_uint(api, device, CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE) != 0;
  info.has_subgroups = get_uint(api, device, DEVICE_MAX_NUM_SUB_GROUPS) != 0;
  size_t group = 0;
  api->clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, NULL);
  info.max_work_group = group > UINT32_MAX ? UINT32_MAX : (uint32_t)group;
  info.shares_host_memory = info.type == SATTN_DEVICE_CPU;
  *out_info = info;
  return SATTN_OK;
}

sattn_status sattn_cl_device_info(uint32_t index, sattn_device_info *out_info, sattn_error *error) {
  cl_device_id device = NULL;
  sattn_status status = sattn_cl_device_handle(index, &device, error);
  return status == SATTN_OK ? sattn_cl_device_describe(device, out_info, error) : status;
}

void sattn_cl_device_fingerprint(const sattn_cl_api *api, cl_device_id device, char *text, size_t capacity) {
  char platform[160], platform_version[160], name[160], version[160], driver[160];
  get_platform_text(api, device, CL_PLATFORM_NAME, platform, sizeof platform);
  get_platform_text(api, device, CL_PLATFORM_VERSION, platform_version, sizeof platform_version);
  get_text(api, device, CL_DEVICE_NAME, name, sizeof name);
  get_text(api, device, CL_DEVICE_VERSION, version, sizeof version);
  get_text(api, device, CL_DRIVER_VERSION, driver, sizeof driver);
  snprintf(text, capacity, "%s\n%s\n%s\n%s\n%s\n", platform, platform_version, name, version, driver);
}

bool sattn_cl_device_is_pocl(const sattn_cl_api *api, cl_device_id device) {
  char platform[80];
  get_platform_text(api, device, CL_PLATFORM_NAME, platform, sizeof platform);
  return strcmp(platform, "Portable Computing Language") == 0;
}

bool sattn_cl_device_has_svm(const sattn_cl_api *api, cl_device_id device) {
  return (get_ulong(api, device, DEVICE_SVM_CAPABILITIES) & SVM_COARSE_GRAIN_BUFFER) != 0;
}
