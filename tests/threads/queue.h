/* A queue of a thread's own, where the backend has such things; else {NULL}. */
#ifndef THREADS_QUEUE_H
#define THREADS_QUEUE_H

#include <sattn/sattn.h>

sattn_queue thread_queue_open(sattn_context *context);
void thread_queue_close(sattn_context *context, sattn_queue queue);

#endif
