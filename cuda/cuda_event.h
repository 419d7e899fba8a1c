/* One asynchronous call as a chain of launches in the caller's stream. A stream keeps its order, so only the wait list and the last event
 * are driver objects. Nothing here allocates host memory or waits, so the call can be recorded into a graph.
 *
 *     sattn_cuda_chain chain;
 *     status = sattn_cuda_chain_begin(&chain, context, submission, profile, error);
 *     ... sattn_cuda_chain_stage, sattn_cuda_chain_launch ...
 *     status = sattn_cuda_chain_end(&chain, status, error);      always, whatever happened between
 */
#ifndef SATTN_CUDA_EVENT_H
#define SATTN_CUDA_EVENT_H

#include "backend.h"
#include "cuda_context.h"
#include "stage.h"

typedef struct sattn_cuda_chain {
  sattn_context *context;
  sattn_cuda_context *cuda;
  sattn_cu_stream stream;
  sattn_event *out_event; /* may be NULL */
  bool entered;           /* the CUcontext is pushed */
  sattn_stopwatch watch;
} sattn_cuda_chain;

#define SATTN_CUDA_MOST_BLOCKS 0x7fffffffu

/* A grid of blocks. x may be as large as SATTN_CUDA_MOST_BLOCKS, y and z stay at 1: batch and heads are counted in x, where a driver has
 * room for them.
 */
typedef struct sattn_cuda_grid {
  uint64_t blocks;
  uint32_t threads;
  uint32_t shared_bytes;
} sattn_cuda_grid;

sattn_status sattn_cuda_chain_begin(sattn_cuda_chain *chain, sattn_context *context, const sattn_submission *submission,
                                    sattn_profile *profile, sattn_error *error);

/* What the following launches count as; waits only when profiling. */
sattn_status sattn_cuda_chain_stage(sattn_cuda_chain *chain, sattn_stage stage, sattn_error *error);

/* Launches a kernel whose only parameter is the struct at `params`. A grid of no blocks launches nothing. */
sattn_status sattn_cuda_chain_launch(sattn_cuda_chain *chain, sattn_cu_function kernel, const sattn_cuda_grid *grid, void *params,
                                     sattn_error *error);

/* Records the event that ends the chain, if one was asked for and `status` is SATTN_OK, and pops the context. Returns the first failure. */
sattn_status sattn_cuda_chain_end(sattn_cuda_chain *chain, sattn_status status, sattn_error *error);

sattn_status sattn_cuda_event_wait(sattn_context *context, sattn_event event, sattn_error *error);
void sattn_cuda_event_release(sattn_context *context, sattn_event *event);

#endif
