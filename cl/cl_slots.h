/* Stage of the general path: slots of tokens, and orders without the tokens that do not exist (kernels/slots.cl). */
#ifndef SATTN_CL_SLOTS_H
#define SATTN_CL_SLOTS_H

#include "cl_attend.h"
#include "cl_program.h"
#include "kernel_params.h"

typedef struct sattn_cl_slots {
  cl_kernel invert, count, write;
} sattn_cl_slots;

/* Where the arrays lie in the workspace, in bytes. */
typedef struct sattn_cl_slots_layout {
  uint64_t slots, compact, counts;
} sattn_cl_slots_layout;

/* What the attention kernels read. */
typedef struct sattn_cl_slots_result {
  const sattn_buffer *order_buffer; /* the permutation's own, or the workspace; slots are in the workspace */
  sattn_kernel_orders order, slots;
  int32_t order_length; /* slots that there are; 0: as many as tokens exist */
} sattn_cl_slots_result;

sattn_status sattn_cl_slots_prepare(sattn_context *context, sattn_cl_slots *out_slots, sattn_error *error);
void sattn_cl_slots_destroy(sattn_context *context, sattn_cl_slots *slots);

/* Only for modes with an SA band. O(keys) per permutation. */
sattn_cl_slots_layout sattn_cl_slots_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end);

/* The problem's lengths array is NULL where it has none. */
sattn_status sattn_cl_slots_enqueue(sattn_cl_slots *slots, const sattn_plan *plan, const sattn_sizes *sizes,
                                    const sattn_permutation *permutation, const sattn_array *lengths, const sattn_buffer *workspace,
                                    const sattn_cl_slots_layout *layout, sattn_cl_chain *chain, sattn_cl_slots_result *out_result,
                                    sattn_error *error);

#endif
