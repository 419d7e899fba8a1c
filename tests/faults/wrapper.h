/* libOpenCL with something in between: every driver function that the library calls, handed on to the real one, counted, made to fail when
 * a test says so, and lying about the device when the environment says so. The library takes the OpenCL that a process has already, so it
 * is enough to link or preload this one.
 *
 *     SATTN_WRAPPER_LIES=no-fp16,no-fp64,no-subgroups,gpu,local=BYTES,group=ITEMS,allocation=BYTES
 *
 * A limit that is told is also kept: what goes beyond it fails as a driver would fail it.
 */
#ifndef FAULTS_WRAPPER_H
#define FAULTS_WRAPPER_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

/* Call number n from now (1 is the next one) returns `code` and does nothing; 0: none does. */
void sattn_wrapper_fail_at(long n, cl_int code);
/* Calls since the last sattn_wrapper_fail_at. */
long sattn_wrapper_calls(void);
/* The function that was made to fail; NULL: none was. */
const char *sattn_wrapper_failed(void);
/* Objects made and retained, less those released. */
long sattn_wrapper_alive(void);
/* The same by kind, for a message. */
const char *sattn_wrapper_alive_text(void);

#endif
