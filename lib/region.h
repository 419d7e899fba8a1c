/* Where the arrays of one call lie: checks that they are present, inside their buffers, and that no output meets anything else. */
#ifndef SATTN_LIB_REGION_H
#define SATTN_LIB_REGION_H

#include "objects.h"

/* One array as bytes: rows of `run` contiguous bytes, repeated along up to three strides. Extents of 1 are left out and strides descend. */
typedef struct sattn_region {
  const char *name;
  const void *space; /* regions of different spaces never meet: the buffer, or NULL for host addresses */
  bool output;
  int64_t first;
  int64_t run; /* 0: no bytes at all */
  int32_t levels;
  int64_t extent[3];
  int64_t stride[3];
} sattn_region;

enum { SATTN_REGION_CAPACITY = 32 };

typedef enum sattn_presence { SATTN_ABSENT = 0, SATTN_OPTIONAL = 1, SATTN_REQUIRED = 2 } sattn_presence;

/* The arrays of a call, collected in turn. The first failure stays in `status` and makes the rest do nothing. */
typedef struct sattn_region_set {
  const sattn_context *context;
  const char *owner; /* who decides what must be present, for messages: "the plan" */
  bool may_coincide; /* an output may be exactly the region of its own input, out of out_a or out_b (merge) */
  sattn_error *error;
  sattn_status status;
  size_t count;
  sattn_region region[SATTN_REGION_CAPACITY];
} sattn_region_set;

/* What an array must be. */
typedef struct sattn_extent {
  const char *name;
  sattn_presence presence;
  bool output;
  size_t element; /* bytes */
  int64_t batch, tokens, heads, width;
} sattn_extent;

void sattn_region_begin(sattn_region_set *set, const sattn_context *context, const char *owner, sattn_error *error);

/* Checks presence, owner, offset, strides and end; resolves packed strides in place. An array without elements needs no buffer. */
void sattn_region_add_tensor(sattn_region_set *set, const sattn_extent *extent, sattn_tensor *tensor);

/* The same for a contiguous array of `count` elements. */
void sattn_region_add_array(sattn_region_set *set, const char *name, sattn_presence presence, bool output, size_t element, uint64_t count,
                            const sattn_array *array);

/* A workspace of `bytes` bytes from a byte offset that must be a multiple of 256. */
void sattn_region_add_workspace(sattn_region_set *set, uint64_t bytes, const sattn_buffer *workspace, int64_t offset);

/* A strided array at a host address (three zero strides: packed). *out_bytes: from the address to the last byte. */
void sattn_region_add_host(sattn_region_set *set, const sattn_extent *extent, const void *data, int64_t stride_batch, int64_t stride_token,
                           int64_t stride_head, uint64_t *out_bytes);

/* Refuses outputs that overlap themselves, inputs or each other. Returns the status of the whole set. */
sattn_status sattn_region_end(sattn_region_set *set);

/* Whether two strided regions share a byte; exact for any strides, up to a bound on the work, beyond which the answer is yes. Regions that
 * interleave (slices of a packed QKV buffer) do not meet. */
bool sattn_regions_meet(const sattn_region *a, const sattn_region *b);
bool sattn_region_meets_itself(const sattn_region *region);

#endif
