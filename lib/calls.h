/* Validation of forward and backward calls, apart from running them: the one-call form checks both passes before it runs the first. */
#ifndef SATTN_LIB_CALLS_H
#define SATTN_LIB_CALLS_H

#include "backend.h"

/* A forward call that may be run: own copies, strides resolved. args.saved points to `saved`, or is NULL; the caller's struct stays apart.
 */
typedef struct sattn_forward_call {
  sattn_forward_args args;
  sattn_saved saved;
  bool empty; /* nothing to enqueue */
} sattn_forward_call;

typedef struct sattn_backward_call {
  sattn_backward_args args; /* args.saved points to `saved` */
  sattn_saved saved;
  bool empty;
} sattn_backward_call;

/* `call` is written even where the check fails, and must not be moved afterwards: it points into itself. */
sattn_status sattn_forward_check(const sattn_plan *plan, const sattn_forward_args *args, sattn_forward_call *call, sattn_error *error);
sattn_status sattn_backward_check(const sattn_plan *plan, const sattn_backward_args *args, sattn_backward_call *call, sattn_error *error);

/* What forward leaves in the caller's sattn_saved. */
void sattn_saved_fill(const sattn_plan *plan, const sattn_forward_args *args, sattn_saved *saved);

/* The permutation that the problem needs at these sizes, or NULL where it has none. */
sattn_status sattn_permutation_check(const sattn_plan *plan, const sattn_sizes *sizes, const sattn_permutation *permutation,
                                     sattn_error *error);

/* Wait list and receiving event of an asynchronous call. */
sattn_status sattn_submission_check(const sattn_event *wait_list, size_t wait_count, sattn_error *error);

/* Elements per (batch, query, head) of a gate. */
int64_t sattn_gate_width(const sattn_problem *problem, sattn_gate_shape shape);

#endif
