/* Stage `pack` of the CPU kernels: K and V in list order. */
#ifndef SATTN_CL_PACK_H
#define SATTN_CL_PACK_H

#include "cl_permute.h"

/* How blocks are packed. */
typedef enum sattn_cl_pack_form {
  SATTN_CL_PACK_ROWS, /* fp32 (kernels/pack.cl) */
  SATTN_CL_PACK_AMX   /* bf16, in tiles (kernels/attend_amx_pack.cl) */
} sattn_cl_pack_form;

/* Where packed blocks lie in the workspace, in elements of their form. */
typedef struct sattn_cl_packed {
  int64_t key, value;
  int64_t head; /* from one (batch, head) to the next */
} sattn_cl_packed;

sattn_cl_packed sattn_cl_pack_carve(const sattn_problem *problem, const sattn_sizes *sizes, sattn_cl_pack_form form, int32_t blocks,
                                    uint64_t *end);

sattn_status sattn_cl_pack_prepare(const sattn_plan *plan, sattn_cl_pack_form form, cl_kernel *out_kernel, sattn_error *error);

/* The keys of the lists, of which `left`, `right` slots around each query are wanted; with `sinks` the sink keys of the lists. */
sattn_status sattn_cl_pack_enqueue(cl_kernel kernel, const sattn_plan *plan, const sattn_forward_args *args, const sattn_cl_lists *lists,
                                   const sattn_cl_packed *packed, bool sinks, int32_t left, int32_t right, sattn_cl_chain *chain,
                                   sattn_error *error);

#endif
