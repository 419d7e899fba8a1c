#include "queue.h"

sattn_queue thread_queue_open(sattn_context *context) {
  sattn_queue queue = {NULL};
  (void)context;
  return queue;
}

void thread_queue_close(sattn_context *context, sattn_queue queue) {
  (void)context;
  (void)queue;
}
