/* One way to compute attention on an OpenCL device. A plan walks the list of cl_plan.c, fastest first, and takes the first that can.
 *
 * To add one: write cl_attend_<name>.c with `const sattn_cl_attend sattn_cl_attend_<name>`, declare it below and put it in the list.
 */
#ifndef SATTN_CL_ATTEND_H
#define SATTN_CL_ATTEND_H

#include "cl_event.h"

#define SATTN_CL_REASON_BYTES 160

typedef struct sattn_cl_attend {
  const char *name;           /* plan_info.forward_kernel, backward_kernel */
  sattn_kernel_family family; /* SATTN_KERNELS_GENERAL is tried whatever family was asked for */
  sattn_path path;
  sattn_pass pass;

  /* Whether it can do all calls within the maxima. If not, writes one clause why, such as "head_dim 72 is none of 64, 80, 96, 128, 256".
   * Depends on device, problem and maxima only, and must tell the truth: what it says yes to runs. */
  bool (*supports)(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason);

  /* Bytes of workspace for one call at the maxima. Carve it with sattn_cl_carve, in the same order here and in enqueue. */
  uint64_t (*workspace)(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima);

  /* Gets programs, makes kernels, launches each once on an empty range, says sattn_cl_program_launched. *out_state is handed to the two
   * below. On failure nothing is left behind. */
  sattn_status (*prepare)(const sattn_plan *plan, void **out_state, sattn_error *error);
  void (*destroy)(sattn_context *context, void *state);

  /* Enqueues one call. The plan's lock is held, so kernels of `state` may be bound. No allocation, no waiting, no driver object but events.
   * Exactly one is set: enqueue_forward for SATTN_PASS_FORWARD. */
  sattn_status (*enqueue_forward)(const sattn_plan *plan, void *state, const sattn_forward_args *args, sattn_cl_chain *chain,
                                  sattn_error *error);
  sattn_status (*enqueue_backward)(const sattn_plan *plan, void *state, const sattn_backward_args *args, sattn_cl_chain *chain,
                                   sattn_error *error);
} sattn_cl_attend;

extern const sattn_cl_attend sattn_cl_attend_cpu;
extern const sattn_cl_attend sattn_cl_attend_general;

/* Takes `bytes` from a workspace: returns their offset and moves *end behind them. Offsets are multiples of 256, as good as any device
 * wants. Start with *end = 0 to ask for the size, or = args->workspace_offset to place arrays. */
static inline uint64_t sattn_cl_carve(uint64_t *end, uint64_t bytes) {
  uint64_t at = (*end + 255) / 256 * 256;
  *end = at + bytes;
  return at;
}

#endif
