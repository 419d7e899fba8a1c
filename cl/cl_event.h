/* One asynchronous call as a chain of commands.
 *
 *     wait list -> launch -> launch -> ... -> out event
 *
 * On an out-of-order queue every command waits for the one before it; an in-order queue needs no events but the first wait list and the
 * last event. Nothing here allocates host memory.
 *
 *     sattn_cl_chain chain;
 *     status = sattn_cl_chain_begin(&chain, context, submission, profile, error);
 *     ... sattn_cl_chain_stage, sattn_cl_chain_launch ...
 *     status = sattn_cl_chain_end(&chain, status, error);      always, whatever happened between
 */
#ifndef SATTN_CL_EVENT_H
#define SATTN_CL_EVENT_H

#include "backend.h"
#include "cl_context.h"
#include "stage.h"

#define SATTN_CL_WAIT_CHUNK 32

typedef struct sattn_cl_chain {
  sattn_context *context;
  sattn_cl_context *cl;
  cl_command_queue queue;
  sattn_event *out_event; /* where the last event goes; may be NULL */
  bool in_order;
  bool launched;
  /* What the next command waits for. The first entry is owned if owns_first, the others are the caller's. */
  cl_event waits[SATTN_CL_WAIT_CHUNK];
  cl_uint wait_count;
  bool owns_first;
  sattn_stopwatch watch;
} sattn_cl_chain;

/* Refuses a queue of another context or device. `profile` NULL: stages are not timed; else it is reset, and every stage is waited for. */
sattn_status sattn_cl_chain_begin(sattn_cl_chain *chain, sattn_context *context, const sattn_submission *submission, sattn_profile *profile,
                                  sattn_error *error);

/* The next command also waits for `event`, which must stay the caller's until then. NULL is allowed. */
sattn_status sattn_cl_chain_wait(sattn_cl_chain *chain, cl_event event, sattn_error *error);

/* What the following commands count as. */
sattn_status sattn_cl_chain_stage(sattn_cl_chain *chain, sattn_stage stage, sattn_error *error);

/* Enqueues a kernel whose arguments are set. `local` has `dimensions` entries; `global` is rounded up to multiples of it. */
sattn_status sattn_cl_chain_launch(sattn_cl_chain *chain, cl_kernel kernel, cl_uint dimensions, const size_t *global, const size_t *local,
                                   sattn_error *error);

/* The caller's queue and the events that a foreign library (CLBlast) must wait for are made one: afterwards commands enqueued in the queue
 * by anybody run after everything in the chain so far. */
sattn_status sattn_cl_chain_barrier(sattn_cl_chain *chain, sattn_error *error);

/* Takes over the event of a command that somebody else enqueued as the chain's last; NULL is allowed. */
void sattn_cl_chain_adopt(sattn_cl_chain *chain, cl_event event);

/* Flushes and hands the last event out, if `status` is SATTN_OK; releases everything in any case. Returns the first failure. */
sattn_status sattn_cl_chain_end(sattn_cl_chain *chain, sattn_status status, sattn_error *error);

/* Work-items along one axis of a grid for `count` items: a multiple of `local`, at least one group, at most 32768 groups. Kernels walk each
 * axis in strides of get_global_size, so fewer work-items than items are right too. (PoCL compiles a kernel a second time for grids of more
 * than 65535 groups along an axis, which would happen at execution.) */
static inline size_t sattn_cl_axis(int64_t count, size_t local) {
  uint64_t groups = ((uint64_t)count + local - 1) / local;
  return (size_t)(groups == 0 ? 1 : groups > 32768 ? 32768 : groups) * local;
}

sattn_status sattn_cl_event_wait(sattn_context *context, sattn_event event, sattn_error *error);
void sattn_cl_event_release(sattn_context *context, sattn_event *event);

#endif
