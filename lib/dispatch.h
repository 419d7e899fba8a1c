/* Choosing one of several ways to compute something: an ordered list, fastest first; the first that can do the problem is taken, and every
 * refusal says why. Shared by the backends that have more than one way.
 */
#ifndef SATTN_LIB_DISPATCH_H
#define SATTN_LIB_DISPATCH_H

#include "objects.h"

#define SATTN_REASON_BYTES 160

/* The part of an implementation that choosing needs. A backend's own struct has it as its first member. */
typedef struct sattn_implementation {
  const char *name;           /* plan_info.forward_kernel, backward_kernel */
  sattn_kernel_family family; /* SATTN_KERNELS_GENERAL is tried whatever family was asked for */
  sattn_path path;
  sattn_pass pass;
  const char *apart; /* why plans that also differentiate do without it; NULL: they need not */

  /* Whether it can do all calls within the maxima. If not, writes one clause why (SATTN_REASON_BYTES), such as
   * "head_dim 72 is none of 64, 80, 96, 128, 256". Depends on device, problem and maxima only, and must tell the truth: what it says yes to
   * runs. */
  bool (*supports)(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason);

  /* Bytes of workspace for one call at the maxima. Carve it with sattn_carve, in the same order here and when enqueueing. */
  uint64_t (*workspace)(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima);
} sattn_implementation;

typedef struct sattn_dispatch {
  const sattn_context *context;
  sattn_kernel_family family; /* the family that the device prefers, or that the context was told to use */
  const sattn_implementation *const *list;
  size_t count;
} sattn_dispatch;

/* What each pass got; NULL: not asked for. */
typedef struct sattn_choice {
  const sattn_implementation *forward;
  const sattn_implementation *backward;
} sattn_choice;

/* Walks the list for each pass asked for, fills the choice and, of `info`, paths, kernel names, workspaces and reason. SATTN_UNSUPPORTED,
 * with all reasons, where no implementation can. */
sattn_status sattn_dispatch_choose(const sattn_dispatch *dispatch, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                                   sattn_choice *out_choice, sattn_plan_info *info, sattn_error *error);

/* Takes rows * entries * element bytes from a workspace: returns their offset and moves *end behind them. Offsets are multiples of 256, as
 * good as any device wants. Start with *end = 0 to ask for the size, or = args->workspace_offset to place arrays. What does not fit in 64
 * bits makes *end UINT64_MAX for good, which no plan accepts. */
uint64_t sattn_carve(uint64_t *end, uint64_t rows, uint64_t entries, uint64_t element);

/* Bytes of query, key and LSE arrays at the maxima; UINT64_MAX where they do not fit in 64 bits. For the device's single-allocation limit.
 */
typedef struct sattn_array_bytes {
  uint64_t query, key, lse;
} sattn_array_bytes;

sattn_array_bytes sattn_problem_array_bytes(const sattn_problem *problem, const sattn_sizes *maxima);

#endif
