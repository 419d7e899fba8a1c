/* gather_rows, scatter_rows and merge: small kernels of their own (kernels/rows.cu, kernels/merge.cu). */
#ifndef SATTN_CUDA_ROWS_H
#define SATTN_CUDA_ROWS_H

#include "backend.h"

sattn_status sattn_cuda_rows_prepare(sattn_context *context, sattn_error *error);
sattn_status sattn_cuda_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                  sattn_error *error);
sattn_status sattn_cuda_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission, sattn_error *error);

#endif
