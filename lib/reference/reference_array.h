/* Elements of the caller's arrays, read and written as double whatever their storage. */
#ifndef SATTN_REFERENCE_ARRAY_H
#define SATTN_REFERENCE_ARRAY_H

#include "objects.h"

/* An internal fourth storage type. No public call can name it; tests of the gradients use it, because differences of a function need more
 * digits than fp32 stores. Wherever the contract says fp32 (LSE, sink logits) such a problem stores fp64 as well. */
#define SATTN_REFERENCE_FP64 ((sattn_dtype)64)

/* Storage of LSE, sink logits and their gradients in a problem of this dtype: fp32. */
sattn_dtype sattn_reference_wide(sattn_dtype dtype);

/* The longest row that a call may have. */
enum { SATTN_REFERENCE_MAX_WIDTH = 256 };

/* Address of the row [b, token, head] of a tensor of elements of `size` bytes. Strides are resolved. */
unsigned char *sattn_reference_row_address(const sattn_tensor *tensor, size_t size, int64_t b, int64_t token, int64_t head);

/* `width` neighbouring elements at [b, token, head] of a tensor whose strides are resolved. */
void sattn_reference_load_row(const sattn_tensor *tensor, sattn_dtype dtype, int64_t b, int64_t token, int64_t head, int64_t width,
                              double *row);
void sattn_reference_store_row(const sattn_tensor *tensor, sattn_dtype dtype, int64_t b, int64_t token, int64_t head, int64_t width,
                               const double *row);

double sattn_reference_load(const sattn_array *array, sattn_dtype dtype, int64_t index);
void sattn_reference_store(const sattn_array *array, sattn_dtype dtype, int64_t index, double value);

int32_t sattn_reference_load_int32(const sattn_array *array, int64_t index);
uint32_t sattn_reference_load_uint32(const sattn_array *array, int64_t index);
void sattn_reference_store_uint32(const sattn_array *array, int64_t index, uint32_t value);

/* The first byte of an array of elements of `size` bytes. */
void *sattn_reference_address(const sattn_array *array, size_t size);

double sattn_reference_dot(const double *a, const double *b, int64_t width);

#endif
