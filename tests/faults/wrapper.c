#include "wrapper.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "lies.h"

#pragma GCC visibility push(default)

typedef enum kind { CONTEXT, QUEUE, MEMORY, PROGRAM, KERNEL, EVENT, KINDS } kind;

static atomic_long calls;
static atomic_long fail_at;
static atomic_int fail_code;
static _Atomic(const char *) failed;
static atomic_long alive[KINDS];

/* ---- what tests see ---- */

void sattn_wrapper_fail_at(long n, cl_int code) {
  atomic_store(&calls, 0);
  atomic_store(&failed, NULL);
  atomic_store(&fail_code, code);
  atomic_store(&fail_at, n);
}

long sattn_wrapper_calls(void) {
  return atomic_load(&calls);
}

const char *sattn_wrapper_failed(void) {
  return atomic_load(&failed);
}

long sattn_wrapper_alive(void) {
  long sum = 0;
  for (int k = 0; k < KINDS; ++k) sum += atomic_load(&alive[k]);
  return sum;
}

const char *sattn_wrapper_alive_text(void) {
  static const char *const names[KINDS] = {"contexts", "queues", "buffers", "programs", "kernels", "events"};
  static char text[160];
  size_t used = 0;
  text[0] = '\0';
  for (int k = 0; k < KINDS; ++k)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%ld %s", k ? ", " : "", atomic_load(&alive[k]), names[k]);
  return text;
}

/* ---- handing on ---- */

/* The real function of a name. */
static void *real(const char *name) {
  static void *library;
  if (!library) library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  void *symbol = library ? dlsym(library, name) : NULL;
  if (!symbol) fprintf(stderr, "wrapper: no real %s\n", name);
  return symbol;
}

/* The code that this call shall give, or CL_SUCCESS. */
static cl_int verdict(const char *name) {
  if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&fail_at)) return CL_SUCCESS;
  atomic_store(&failed, name);
  return atomic_load(&fail_code);
}

