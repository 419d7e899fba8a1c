/* Plans: which implementation runs, and running it. */
#ifndef SATTN_CUDA_PLAN_H
#define SATTN_CUDA_PLAN_H

#include "backend.h"

sattn_status sattn_cuda_plan_query(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                   sattn_plan_info *info, sattn_error *error);
sattn_status sattn_cuda_plan_prepare(sattn_plan *plan, sattn_error *error);
void sattn_cuda_plan_destroy(sattn_plan *plan);
sattn_status sattn_cuda_forward(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission,
                                sattn_error *error);
sattn_status sattn_cuda_backward(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission,
                                 sattn_error *error);

#endif
