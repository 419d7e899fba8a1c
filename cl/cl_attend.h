/* One way to compute attention on an OpenCL device. A plan walks the list of cl_plan.c, fastest first, and takes the first that can.
 *
 * To add one: write cl_attend_<name>.c with `const sattn_cl_attend sattn_cl_attend_<name>`, declare it below and put it in the list.
 */
#ifndef SATTN_CL_ATTEND_H
#define SATTN_CL_ATTEND_H

#include "cl_event.h"
#include "dispatch.h"

typedef struct sattn_cl_attend {
  sattn_implementation common;

  /* Bytes of what a plan keeps of it: zeroed for prepare, then handed to the functions below. */
  size_t state_bytes;

  /* Gets programs, makes kernels, launches each once on an empty range, says sattn_cl_program_launched. What a failure leaves half made
   * goes to destroy. */
  sattn_status (*prepare)(const sattn_plan *plan, void *state, sattn_error *error);
  void (*destroy)(sattn_context *context, void *state);

  /* Enqueues one call. The plan's lock is held, so kernels of `state` may be bound. No allocation, no waiting, no driver object but events.
   * Exactly one is set: enqueue_forward for SATTN_PASS_FORWARD. */
  sattn_status (*enqueue_forward)(const sattn_plan *plan, void *state, const sattn_forward_args *args, sattn_cl_chain *chain,
                                  sattn_error *error);
  sattn_status (*enqueue_backward)(const sattn_plan *plan, void *state, const sattn_backward_args *args, sattn_cl_chain *chain,
                                   sattn_error *error);
} sattn_cl_attend;

/* Makes the state that a plan keeps. On failure *out_state is NULL and nothing is left behind. */
sattn_status sattn_cl_attend_open(const sattn_cl_attend *attend, const sattn_plan *plan, void **out_state, sattn_error *error);

/* `state` may be NULL. */
void sattn_cl_attend_close(const sattn_cl_attend *attend, sattn_context *context, void *state);

extern const sattn_cl_attend sattn_cl_attend_decode;
extern const sattn_cl_attend sattn_cl_attend_amx;
extern const sattn_cl_attend sattn_cl_attend_cpu;
extern const sattn_cl_attend sattn_cl_attend_cpu_grad;
extern const sattn_cl_attend sattn_cl_attend_gpu;
extern const sattn_cl_attend sattn_cl_attend_gpu_grad;
extern const sattn_cl_attend sattn_cl_attend_general;
extern const sattn_cl_attend sattn_cl_attend_general_grad;

#endif
