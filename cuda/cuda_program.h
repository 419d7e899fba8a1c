/* Device images of a context: one module per kernel file, loaded at first use and kept until the context ends.
 *
 * An image is a fat binary (machine code for several architectures, and PTX) that cuda/CMakeLists.txt builds from kernels/<name>.cu and
 * embeds. Built without nvcc, the table is empty, and every request says so.
 */
#ifndef SATTN_CUDA_PROGRAM_H
#define SATTN_CUDA_PROGRAM_H

#include "cuda_context.h"

typedef struct sattn_cuda_program sattn_cuda_program;

/* SATTN_UNAVAILABLE if this library was built without kernels. */
sattn_status sattn_cuda_images_check(sattn_error *error);

/* The program of kernels/<name>.cu. Must be called between sattn_cuda_enter and _leave. Borrowed from the context. */
sattn_status sattn_cuda_program_get(sattn_context *context, const char *name, sattn_cuda_program **out_program, sattn_error *error);

/* A kernel of the program, allowed `shared_bytes` of dynamic shared memory. Borrowed from the program. */
sattn_status sattn_cuda_kernel_get(sattn_context *context, sattn_cuda_program *program, const char *name, uint32_t shared_bytes,
                                   sattn_cu_function *out_kernel, sattn_error *error);

/* Must be called between sattn_cuda_enter and _leave. */
void sattn_cuda_programs_destroy(sattn_context *context);

#endif
