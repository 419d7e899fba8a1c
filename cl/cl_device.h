/* All devices of all OpenCL platforms, numbered in the driver's order, and their facts. */
#ifndef SATTN_CL_DEVICE_H
#define SATTN_CL_DEVICE_H

#include <sattn/device.h>

#include "cl_api.h"

sattn_status sattn_cl_probe(sattn_error *error);
uint32_t sattn_cl_device_count(void);
sattn_status sattn_cl_device_info(uint32_t index, sattn_device_info *out_info, sattn_error *error);

/* The driver's handle of device `index`. */
sattn_status sattn_cl_device_handle(uint32_t index, cl_device_id *out_device, sattn_error *error);

/* Facts of any device, also one that the caller brought (a sub-device, say). Sub-devices get the index SATTN_CL_NO_INDEX. */
#define SATTN_CL_NO_INDEX UINT32_MAX
sattn_status sattn_cl_device_describe(cl_device_id device, sattn_device_info *out_info, sattn_error *error);

/* Everything that makes compiled code of this device differ from another's: platform, device, versions. Part of the cache key. */
void sattn_cl_device_fingerprint(const sattn_cl_api *api, cl_device_id device, char *text, size_t capacity);

/* PoCL takes clang builtins in kernels; told by its platform name because no query exists for that. */
bool sattn_cl_device_is_pocl(const sattn_cl_api *api, cl_device_id device);

/* Whether the device has coarse-grained shared virtual memory (OpenCL 2.0 and later). */
bool sattn_cl_device_has_svm(const sattn_cl_api *api, cl_device_id device);

#endif
