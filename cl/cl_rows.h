/* gather_rows, scatter_rows and (cl_merge.c) merge: kernels of the context, built at the first call or by rows_prepare. */
#ifndef SATTN_CL_ROWS_H
#define SATTN_CL_ROWS_H

#include "backend.h"
#include "cl_context.h"

/* context->impl->rows, guarded by program_lock while it is made; `lock` guards setting arguments and enqueueing. */
typedef struct sattn_cl_rows {
  pthread_mutex_t lock;
  cl_kernel move[3]; /* by dtype: fp32, fp16, bf16 */
  cl_kernel merge[3];
  size_t local; /* work-items of a group */
} sattn_cl_rows;

sattn_status sattn_cl_rows_prepare(sattn_context *context, sattn_error *error);
void sattn_cl_rows_destroy(sattn_context *context);

sattn_status sattn_cl_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                sattn_error *error);
sattn_status sattn_cl_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission, sattn_error *error);

#endif
