/* The arrays of one attention call as files: shapes by letters, and the storage types of the library.
 *
 * A shape is a string with one letter a dimension: B batch, q queries, k keys, H heads, G key/value heads, d head_dim, g gate (1 or d).
 * The first array that has a letter fixes its extent; every later one must agree. Without a batch dimension (3-D query), a leading B is
 * left out wherever more letters follow.
 */
#ifndef SATTN_TOOL_ARRAYS_H
#define SATTN_TOOL_ARRAYS_H

#include "npy.h"

typedef struct sattn_extents {
  bool has_batch; /* arrays carry the batch dimension */
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
} sattn_extents;

/* Sets every extent to "not known yet". */
void sattn_extents_init(sattn_extents *extents);

/* Checks an array against its shape and fixes extents not known yet. A 'g' is left to the caller: it must be 1 or head_dim. */
bool sattn_extents_match(sattn_extents *extents, const char *name, const sattn_npy *array, const char *letters, sattn_report *report);

/* An array of the given shape without data. 'g' becomes gate_extent. */
sattn_npy sattn_extents_shape(const sattn_extents *extents, const char *letters, sattn_npy_type type, int64_t gate_extent);

/* float16 or float32 into the storage of the dtype, rounded to nearest even, in place of the old data. */
bool sattn_to_storage(sattn_npy *array, sattn_dtype dtype, const char *name, sattn_report *report);

/* Storage of the dtype into what a file holds: float16 for fp16, else float32. */
bool sattn_from_storage(sattn_npy *array, sattn_dtype dtype, const char *name, sattn_report *report);

/* int32, int64 or uint32 into uint32, refusing what does not fit. */
bool sattn_to_uint32(sattn_npy *array, const char *name, sattn_report *report);

#endif
