/* What the work-group kernels of forward and backward have in common. */
#ifndef SATTN_CL_ATTEND_GPU_H
#define SATTN_CL_ATTEND_GPU_H

#include "dispatch.h"

/* Whether their tiles can do the problem on the device; if not, a clause why. `items` and `local_bytes` are what a work-group needs. */
bool sattn_cl_gpu_supports(const sattn_context *context, const sattn_problem *problem, uint32_t items, uint64_t local_bytes, char *reason);

#endif
