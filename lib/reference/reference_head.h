/* What all queries of one batch entry and key/value head share: which tokens exist, their slots, their rows, their block means; and the
 * scratch memory of a call. */
#ifndef SATTN_REFERENCE_HEAD_H
#define SATTN_REFERENCE_HEAD_H

#include "objects.h"
#include "reference_permute.h"
#include "reference_softmax.h"
#include "reference_visible.h"

/* The arrays of a call that forward and backward have in common. */
typedef struct sattn_reference_inputs {
  const sattn_problem *problem;
  bool profiled;
  sattn_sizes sizes;
  const sattn_permutation *permutation;
  sattn_tensor query, key, value, gate_sa, gate_swa;
  sattn_array lengths, query_start, sink_logits;
} sattn_reference_inputs;

typedef struct sattn_reference_head {
  const sattn_reference_inputs *inputs;
  int64_t b, g;   /* batch entry and key/value head */
  int64_t tokens; /* that exist: lengths[b], clamped */
  int64_t start;  /* position of query 0: query_start[b], clamped */
  sattn_reference_slots slots;
  double *key, *value; /* [n_k, d]; filled up to `tokens` */
  float *mean;         /* MOBA: [blocks, d] */
  int64_t blocks;      /* MOBA */

  /* --- scratch for one row --- */
  sattn_reference_row row;
  float *score;       /* MOBA: [blocks] */
  uint32_t *selected; /* MOBA: [blocks] */

  double permute_seconds; /* spent on slots so far; only counted while the plan is profiled */

  /* --- backward only --- */
  double *grad_probability;      /* [n_k] one row */
  double *grad_key, *grad_value; /* [n_k, d] sums over the queries */
  double *grad_sink;             /* [H] sums over the batch */
} sattn_reference_head;

/* Bytes of workspace that a pass needs at these sizes. SATTN_OUT_OF_MEMORY when they exceed what one allocation may have. */
sattn_status sattn_reference_workspace(const sattn_problem *problem, const sattn_sizes *sizes, sattn_pass pass, uint64_t allowed,
                                       uint64_t *out_bytes, sattn_error *error);

/* Lays the arrays of `head` out in the workspace. */
void sattn_reference_head_begin(const sattn_reference_inputs *inputs, sattn_pass pass, void *workspace, sattn_reference_head *head);

/* A clock for profiling. */
double sattn_reference_seconds(void);

/* Writes the stages of a call that began at `start` into the plan's profile, if it is profiled. */
void sattn_reference_profile(const sattn_plan *plan, const sattn_reference_head *head, double start);

/* Goes to a batch entry and key/value head. */
void sattn_reference_head_enter(sattn_reference_head *head, int64_t b, int64_t g);

/* Position of query i, or -1 for an empty row. */
int64_t sattn_reference_position(const sattn_reference_head *head, int64_t i);

/* The logit of query head h, or -infinity. */
double sattn_reference_sink_logit(const sattn_reference_head *head, int64_t h);

/* One softmax of the query at `position`, into head->row. selected: see sattn_reference_visible. */
void sattn_reference_head_row(sattn_reference_head *head, sattn_reference_branch branch, int64_t h, int64_t position, const double *query,
                              const uint32_t *selected, int64_t selected_count);

#endif
