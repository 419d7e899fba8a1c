#include <sattn/opencl.h>

#include "opencl_driver.h"
#include "queue.h"

sattn_queue thread_queue_open(sattn_context *context) {
  sattn_queue queue = {NULL};
  cl_context handle = sattn_context_opencl(context);
  const opencl_driver *driver = handle ? opencl_driver_open() : NULL;
  if (driver) queue.native = driver->create_queue(handle, sattn_context_opencl_device(context), 0, NULL);
  return queue;
}

void thread_queue_close(sattn_context *context, sattn_queue queue) {
  if (queue.native && sattn_context_opencl(context)) opencl_driver_open()->release_queue((cl_command_queue)queue.native);
}