/* Object pointers become function pointers; POSIX guarantees the sizes. */
#define REAL(name)                       \
  static __typeof__(&name) to;           \
  if (!to) {                             \
    void *symbol = real(#name);          \
    memcpy(&to, &symbol, sizeof symbol); \
  }

#define FAIL_STATUS(name)               \
  REAL(name)                            \
  cl_int verdict_code = verdict(#name); \
  if (verdict_code != CL_SUCCESS) return verdict_code;

#define FAIL_OBJECT(name, code)         \
  REAL(name)                            \
  cl_int verdict_code = verdict(#name); \
  if (verdict_code != CL_SUCCESS) {     \
    if (code) *(code) = verdict_code;   \
    return NULL;                        \
  }

/* A function that returns a status and makes nothing. */
#define PLAIN(name, parameters, arguments) \
  cl_int name parameters {                 \
    FAIL_STATUS(name)                      \
    return to arguments;                   \
  }

/* One that adds to or takes from the count of a kind. */
#define COUNTING(name, parameters, arguments, what, change)           \
  cl_int name parameters {                                            \
    FAIL_STATUS(name)                                                 \
    cl_int code = to arguments;                                       \
    if (code == CL_SUCCESS) atomic_fetch_add(&alive[what], (change)); \
    return code;                                                      \
  }

/* One that may leave an event. */
#define ENQUEUE(name, parameters, arguments)                             \
  cl_int name parameters {                                               \
    FAIL_STATUS(name)                                                    \
    cl_int code = to arguments;                                          \
    if (code == CL_SUCCESS && event) atomic_fetch_add(&alive[EVENT], 1); \
    return code;                                                         \
  }

PLAIN(clGetPlatformIDs, (cl_uint n, cl_platform_id *list, cl_uint *count), (n, list, count))
PLAIN(clGetPlatformInfo, (cl_platform_id p, cl_platform_info what, size_t size, void *value, size_t *got), (p, what, size, value, got))
PLAIN(clGetDeviceIDs, (cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *list, cl_uint *count), (p, type, n, list, count))
PLAIN(clGetContextInfo, (cl_context c, cl_context_info what, size_t size, void *value, size_t *got), (c, what, size, value, got))
PLAIN(clGetCommandQueueInfo, (cl_command_queue q, cl_command_queue_info what, size_t size, void *value, size_t *got),
      (q, what, size, value, got))
PLAIN(clGetMemObjectInfo, (cl_mem m, cl_mem_info what, size_t size, void *value, size_t *got), (m, what, size, value, got))
PLAIN(clGetProgramInfo, (cl_program p, cl_program_info what, size_t size, void *value, size_t *got), (p, what, size, value, got))
PLAIN(clGetProgramBuildInfo, (cl_program p, cl_device_id d, cl_program_build_info what, size_t size, void *value, size_t *got),
      (p, d, what, size, value, got))
PLAIN(clGetEventInfo, (cl_event e, cl_event_info what, size_t size, void *value, size_t *got), (e, what, size, value, got))
PLAIN(clBuildProgram,
      (cl_program p, cl_uint n, const cl_device_id *devices, const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
       void *data),
      (p, n, devices, options, notify, data))
PLAIN(clSetKernelArg, (cl_kernel k, cl_uint index, size_t size, const void *value), (k, index, size, value))
PLAIN(clWaitForEvents, (cl_uint n, const cl_event *list), (n, list))
PLAIN(clFlush, (cl_command_queue q), (q))
PLAIN(clFinish, (cl_command_queue q), (q))

COUNTING(clRetainContext, (cl_context c), (c), CONTEXT, 1)
COUNTING(clReleaseContext, (cl_context c), (c), CONTEXT, -1)
COUNTING(clRetainCommandQueue, (cl_command_queue q), (q), QUEUE, 1)
COUNTING(clReleaseCommandQueue, (cl_command_queue q), (q), QUEUE, -1)
COUNTING(clRetainMemObject, (cl_mem m), (m), MEMORY, 1)
COUNTING(clReleaseMemObject, (cl_mem m), (m), MEMORY, -1)
COUNTING(clReleaseProgram, (cl_program p), (p), PROGRAM, -1)
COUNTING(clReleaseKernel, (cl_kernel k), (k), KERNEL, -1)
COUNTING(clRetainEvent, (cl_event e), (e), EVENT, 1)
COUNTING(clReleaseEvent, (cl_event e), (e), EVENT, -1)

ENQUEUE(clEnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t size, void *target, cl_uint n, const cl_event *list,
         cl_event *event),
        (q, m, wait, at, size, target, n, list, event))
ENQUEUE(clEnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t size, const void *source, cl_uint n, const cl_event *list,
         cl_event *event),
        (q, m, wait, at, size, source, n, list, event))
ENQUEUE(clEnqueueMarkerWithWaitList, (cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event), (q, n, list, event))
ENQUEUE(clEnqueueBarrierWithWaitList, (cl_command_queue q, cl_uint n, const cl_event *list, cl_event *event), (q, n, list, event))

/* ---- objects ---- */

#define MAKE(type, name, parameters, arguments, what) \
  type name parameters {                              \
    FAIL_OBJECT(name, code)                           \
    type object = to arguments;                       \
    if (object) atomic_fetch_add(&alive[what], 1);    \
    return object;                                    \
  }

MAKE(cl_context, clCreateContext,
     (const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
      void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *code),
     (properties, n, devices, notify, data, code), CONTEXT)
MAKE(cl_command_queue, clCreateCommandQueue, (cl_context c, cl_device_id d, cl_command_queue_properties properties, cl_int *code),
     (c, d, properties, code), QUEUE)
MAKE(cl_program, clCreateProgramWithSource, (cl_context c, cl_uint n, const char **texts, const size_t *lengths, cl_int *code),
     (c, n, texts, lengths, code), PROGRAM)
MAKE(cl_program, clCreateProgramWithBinary,
     (cl_context c, cl_uint n, const cl_device_id *devices, const size_t *lengths, const unsigned char **binaries, cl_int *status,
      cl_int *code),
     (c, n, devices, lengths, binaries, status, code), PROGRAM)
MAKE(cl_kernel, clCreateKernel, (cl_program p, const char *kernel, cl_int *code), (p, kernel, code), KERNEL)

/* ---- where lies are told and kept ---- */

cl_mem clCreateBuffer(cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
  FAIL_OBJECT(clCreateBuffer, code)
  if (size > lies_get()->allocation) {
    if (code) *code = CL_INVALID_BUFFER_SIZE;
    return NULL;
  }
  cl_mem object = to(c, flags, size, host, code);
  if (object) atomic_fetch_add(&alive[MEMORY], 1);
  return object;
}

cl_int clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t size, void *value, size_t *got) {
  FAIL_STATUS(clGetDeviceInfo)
  cl_int code = to(d, what, size, value, got);
  if (code == CL_SUCCESS && value) lies_device(what, size, value);
  return code;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, size_t size, void *value, size_t *got) {
  FAIL_STATUS(clGetKernelWorkGroupInfo)
  cl_int code = to(k, d, what, size, value, got);
  if (code == CL_SUCCESS && value && what == CL_KERNEL_WORK_GROUP_SIZE && size == sizeof(size_t))
    *(size_t *)value = lies_least(*(size_t *)value, lies_get()->group);
  return code;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint dimensions, const size_t *first, const size_t *global,
                              const size_t *local, cl_uint n, const cl_event *list, cl_event *event) {
  FAIL_STATUS(clEnqueueNDRangeKernel)
  size_t items = 1;
  for (cl_uint i = 0; local && i < dimensions; ++i) items *= local[i];
  if (items > lies_get()->group) return CL_INVALID_WORK_GROUP_SIZE;
  if (lies_get()->local != (size_t)-1) {
    static __typeof__(&clGetKernelWorkGroupInfo) kernel_info;
    static __typeof__(&clGetCommandQueueInfo) queue_info;
    void *symbol = real("clGetKernelWorkGroupInfo");
    memcpy(&kernel_info, &symbol, sizeof symbol);
    symbol = real("clGetCommandQueueInfo");
    memcpy(&queue_info, &symbol, sizeof symbol);
    cl_device_id device = NULL;
    cl_ulong used = 0;
    queue_info(q, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    if (kernel_info(k, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL) == CL_SUCCESS && used > lies_get()->local)
      return CL_OUT_OF_RESOURCES;
  }
  cl_int code = to(q, k, dimensions, first, global, local, n, list, event);
  if (code == CL_SUCCESS && event) atomic_fetch_add(&alive[EVENT], 1);
  return code;
}
#pragma GCC visibility pop
