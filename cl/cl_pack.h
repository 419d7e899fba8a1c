/* Stage `pack` of the CPU kernels: K and V in list order, as fp32 (kernels/pack.cl). */
#ifndef SATTN_CL_PACK_H
#define SATTN_CL_PACK_H

#include "cl_permute.h"

/* Where packed blocks lie in the workspace, in fp32 elements. */
typedef struct sattn_cl_packed {
  int64_t key, value;
  int64_t head; /* from one (batch, head) to the next */
} sattn_cl_packed;

sattn_cl_packed sattn_cl_pack_carve(const sattn_problem *problem, const sattn_sizes *sizes, int32_t blocks, uint64_t *end);

sattn_status sattn_cl_pack_prepare(const sattn_plan *plan, cl_kernel *out_kernel, sattn_error *error);

/* The keys of the lists, of which `left`, `right` slots around each query are wanted; with `sinks` the sink keys of the lists. */
sattn_status sattn_cl_pack_enqueue(cl_kernel kernel, const sattn_plan *plan, const sattn_forward_args *args, const sattn_cl_lists *lists,
                                   const sattn_cl_packed *packed, bool sinks, int32_t left, int32_t right, sattn_cl_chain *chain,
                                   sattn_error *error);

#endif
