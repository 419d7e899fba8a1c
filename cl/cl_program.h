/* Compiled programs of a context: one per (sources, options), kept until the context ends, and cached on disk (cl_program_cache.h).
 *
 * A driver may compile a kernel only at its first launch (PoCL does, once per kernel and work-group size), and a binary fetched before that
 * lacks the machine code. So the order is: get the program, make its kernels, launch EVERY kernel of it once with the work-group size that
 * will be used, then sattn_cl_program_launched(), which stores the binary. Kernels that are not always used together belong in programs of
 * their own: a stored binary is never stored again.
 */
#ifndef SATTN_CL_PROGRAM_H
#define SATTN_CL_PROGRAM_H

#include "cl_context.h"

typedef struct sattn_cl_program sattn_cl_program;

/* `sources`: base names of embedded files, NULL-terminated, in the order in which they are joined (OpenCL C has no include path here).
 * `options`: compiler options such as "-DHEAD_DIM=64"; "-cl-std=CL1.2", on PoCL "-DSATTN_PREFETCH=1" (llvm.prefetch exists there and kills
 * other implementations), and the context's own build options are added. Files are told apart in the compiler's log by #line. Borrowed from
 * the context. SATTN_BUILD_FAILED: the whole log is kept in the context. */
sattn_status sattn_cl_program_get(sattn_context *context, const char *const *sources, const char *options, sattn_cl_program **out_program,
                                  sattn_error *error);

/* Ownership: the caller's, who releases it with sattn_cl_kernel_release. */
sattn_status sattn_cl_kernel_create(sattn_context *context, sattn_cl_program *program, const char *name, cl_kernel *out_kernel,
                                    sattn_error *error);
/* NULL is allowed; the handle is set to NULL. */
void sattn_cl_kernel_release(sattn_context *context, cl_kernel *kernel);

/* Says that every kernel of the program was launched and is complete. */
void sattn_cl_program_launched(sattn_context *context, sattn_cl_program *program);

void sattn_cl_programs_destroy(sattn_context *context);

/* ---- arguments ---- */

/* Sets arguments 0, 1, 2, ... and keeps the first failure. One cl_kernel must not be bound by two threads at once: hold the lock of whoever
 * owns the kernel from the first bind to the end of the launch. */
typedef struct sattn_cl_binder {
  const sattn_cl_api *api;
  cl_kernel kernel;
  cl_uint next;
  cl_int code;
} sattn_cl_binder;

sattn_cl_binder sattn_cl_bind(const sattn_context *context, cl_kernel kernel);
/* NULL buffers and buffers of 0 bytes become NULL pointers in the kernel. */
void sattn_cl_bind_buffer(sattn_cl_binder *binder, const sattn_buffer *buffer);
void sattn_cl_bind_buffers(sattn_cl_binder *binder, const sattn_buffer *const *buffers, size_t count);
/* A value: a scalar or a parameter struct of kernel_params.h. */
void sattn_cl_bind_value(sattn_cl_binder *binder, const void *value, size_t bytes);
sattn_status sattn_cl_bind_status(const sattn_cl_binder *binder, sattn_error *error);
/* All at once: one parameter struct, then buffers. */
sattn_status sattn_cl_bind_all(const sattn_context *context, cl_kernel kernel, const void *params, size_t bytes,
                               const sattn_buffer *const *buffers, size_t count, sattn_error *error);

/* Work-items of a group for kernels that use no local memory and no barrier: 1 where one work-item has a core and its vectors for itself,
 * 64 where groups run in lockstep on hardware that is told by its real local memory. */
size_t sattn_cl_plain_group(const sattn_context *context);

/* Launches a bound kernel as one work-group on the context's own queue and waits: the launch on an empty range that a plan makes. */
sattn_status sattn_cl_launch_once(sattn_context *context, cl_kernel kernel, cl_uint dimensions, const size_t *local, sattn_error *error);

#endif
