#include "host_arrays.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void sattn_host_arrays_add(sattn_host_arrays *arrays, sattn_region_set *set, const sattn_extent *extent, const void *data,
                           int64_t stride_batch, int64_t stride_token, int64_t stride_head, const sattn_host_array **out_array) {
  sattn_host_array *array = &arrays->array[arrays->count];
  *out_array = array;
  if (arrays->count + 1 < SATTN_HOST_ARRAY_CAPACITY) ++arrays->count;
  memset(array, 0, sizeof *array);
  array->extent = *extent;
  sattn_region_add_host(set, extent, data, stride_batch, stride_token, stride_head, &array->bytes);
  if (set->status != SATTN_OK || array->bytes == 0) return;
  if ((uintptr_t)data % extent->element != 0) {
    set->status = sattn_fail(set->error, SATTN_INVALID_ARGUMENT, extent->name,
                             "%s is %p: the address must be a multiple of its element of %zu bytes", extent->name, data, extent->element);
    return;
  }
  sattn_tensor strides = {NULL, 0, stride_batch, stride_token, stride_head};
  sattn_tensor_resolve(&strides, extent->tokens, extent->heads, extent->width);
  array->stride[0] = strides.stride_batch;
  array->stride[1] = strides.stride_token;
  array->stride[2] = strides.stride_head;
  array->data = (unsigned char *)data;
}

static uint64_t packed_bytes(const sattn_extent *extent) {
  return (uint64_t)extent->batch * (uint64_t)extent->tokens * (uint64_t)extent->heads * (uint64_t)extent->width * extent->element;
}

/* Copies row by row between the caller's layout and the packed one. */
static void copy_rows(const sattn_host_array *array, unsigned char *packed, bool to_packed) {
  const sattn_extent *extent = &array->extent;
  size_t row = (size_t)extent->width * extent->element;
  for (int64_t b = 0; b < extent->batch; ++b) {
    for (int64_t token = 0; token < extent->tokens; ++token) {
      for (int64_t head = 0; head < extent->heads; ++head) {
        int64_t offset = b * array->stride[0] + token * array->stride[1] + head * array->stride[2];
        unsigned char *at = array->data + (size_t)offset * extent->element;
        memcpy(to_packed ? packed : at, to_packed ? at : packed, row);
        packed += row;
      }
    }
  }
}

static sattn_status out_of_memory(const char *name, uint64_t bytes, sattn_error *error) {
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, name, "%s needs a copy: the host has no %" PRIu64 " bytes for it", name, bytes);
}

static bool is_packed(const sattn_host_array *array) {
  return array->bytes == packed_bytes(&array->extent);
}

static sattn_status send_input(sattn_host_array *array, uint64_t bytes, sattn_error *error) {
  /* A layout without gaps may still be in another order than packed: only packed strides can be sent as they are. */
  sattn_tensor packed = {NULL, 0, 0, 0, 0};
  sattn_tensor_resolve(&packed, array->extent.tokens, array->extent.heads, array->extent.width);
  bool as_is = is_packed(array) && packed.stride_batch == array->stride[0] && packed.stride_token == array->stride[1] &&
               packed.stride_head == array->stride[2];
  if (as_is) return sattn_buffer_write(array->own, 0, array->data, bytes, error);
  unsigned char *copy = malloc((size_t)bytes);
  if (copy == NULL) return out_of_memory(array->extent.name, bytes, error);
  copy_rows(array, copy, true);
  sattn_status status = sattn_buffer_write(array->own, 0, copy, bytes, error);
  free(copy);
  return status;
}

static sattn_status send_copy(sattn_host_array *array, sattn_context *context, sattn_error *error) {
  uint64_t bytes = packed_bytes(&array->extent);
  sattn_status status = sattn_buffer_create(context, bytes, &array->own, error);
  if (status != SATTN_OK) return status;
  array->tensor.buffer = array->own;
  return array->extent.output ? SATTN_OK : send_input(array, bytes, error);
}

