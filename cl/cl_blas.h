/* CLBlast, opened at run time: one product of fp32 matrices on the caller's queue. */
#ifndef SATTN_CL_BLAS_H
#define SATTN_CL_BLAS_H

#include "cl_context.h"

/* C [m, n] = op(A) op(B) + beta C, row-major and contiguous. A is [m, k], or [k, m] when transposed; B is [k, n], or [n, k]. Offsets count
 * elements. */
typedef struct sattn_cl_product {
  bool transpose_a, transpose_b;
  size_t m, n, k;
  float beta;
  cl_mem a, b, c;
  size_t offset_a, offset_b, offset_c;
} sattn_cl_product;

/* Opens the library, and gives it parameters that fit the device where its own do not. SATTN_UNAVAILABLE if it is not there. */
sattn_status sattn_cl_blas_open(const sattn_context *context, sattn_error *error);

/* Bytes of scratch memory for a product of this shape, whatever the offsets; 0 where it takes the kernel that needs none. */
sattn_status sattn_cl_blas_scratch(const sattn_context *context, const sattn_cl_product *product, size_t *out_bytes, sattn_error *error);

/* Enqueues without waiting for anything: what comes before must be in order already. *out_event is the caller's. */
sattn_status sattn_cl_blas_run(const sattn_context *context, cl_command_queue queue, const sattn_cl_product *product, cl_mem scratch,
                               cl_event *out_event, sattn_error *error);

#endif
