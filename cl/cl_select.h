/* Stage of the general path: MoBA's selection of blocks (kernels/select.cl). */
#ifndef SATTN_CL_SELECT_H
#define SATTN_CL_SELECT_H

#include "cl_attend.h"
#include "cl_program.h"
#include "kernel_args.h"

typedef struct sattn_cl_select {
  cl_kernel means, choose;
} sattn_cl_select;

sattn_status sattn_cl_select_prepare(const sattn_plan *plan, sattn_cl_select *out_select, sattn_error *error);
void sattn_cl_select_destroy(sattn_context *context, sattn_cl_select *select);

/* Fills in the fields of params that this stage decides (block layout, means, scores, selected) and enqueues. *out_selected is the buffer
 * that holds the selection: the caller's saved array, or the workspace. */
sattn_status sattn_cl_select_enqueue(sattn_cl_select *select, const sattn_plan *plan, const sattn_forward_args *args,
                                     const sattn_select_layout *layout, sattn_general_params *params, sattn_cl_chain *chain,
                                     const sattn_buffer **out_selected, sattn_error *error);

#endif
