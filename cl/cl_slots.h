/* Stage of the general path: slots of tokens, and orders without the tokens that do not exist (kernels/slots.cl). */
#ifndef SATTN_CL_SLOTS_H
#define SATTN_CL_SLOTS_H

#include "cl_attend.h"
#include "cl_program.h"
#include "kernel_args.h"

typedef struct sattn_cl_slots {
  cl_kernel invert, count, write;
} sattn_cl_slots;

sattn_status sattn_cl_slots_prepare(sattn_context *context, sattn_cl_slots *out_slots, sattn_error *error);
void sattn_cl_slots_destroy(sattn_context *context, sattn_cl_slots *slots);

/* Only for modes with an SA band, layout from sattn_slots_carve. The problem's lengths array is NULL where it has none. *out_order is the
 * buffer that holds the order to read: the permutation's own, or the workspace; slots are in the workspace. */
sattn_status sattn_cl_slots_enqueue(sattn_cl_slots *slots, const sattn_plan *plan, const sattn_sizes *sizes,
                                    const sattn_permutation *permutation, const sattn_array *lengths, const sattn_buffer *workspace,
                                    const sattn_slots_layout *layout, sattn_cl_chain *chain, sattn_general_params *params,
                                    const sattn_buffer **out_order, sattn_error *error);

#endif
