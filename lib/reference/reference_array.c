#include "reference_array.h"

#include <string.h>

/* Every access goes through memcpy: wrapped host memory may lie at any address. */

sattn_dtype sattn_reference_wide(sattn_dtype dtype) {
  return dtype == SATTN_REFERENCE_FP64 ? dtype : SATTN_FP32;
}

static int64_t size_of(sattn_dtype dtype) {
  return dtype == SATTN_REFERENCE_FP64 ? 8 : (int64_t)sattn_dtype_size(dtype);
}

static double load_element(const unsigned char *from, sattn_dtype dtype) {
  if (dtype == SATTN_FP32) {
    float value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  if (dtype == SATTN_REFERENCE_FP64) {
    double value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  uint16_t bits;
  memcpy(&bits, from, sizeof bits);
  return dtype == SATTN_FP16 ? sattn_fp16_to_float(bits) : sattn_bf16_to_float(bits);
}

static void store_element(unsigned char *to, sattn_dtype dtype, double value) {
  if (dtype == SATTN_FP32) {
    float rounded = (float)value;
    memcpy(to, &rounded, sizeof rounded);
  } else if (dtype == SATTN_REFERENCE_FP64) {
    memcpy(to, &value, sizeof value);
  } else {
    uint16_t bits = dtype == SATTN_FP16 ? sattn_fp16_from_float((float)value) : sattn_bf16_from_float((float)value);
    memcpy(to, &bits, sizeof bits);
  }
}

unsigned char *sattn_reference_row_address(const sattn_tensor *tensor, size_t size, int64_t b, int64_t token, int64_t head) {
  int64_t element = tensor->offset + b * tensor->stride_batch + token * tensor->stride_token + head * tensor->stride_head;
  return (unsigned char *)tensor->buffer->impl + element * (int64_t)size;
}

void sattn_reference_load_row(const sattn_tensor *tensor, sattn_dtype dtype, int64_t b, int64_t token, int64_t head, int64_t width,
                              double *row) {
  const unsigned char *from = sattn_reference_row_address(tensor, size_of(dtype), b, token, head);
  size_t size = size_of(dtype);
  for (int64_t c = 0; c < width; ++c) row[c] = load_element(from + (size_t)c * size, dtype);
}

void sattn_reference_store_row(const sattn_tensor *tensor, sattn_dtype dtype, int64_t b, int64_t token, int64_t head, int64_t width,
                               const double *row) {
  unsigned char *to = sattn_reference_row_address(tensor, size_of(dtype), b, token, head);
  size_t size = size_of(dtype);
  for (int64_t c = 0; c < width; ++c) store_element(to + (size_t)c * size, dtype, row[c]);
}

static unsigned char *element_address(const sattn_array *array, int64_t index, size_t size) {
  return (unsigned char *)array->buffer->impl + (array->offset + index) * (int64_t)size;
}

double sattn_reference_load(const sattn_array *array, sattn_dtype dtype, int64_t index) {
  return load_element(element_address(array, index, size_of(dtype)), dtype);
}

void sattn_reference_store(const sattn_array *array, sattn_dtype dtype, int64_t index, double value) {
  store_element(element_address(array, index, size_of(dtype)), dtype, value);
}

int32_t sattn_reference_load_int32(const sattn_array *array, int64_t index) {
  int32_t value;
  memcpy(&value, element_address(array, index, sizeof value), sizeof value);
  return value;
}

uint32_t sattn_reference_load_uint32(const sattn_array *array, int64_t index) {
  uint32_t value;
  memcpy(&value, element_address(array, index, sizeof value), sizeof value);
  return value;
}

void sattn_reference_store_uint32(const sattn_array *array, int64_t index, uint32_t value) {
  memcpy(element_address(array, index, sizeof value), &value, sizeof value);
}

void *sattn_reference_address(const sattn_array *array, size_t size) {
  return element_address(array, 0, size);
}

double sattn_reference_dot(const double *a, const double *b, int64_t width) {
  /* Four sums side by side: one alone would wait for each addition. */
  double sum[4] = {0, 0, 0, 0};
  int64_t c = 0;
  for (; c + 4 <= width; c += 4) {
    for (int lane = 0; lane < 4; ++lane) sum[lane] += a[c + lane] * b[c + lane];
  }
  for (; c < width; ++c) sum[0] += a[c] * b[c];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
