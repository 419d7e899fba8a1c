/* The caller's side of OpenCL: the functions that the interop cases need, from the same loader that the library opens. */
#ifndef CONFORMANCE_OPENCL_DRIVER_H
#define CONFORMANCE_OPENCL_DRIVER_H

#include <sattn/opencl.h>

typedef struct opencl_driver {
  cl_context (*create_context)(const cl_context_properties *, cl_uint, const cl_device_id *,
                               void(CL_CALLBACK *)(const char *, const void *, size_t, void *), void *, cl_int *);
  cl_int (*release_context)(cl_context);
  cl_command_queue (*create_queue)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
  cl_int (*release_queue)(cl_command_queue);
  cl_int (*finish)(cl_command_queue);
  cl_mem (*create_buffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
  cl_int (*release_buffer)(cl_mem);
  cl_int (*read_buffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *);
  cl_int (*write_buffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *);
  cl_event (*create_user_event)(cl_context, cl_int *);
  cl_int (*set_user_event)(cl_event, cl_int);
  cl_int (*event_info)(cl_event, cl_event_info, size_t, void *, size_t *);
  cl_int (*release_event)(cl_event);
} opencl_driver;

/* NULL when the loader is not there; never closed, as drivers do not like that. */
const opencl_driver *opencl_driver_open(void);

#endif
