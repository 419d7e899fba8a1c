#include <pthread.h>

#include <sattn/opencl.h>

#include "opencl_driver.h"
#include "queue.h"

static const opencl_driver *driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_driver(void) {
  driver = opencl_driver_open();
}

sattn_queue thread_queue_open(sattn_context *context) {
  sattn_queue queue = {NULL};
  cl_context handle = sattn_context_opencl(context);
  if (handle) pthread_once(&once, open_driver);
  if (handle && driver) queue.native = driver->create_queue(handle, sattn_context_opencl_device(context), 0, NULL);
  return queue;
}

void thread_queue_close(sattn_context *context, sattn_queue queue) {
  if (queue.native && sattn_context_opencl(context)) driver->release_queue((cl_command_queue)queue.native);
}
