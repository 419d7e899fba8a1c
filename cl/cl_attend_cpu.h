/* What forward and backward of the CPU kernels have in common. */
#ifndef SATTN_CL_ATTEND_CPU_H
#define SATTN_CL_ATTEND_CPU_H

#include "objects.h"

/* Walks over all queries: two where there are two bands, first the permuted one, then the window. */
int sattn_cl_cpu_passes(const sattn_problem *problem);

/* Whether slots are positions in a pass. */
bool sattn_cl_cpu_pass_is_identity(const sattn_problem *problem, int pass);

/* Vectors of 16 output columns that are summed at once: 4 rows of them and what they need fit the registers. */
int sattn_cl_cpu_columns(int32_t head_dim);

#endif
