/* Stage of the CPU kernels: MoBA's selection turned into lists of queries by block (kernels/moba_lists.cl). */
#ifndef SATTN_CL_MOBA_H
#define SATTN_CL_MOBA_H

#include "cl_event.h"
#include "kernel_args.h"

/* Lists of queries: one for every round, query head and batch entry. Round r holds each query's r-th block besides its own. */
typedef struct sattn_cl_moba_lists {
  sattn_moba_params params; /* as far as sizes decide */
  int32_t rounds;           /* topk - 1 */
} sattn_cl_moba_lists;

/* What was selected: [B, H, n_q, places]. */
typedef struct sattn_cl_selected {
  const sattn_buffer *buffer;
  int64_t offset;
  int64_t places;
} sattn_cl_selected;

/* Takes room for the lists of a call; none where topk is 1. */
sattn_cl_moba_lists sattn_cl_moba_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

sattn_status sattn_cl_moba_prepare(sattn_context *context, cl_kernel *out_kernel, sattn_error *error);

sattn_status sattn_cl_moba_enqueue(cl_kernel kernel, const sattn_plan *plan, const sattn_forward_args *args,
                                   const sattn_cl_moba_lists *lists, const sattn_cl_selected *selected, sattn_cl_chain *chain,
                                   sattn_error *error);

/* Lets a list layout's queries be those of a round. Returns the distance from one (batch entry, head) to the next. */
int64_t sattn_cl_moba_queries(const sattn_cl_moba_lists *lists, int round, sattn_list_layout *layout);

#endif
