/* Blocks of the CPU kernels for gradients: K and V into them, dK and dV out of them (kernels/attend_cpu_grad_pack.cl). */
#ifndef SATTN_CL_PACK_GRAD_H
#define SATTN_CL_PACK_GRAD_H

#include "cl_permute.h"

typedef struct sattn_cl_pack_grad {
  cl_kernel pack, unpack, sum_sinks;
} sattn_cl_pack_grad;

/* Takes room for the sums of `blocks` blocks per key/value head and their state, and for the keys and values of blocks. */
void sattn_cl_pack_grad_carve_sums(const sattn_problem *problem, const sattn_sizes *sizes, int32_t blocks, sattn_grad_blocks *at,
                                   uint64_t *end);
void sattn_cl_pack_grad_carve_keys(const sattn_problem *problem, const sattn_sizes *sizes, int32_t blocks, sattn_grad_blocks *at,
                                   uint64_t *end);

sattn_status sattn_cl_pack_grad_prepare(const sattn_plan *plan, sattn_cl_pack_grad *out_pack, sattn_error *error);
void sattn_cl_pack_grad_destroy(sattn_context *context, sattn_cl_pack_grad *pack);

/* The keys of the lists, with SATTN_PACK_GRAD_SINKS in `flags` the sink keys. There are no sums then, with SATTN_PACK_GRAD_CLEAR zeros. */
sattn_status sattn_cl_pack_grad_enqueue(const sattn_cl_pack_grad *pack, const sattn_plan *plan, const sattn_backward_args *args,
                                        const sattn_cl_lists *lists, const sattn_grad_blocks *blocks, int32_t flags, sattn_cl_chain *chain,
                                        sattn_error *error);

/* Where sums go: as dK and dV to the caller, or as they are into the sums of the next pass, whose lists are in the order of positions. */
typedef struct sattn_cl_unpack {
  const sattn_cl_lists *lists;
  const sattn_grad_blocks *blocks;
  const sattn_grad_blocks *sinks; /* NULL: none to add */
  const sattn_grad_blocks *carry; /* NULL: to the caller */
} sattn_cl_unpack;

sattn_status sattn_cl_unpack_enqueue(const sattn_cl_pack_grad *pack, const sattn_plan *plan, const sattn_backward_args *args,
                                     const sattn_cl_unpack *unpack, sattn_cl_chain *chain, sattn_error *error);

/* d sink logits from the deltas of each branch (elements of the workspace). */
sattn_status sattn_cl_sum_sinks_enqueue(const sattn_cl_pack_grad *pack, const sattn_plan *plan, const sattn_backward_args *args,
                                        const int64_t *deltas, sattn_cl_chain *chain, sattn_error *error);

#endif
