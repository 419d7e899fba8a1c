#include "opencl_driver.h"

#include <dlfcn.h>
#include <string.h>

static int resolve(void *library, const char *name, void *target) {
  void *symbol = dlsym(library, name);
  /* An object pointer becomes a function pointer; POSIX guarantees the sizes. */
  memcpy(target, &symbol, sizeof symbol);
  return symbol != NULL;
}

const opencl_driver *opencl_driver_open(void) {
  static opencl_driver driver;
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return NULL;
  int all = resolve(library, "clCreateContext", &driver.create_context) & resolve(library, "clReleaseContext", &driver.release_context) &
            resolve(library, "clCreateCommandQueue", &driver.create_queue) &
            resolve(library, "clReleaseCommandQueue", &driver.release_queue) & resolve(library, "clFinish", &driver.finish) &
            resolve(library, "clCreateBuffer", &driver.create_buffer) & resolve(library, "clReleaseMemObject", &driver.release_buffer) &
            resolve(library, "clEnqueueReadBuffer", &driver.read_buffer) & resolve(library, "clEnqueueWriteBuffer", &driver.write_buffer) &
            resolve(library, "clCreateUserEvent", &driver.create_user_event) &
            resolve(library, "clSetUserEventStatus", &driver.set_user_event) & resolve(library, "clGetEventInfo", &driver.event_info) &
            resolve(library, "clReleaseEvent", &driver.release_event);
  return all ? &driver : NULL;
}
