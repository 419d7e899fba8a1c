/* Stage `permute` of the CPU kernels: lists of keys and queries in the order of a band (kernels/permute.cl). */
#ifndef SATTN_CL_PERMUTE_H
#define SATTN_CL_PERMUTE_H

#include "cl_event.h"
#include "kernel_params.h"
#include "objects.h"

#define SATTN_CL_BLOCK 64 /* keys of a block, queries of a tile */

typedef struct sattn_cl_permute {
  cl_kernel lists, sort, cross;
} sattn_cl_permute;

/* Lists of one order for a call. */
typedef struct sattn_cl_lists {
  sattn_list_layout layout;
  bool identity;  /* else the permutation's orders */
  bool per_batch; /* each batch entry has lists of its own */
  int32_t heads;  /* lists that a batch entry has: 1, or one per key/value head */
  int32_t sinks;  /* sink tokens that the lists hold */
  int32_t blocks, tiles, sink_blocks;
} sattn_cl_lists;

/* Takes room for the lists of a call: `identity` or the permutation's orders, `heads` per batch entry, with or without sink tokens. */
sattn_cl_lists sattn_cl_lists_carve(const sattn_problem *problem, const sattn_sizes *sizes, bool identity, uint64_t *end);

sattn_status sattn_cl_permute_prepare(sattn_context *context, sattn_cl_permute *out_permute, sattn_error *error);
void sattn_cl_permute_destroy(sattn_context *context, sattn_cl_permute *permute);

/* `other`: where UNION's second pass finds slots in the first pass's order; NULL elsewhere. */
sattn_status sattn_cl_permute_enqueue(const sattn_cl_permute *permute, const sattn_plan *plan, const sattn_forward_args *args,
                                      const sattn_cl_lists *lists, const sattn_cl_lists *other, sattn_cl_chain *chain, sattn_error *error);

#endif
