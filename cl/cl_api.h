/* libOpenCL, opened at run time: every driver function that the backend calls, in one table.
 *
 * Nothing links against libOpenCL, so the library loads where no driver is installed. The table is filled once per process and the driver
 * is never closed: ICD loaders and drivers start threads and register exit handlers.
 */
#ifndef SATTN_CL_API_H
#define SATTN_CL_API_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include "error.h"

/* Name of every function; all are OpenCL 1.2 and thus required. */
#define SATTN_CL_FUNCTIONS(F)     \
  F(clGetPlatformIDs)             \
  F(clGetPlatformInfo)            \
  F(clGetDeviceIDs)               \
  F(clGetDeviceInfo)              \
  F(clCreateContext)              \
  F(clRetainContext)              \
  F(clReleaseContext)             \
  F(clGetContextInfo)             \
  F(clCreateCommandQueue)         \
  F(clRetainCommandQueue)         \
  F(clReleaseCommandQueue)        \
  F(clGetCommandQueueInfo)        \
  F(clCreateBuffer)               \
  F(clRetainMemObject)            \
  F(clReleaseMemObject)           \
  F(clGetMemObjectInfo)           \
  F(clCreateProgramWithSource)    \
  F(clCreateProgramWithBinary)    \
  F(clBuildProgram)               \
  F(clReleaseProgram)             \
  F(clGetProgramInfo)             \
  F(clGetProgramBuildInfo)        \
  F(clCreateKernel)               \
  F(clReleaseKernel)              \
  F(clSetKernelArg)               \
  F(clGetKernelWorkGroupInfo)     \
  F(clEnqueueNDRangeKernel)       \
  F(clEnqueueReadBuffer)          \
  F(clEnqueueWriteBuffer)         \
  F(clEnqueueMarkerWithWaitList)  \
  F(clEnqueueBarrierWithWaitList) \
  F(clWaitForEvents)              \
  F(clGetEventInfo)               \
  F(clRetainEvent)                \
  F(clReleaseEvent)               \
  F(clFlush)                      \
  F(clFinish)

/* __typeof__ takes each type from the vendor header, so a wrong call cannot compile; gcc and clang know it in every standard mode. */
typedef struct sattn_cl_api {
#define SATTN_CL_MEMBER(function) __typeof__(&function) function;
  SATTN_CL_FUNCTIONS(SATTN_CL_MEMBER)
#undef SATTN_CL_MEMBER
} sattn_cl_api;

/* The table, or NULL with SATTN_UNAVAILABLE in `error`. A failure is not remembered: a driver may be installed later. */
const sattn_cl_api *sattn_cl_api_get(sattn_error *error);

/* The symbol of a status value, such as "CL_OUT_OF_RESOURCES"; "unknown OpenCL status" for others. */
const char *sattn_cl_status_text(cl_int code);

/* SATTN_OK for CL_SUCCESS. Memory errors become SATTN_OUT_OF_MEMORY, everything else SATTN_DRIVER_ERROR; the message says which function
 * returned which code. */
sattn_status sattn_cl_check(cl_int code, const char *function, sattn_error *error);

#endif
