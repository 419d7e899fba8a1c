// Elements of the call's dtype as fp32, one at a time. 1 fp32, 2 fp16, 3 bf16 (sattn_dtype). Stores round to nearest even. The twin of
// cl/kernels/elements.cl; here the dtype is a template parameter.
#ifndef SATTN_CUDA_KERNELS_ELEMENTS_H
#define SATTN_CUDA_KERNELS_ELEMENTS_H

#include "gpu.h"

template <int dtype>
GPU_DEVICE float load_element(const void *array, int64_t index) {
  if (dtype == 1) return gpu_load(static_cast<const float *>(array) + index);
  const uint16_t bits = gpu_load(static_cast<const uint16_t *>(array) + index);
  return dtype == 2 ? gpu_f16::to_float(bits) : gpu_bf16::to_float(bits);
}

template <int dtype>
GPU_DEVICE void store_element(float value, void *array, int64_t index) {
  if (dtype == 1) {
    gpu_store(static_cast<float *>(array) + index, value);
  } else {
    gpu_store(static_cast<uint16_t *>(array) + index, dtype == 2 ? gpu_f16::from_float(value) : gpu_bf16::from_float(value));
  }
}

// For arrays whose dtype is a run-time parameter (gate logits and their gradients).
GPU_DEVICE float load_element_of(int dtype, const void *array, int64_t index) {
  if (dtype == 1) return load_element<1>(array, index);
  return dtype == 2 ? load_element<2>(array, index) : load_element<3>(array, index);
}

GPU_DEVICE void store_element_of(int dtype, float value, void *array, int64_t index) {
  if (dtype == 1) {
    store_element<1>(value, array, index);
  } else if (dtype == 2) {
    store_element<2>(value, array, index);
  } else {
    store_element<3>(value, array, index);
  }
}

#endif
