/* libcuda, opened at run time: every driver function that the backend calls, in one table.
 *
 * No header of the CUDA toolkit is needed to build this backend: the few types and constants of the driver's stable ABI that it uses are
 * declared here. Nothing links against libcuda, so the library loads where no driver is installed. The table is filled once per process and
 * the driver is never closed.
 */
#ifndef SATTN_CUDA_API_H
#define SATTN_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* Names of the vendor's header, so that reading its manual beside this code is easy; handles are pointers, a device is an int. */
typedef int sattn_cu_result;
typedef int sattn_cu_device;
typedef unsigned long long sattn_cu_pointer;
typedef void *sattn_cu_context;
typedef void *sattn_cu_stream;
typedef void *sattn_cu_event;
typedef void *sattn_cu_module;
typedef void *sattn_cu_function;

enum {
  SATTN_CU_SUCCESS = 0,
  SATTN_CU_ERROR_OUT_OF_MEMORY = 2,
  SATTN_CU_ERROR_NO_DEVICE = 100,
  SATTN_CU_ERROR_NO_BINARY_FOR_GPU = 209,
  SATTN_CU_ERROR_INVALID_PTX = 218,
  SATTN_CU_ERROR_UNSUPPORTED_PTX_VERSION = 222,
};

enum {
  SATTN_CU_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  SATTN_CU_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  SATTN_CU_ATTRIBUTE_MAJOR = 75,
  SATTN_CU_ATTRIBUTE_MINOR = 76,
  SATTN_CU_ATTRIBUTE_MAX_SHARED_PER_BLOCK_OPTIN = 97,
};

enum {
  SATTN_CU_STREAM_NON_BLOCKING = 1,
  SATTN_CU_EVENT_DISABLE_TIMING = 2,
  SATTN_CU_FUNCTION_MAX_DYNAMIC_SHARED = 8,
};

/* F(name in the library, name in the table, parameter types). The versioned names are the ones that current headers map to. */
#define SATTN_CUDA_FUNCTIONS(F)                                                                                                   \
  F(cuInit, init, (unsigned))                                                                                                     \
  F(cuDriverGetVersion, driver_get_version, (int *))                                                                              \
  F(cuGetErrorName, get_error_name, (sattn_cu_result, const char **))                                                             \
  F(cuGetErrorString, get_error_string, (sattn_cu_result, const char **))                                                         \
  F(cuDeviceGetCount, device_get_count, (int *))                                                                                  \
  F(cuDeviceGet, device_get, (sattn_cu_device *, int))                                                                            \
  F(cuDeviceGetName, device_get_name, (char *, int, sattn_cu_device))                                                             \
  F(cuDeviceTotalMem_v2, device_total_mem, (size_t *, sattn_cu_device))                                                           \
  F(cuDeviceGetAttribute, device_get_attribute, (int *, int, sattn_cu_device))                                                    \
  F(cuDevicePrimaryCtxRetain, primary_context_retain, (sattn_cu_context *, sattn_cu_device))                                      \
  F(cuDevicePrimaryCtxRelease_v2, primary_context_release, (sattn_cu_device))                                                     \
  F(cuCtxPushCurrent_v2, context_push, (sattn_cu_context))                                                                        \
  F(cuCtxPopCurrent_v2, context_pop, (sattn_cu_context *))                                                                        \
  F(cuCtxGetDevice, context_get_device, (sattn_cu_device *))                                                                      \
  F(cuModuleLoadData, module_load_data, (sattn_cu_module *, const void *))                                                        \
  F(cuModuleUnload, module_unload, (sattn_cu_module))                                                                             \
  F(cuModuleGetFunction, module_get_function, (sattn_cu_function *, sattn_cu_module, const char *))                               \
  F(cuFuncSetAttribute, function_set_attribute, (sattn_cu_function, int, int))                                                    \
  F(cuLaunchKernel, launch_kernel,                                                                                                \
    (sattn_cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, sattn_cu_stream, void **, void **)) \
  F(cuMemAlloc_v2, memory_allocate, (sattn_cu_pointer *, size_t))                                                                 \
  F(cuMemFree_v2, memory_free, (sattn_cu_pointer))                                                                                \
  F(cuMemcpyHtoDAsync_v2, copy_to_device, (sattn_cu_pointer, const void *, size_t, sattn_cu_stream))                              \
  F(cuMemcpyDtoHAsync_v2, copy_to_host, (void *, sattn_cu_pointer, size_t, sattn_cu_stream))                                      \
  F(cuStreamCreate, stream_create, (sattn_cu_stream *, unsigned))                                                                 \
  F(cuStreamDestroy_v2, stream_destroy, (sattn_cu_stream))                                                                        \
  F(cuStreamSynchronize, stream_synchronize, (sattn_cu_stream))                                                                   \
  F(cuStreamWaitEvent, stream_wait_event, (sattn_cu_stream, sattn_cu_event, unsigned))                                            \
  F(cuEventCreate, event_create, (sattn_cu_event *, unsigned))                                                                    \
  F(cuEventRecord, event_record, (sattn_cu_event, sattn_cu_stream))                                                               \
  F(cuEventSynchronize, event_synchronize, (sattn_cu_event))                                                                      \
  F(cuEventDestroy_v2, event_destroy, (sattn_cu_event))

typedef struct sattn_cuda_api {
#define SATTN_CUDA_MEMBER(symbol, name, parameters) sattn_cu_result(*name) parameters;
  SATTN_CUDA_FUNCTIONS(SATTN_CUDA_MEMBER)
#undef SATTN_CUDA_MEMBER
} sattn_cuda_api;

/* The table after a successful cuInit, or NULL with SATTN_UNAVAILABLE in `error`. A failure is not remembered. */
const sattn_cuda_api *sattn_cuda_api_get(sattn_error *error);

/* SATTN_OK for CUDA_SUCCESS. Memory errors become SATTN_OUT_OF_MEMORY, images that the driver is too old for SATTN_UNAVAILABLE, everything
 * else SATTN_DRIVER_ERROR; the message says which function returned what. */
sattn_status sattn_cuda_check(const sattn_cuda_api *api, sattn_cu_result code, const char *function, sattn_error *error);

#endif
