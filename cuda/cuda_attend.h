/* One way to compute attention on a CUDA device. A plan walks the list of cuda_plan.c, fastest first, and takes the first that can.
 *
 * To add one: write cuda_attend_<name>.c with `const sattn_cuda_attend sattn_cuda_attend_<name>`, declare it below and put it in the list.
 */
#ifndef SATTN_CUDA_ATTEND_H
#define SATTN_CUDA_ATTEND_H

#include "cuda_event.h"
#include "dispatch.h"

typedef struct sattn_cuda_attend {
  sattn_implementation common;

  /* Bytes of what a plan keeps of it: zeroed for prepare, then handed to the functions below. */
  size_t state_bytes;

  /* Gets programs and kernels. Runs between sattn_cuda_enter and _leave, as destroy does. What a failure leaves half made goes to destroy,
   * which is NULL where there is nothing to release: kernels belong to the context's programs. */
  sattn_status (*prepare)(const sattn_plan *plan, void *state, sattn_error *error);
  void (*destroy)(sattn_context *context, void *state);

  /* Enqueues one call. Kernel parameters are copied at launch, so nothing is locked. No allocation, no waiting, no driver object but
   * events. Exactly one is set: enqueue_forward for SATTN_PASS_FORWARD. */
  sattn_status (*enqueue_forward)(const sattn_plan *plan, void *state, const sattn_forward_args *args, sattn_cuda_chain *chain,
                                  sattn_error *error);
  sattn_status (*enqueue_backward)(const sattn_plan *plan, void *state, const sattn_backward_args *args, sattn_cuda_chain *chain,
                                   sattn_error *error);
} sattn_cuda_attend;

/* Makes the state that a plan keeps. On failure *out_state is NULL and nothing is left behind. */
sattn_status sattn_cuda_attend_open(const sattn_cuda_attend *attend, const sattn_plan *plan, void **out_state, sattn_error *error);

/* `state` may be NULL. */
void sattn_cuda_attend_close(const sattn_cuda_attend *attend, sattn_context *context, void *state);

extern const sattn_cuda_attend sattn_cuda_attend_mma;
extern const sattn_cuda_attend sattn_cuda_attend_fp32;
extern const sattn_cuda_attend sattn_cuda_attend_general;
extern const sattn_cuda_attend sattn_cuda_attend_mma_grad;
extern const sattn_cuda_attend sattn_cuda_attend_general_grad;

#endif
