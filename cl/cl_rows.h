/* gather_rows, scatter_rows and (cl_merge.c) merge: kernels of the context, made at the first call or by rows_prepare. */
#ifndef SATTN_CL_ROWS_H
#define SATTN_CL_ROWS_H

#include "backend.h"
#include "cl_context.h"

/* Each dtype has a merge kernel; moving rows only needs the size of an element. */
#define SATTN_CL_DTYPES 3

/* sattn_cl_context.rows. */
typedef struct sattn_cl_rows {
  pthread_mutex_t lock; /* around setting arguments and enqueueing */
  cl_kernel move_32, move_16;
  cl_kernel merge[SATTN_CL_DTYPES]; /* at dtype - 1 */
} sattn_cl_rows;

sattn_status sattn_cl_rows_prepare(sattn_context *context, sattn_error *error);
void sattn_cl_rows_destroy(sattn_context *context);

sattn_status sattn_cl_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                sattn_error *error);

/* cl_merge.c */
sattn_status sattn_cl_merge_prepare(sattn_context *context, sattn_cl_rows *rows, sattn_error *error);
sattn_status sattn_cl_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission, sattn_error *error);

#endif