/* The bytes of all arrays that lie within one another, beginning with `seed`: slices of one packed buffer become one device buffer, since
 * drivers need not support two buffers over the same memory. */
static void grow_group(const sattn_host_arrays *arrays, size_t seed, uintptr_t *low, uintptr_t *high) {
  *low = (uintptr_t)arrays->array[seed].data;
  *high = *low + (uintptr_t)arrays->array[seed].bytes;
  bool grew = true;
  while (grew) {
    grew = false;
    for (size_t i = 0; i < arrays->count; ++i) {
      uintptr_t first = (uintptr_t)arrays->array[i].data, end = first + (uintptr_t)arrays->array[i].bytes;
      if (arrays->array[i].data == NULL || first >= *high || end <= *low || (first >= *low && end <= *high)) continue;
      if (first < *low) *low = first;
      if (end > *high) *high = end;
      grew = true;
    }
  }
  /* Offsets count elements, of 4 bytes at most. */
  *low -= *low % sizeof(float);
}

static void place_in_group(sattn_host_array *array, sattn_buffer *buffer, uintptr_t low) {
  array->tensor.buffer = buffer;
  array->tensor.offset = (int64_t)(((uintptr_t)array->data - low) / array->extent.element);
  array->tensor.stride_batch = array->stride[0];
  array->tensor.stride_token = array->stride[1];
  array->tensor.stride_head = array->stride[2];
}

/* Returns false where the driver will not have the memory; then a copy is made. */
static bool wrap_group(sattn_host_arrays *arrays, sattn_context *context, size_t seed) {
  uintptr_t low = 0, high = 0;
  grow_group(arrays, seed, &low, &high);
  sattn_buffer *buffer = NULL;
  if (sattn_buffer_wrap_host(context, (void *)low, (uint64_t)(high - low), &buffer, NULL) != SATTN_OK) return false;
  arrays->wrapped[arrays->wrapped_count++] = buffer;
  for (size_t i = seed; i < arrays->count; ++i) {
    uintptr_t first = (uintptr_t)arrays->array[i].data;
    if (arrays->array[i].data != NULL && first >= low && first < high) place_in_group(&arrays->array[i], buffer, low);
  }
  return true;
}

sattn_status sattn_host_arrays_send(sattn_host_arrays *arrays, sattn_context *context, sattn_error *error) {
  bool shared = context->device.shares_host_memory != 0;
  sattn_status status = SATTN_OK;
  for (size_t i = 0; i < arrays->count && status == SATTN_OK; ++i) {
    sattn_host_array *array = &arrays->array[i];
    if (array->data == NULL || array->tensor.buffer != NULL) continue;
    if (shared && wrap_group(arrays, context, i)) continue;
    status = send_copy(array, context, error);
  }
  return status;
}

sattn_status sattn_host_arrays_receive(sattn_host_arrays *arrays, sattn_error *error) {
  for (size_t i = 0; i < arrays->count; ++i) {
    sattn_host_array *array = &arrays->array[i];
    if (array->own == NULL || !array->extent.output) continue;
    uint64_t bytes = packed_bytes(&array->extent);
    array->returned = malloc((size_t)bytes);
    if (array->returned == NULL) return out_of_memory(array->extent.name, bytes, error);
    sattn_status status = sattn_buffer_read(array->own, 0, array->returned, bytes, error);
    if (status != SATTN_OK) return status;
  }
  for (size_t i = 0; i < arrays->count; ++i) {
    if (arrays->array[i].returned != NULL) copy_rows(&arrays->array[i], arrays->array[i].returned, false);
  }
  return SATTN_OK;
}

void sattn_host_arrays_release(sattn_host_arrays *arrays) {
  for (size_t i = 0; i < arrays->count; ++i) {
    sattn_buffer_destroy(&arrays->array[i].own);
    free(arrays->array[i].returned);
    arrays->array[i].returned = NULL;
  }
  for (size_t i = 0; i < arrays->wrapped_count; ++i) sattn_buffer_destroy(&arrays->wrapped[i]);
  arrays->wrapped_count = 0;
}
