/* Devices that the NVIDIA driver knows. */
#ifndef SATTN_CUDA_DEVICE_H
#define SATTN_CUDA_DEVICE_H

#include <sattn/device.h>

#include "cuda_api.h"

/* Machine code is built for compute capability 8.0 and later; older devices are listed by nobody and refused by name. */
#define SATTN_CUDA_MIN_CAPABILITY 80

/* SATTN_OK if one device can be used; else the reason: no driver, no device, or only devices that are too old, with their names. */
sattn_status sattn_cuda_probe(sattn_error *error);

/* Counts ALL devices of the driver, so that indices agree with the vendor's tools; too old ones fail at context creation. 0 if none can be
 * used. */
uint32_t sattn_cuda_device_count(void);
sattn_status sattn_cuda_device_info(uint32_t index, sattn_device_info *out_info, sattn_error *error);

/* Facts of a device whose handle is known. */
sattn_status sattn_cuda_device_describe(const sattn_cuda_api *api, sattn_cu_device device, sattn_device_info *out_info, sattn_error *error);

/* SATTN_UNSUPPORTED, with name and capability, for a device older than SATTN_CUDA_MIN_CAPABILITY. */
sattn_status sattn_cuda_device_check(const sattn_device_info *info, sattn_error *error);

#endif
