/* Stage of the general path: MoBA's selection of blocks (kernels/select.cl). */
#ifndef SATTN_CL_SELECT_H
#define SATTN_CL_SELECT_H

#include "cl_attend.h"
#include "cl_program.h"
#include "kernel_params.h"

typedef struct sattn_cl_select {
  cl_kernel means, choose;
} sattn_cl_select;

/* Where the arrays lie in the workspace, in bytes, and their sizes. */
typedef struct sattn_cl_select_layout {
  uint64_t means, scores, selected;
  int64_t blocks; /* of all keys */
  int64_t places; /* of a query in scores and in the workspace's own selected: min(topk, blocks) */
} sattn_cl_select_layout;

sattn_status sattn_cl_select_prepare(const sattn_plan *plan, sattn_cl_select *out_select, sattn_error *error);
void sattn_cl_select_destroy(sattn_context *context, sattn_cl_select *select);

/* Only for MoBA. O(keys / block * head_dim + queries * topk). */
sattn_cl_select_layout sattn_cl_select_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

/* Fills in the fields of params that this stage decides (block layout, means, scores, selected) and enqueues. *out_selected is the buffer
 * that holds the selection: the caller's saved array, or the workspace. */
sattn_status sattn_cl_select_enqueue(sattn_cl_select *select, const sattn_plan *plan, const sattn_forward_args *args,
                                     const sattn_cl_select_layout *layout, sattn_general_params *params, sattn_cl_chain *chain,
                                     const sattn_buffer **out_selected, sattn_error *error);

#endif
