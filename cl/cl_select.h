/* Stage of MoBA: the selection of blocks (kernels/select.cl, select_wide.cl). */
#ifndef SATTN_CL_SELECT_H
#define SATTN_CL_SELECT_H

#include "cl_attend.h"
#include "cl_program.h"
#include "kernel_args.h"

typedef struct sattn_cl_select {
  cl_kernel means, choose;
  int queries_at_once; /* of a work-item of `choose` */
} sattn_cl_select;

/* wide: sixteen queries in lanes, for CPUs. Needs a head_dim that is a multiple of 16 and a topk of at most SATTN_CL_SELECT_WIDE_MOST. */
#define SATTN_CL_SELECT_WIDE_MOST 16
sattn_status sattn_cl_select_prepare(const sattn_plan *plan, bool wide, sattn_cl_select *out_select, sattn_error *error);
void sattn_cl_select_destroy(sattn_context *context, sattn_cl_select *select);

/* Fills in the fields of params that this stage decides (block layout, means, scores, selected) and enqueues. *out_selected is the buffer
 * that holds the selection: the caller's saved array, or the workspace. */
sattn_status sattn_cl_select_enqueue(sattn_cl_select *select, const sattn_plan *plan, const sattn_forward_args *args,
                                     const sattn_select_layout *layout, sattn_general_params *params, sattn_cl_chain *chain,
                                     const sattn_buffer **out_selected, sattn_error *error);

#endif
