/* Arrays of the one-call form on their way to a device and back. */
#ifndef SATTN_LIB_HOST_ARRAYS_H
#define SATTN_LIB_HOST_ARRAYS_H

#include "backend.h"
#include "region.h"

enum { SATTN_HOST_ARRAY_CAPACITY = 24 };

/* One array of the caller. Without elements it has no data and no buffer. */
typedef struct sattn_host_array {
  sattn_extent extent;
  unsigned char *data; /* never written where extent.output is false */
  int64_t stride[3];   /* of batch, token, head in elements; packed strides resolved */
  uint64_t bytes;      /* from data to the last byte */
  /* What the plan calls get. */
  sattn_tensor tensor;
  sattn_buffer *own;       /* packed copy on the device; NULL where the caller's memory is used in place */
  unsigned char *returned; /* what came back of `own`, before the caller's memory is touched */
} sattn_host_array;

typedef struct sattn_host_arrays {
  size_t count;
  sattn_host_array array[SATTN_HOST_ARRAY_CAPACITY];
  size_t wrapped_count;
  sattn_buffer *wrapped[SATTN_HOST_ARRAY_CAPACITY];
} sattn_host_arrays;

/* Appends an array and checks presence, strides and alignment; overlaps are checked at the end of the set. *out_array is the place where
 * the plan call's tensor will be found; it stays valid. */
void sattn_host_arrays_add(sattn_host_arrays *arrays, sattn_region_set *set, const sattn_extent *extent, const void *data,
                           int64_t stride_batch, int64_t stride_token, int64_t stride_head, const sattn_host_array **out_array);

/* Gives every array a place on the device: in place where host memory is shared, else a packed copy (inputs are sent). */
sattn_status sattn_host_arrays_send(sattn_host_arrays *arrays, sattn_context *context, sattn_error *error);

/* After the calls are complete: copies outputs back. Either all arrive or none. */
sattn_status sattn_host_arrays_receive(sattn_host_arrays *arrays, sattn_error *error);

void sattn_host_arrays_release(sattn_host_arrays *arrays);

#endif
