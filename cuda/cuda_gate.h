/* Gate logits, G = X W^T + bias, and their gradients, through cuBLAS opened at run time. */
#ifndef SATTN_CUDA_GATE_H
#define SATTN_CUDA_GATE_H

#include "backend.h"

sattn_status sattn_cuda_gate_prepare(sattn_gate_plan *plan, sattn_error *error);
void sattn_cuda_gate_destroy(sattn_gate_plan *plan);
sattn_status sattn_cuda_gate_run(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward, const sattn_submission *submission,
                                 sattn_error *error);

#endif
