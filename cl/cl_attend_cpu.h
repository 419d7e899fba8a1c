/* What forward and backward of the CPU kernels have in common. */
#ifndef SATTN_CL_ATTEND_CPU_H
#define SATTN_CL_ATTEND_CPU_H

#include "cl_pack.h"
#include "cl_permute.h"
#include "kernel_args.h"
#include "objects.h"

/* Walks over all queries: two where there are two bands, first the permuted one, then the window. */
int sattn_cl_cpu_passes(const sattn_problem *problem);

/* Whether slots are positions in a pass. */
bool sattn_cl_cpu_pass_is_identity(const sattn_problem *problem, int pass);

/* Whether each query head has its own list of queries in a pass (MOBA's, after the first). */
bool sattn_cl_cpu_has_query_lists(const sattn_problem *problem, int pass);

/* Vectors of 16 output columns that are summed at once: 4 rows of them and what they need fit the registers. */
int sattn_cl_cpu_columns(int32_t head_dim);

/* What every forward kernel of CPUs is told of a pass: arrays of the call but LSE, lists, packed blocks, sizes, band, scale. */
sattn_attend_cpu_params sattn_cl_cpu_describe(const sattn_problem *problem, const sattn_forward_args *args, const sattn_cl_lists *lists,
                                              const sattn_cl_packed *packed, const sattn_cl_packed *sinks);

/* The sides of the band of a pass. A side longer than all slots is the same as one as long, so that the two together stay in 32 bits;
 * FULL has none. In MOBA a query's slot is the first of a block. */
void sattn_cl_cpu_sides(const sattn_problem *problem, bool identity, int64_t keys, int32_t *out_left, int32_t *out_right);

#endif
