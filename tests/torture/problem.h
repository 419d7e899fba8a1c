/* One random problem: numbers alone, so that it can be made smaller field by field. Arrays follow from `seed` element by element: a smaller
 * problem keeps the values at the places that are left.
 */
#ifndef TORTURE_PROBLEM_H
#define TORTURE_PROBLEM_H

#include "call.h"

typedef enum torture_garbage { GARBAGE_NONE, GARBAGE_NAN, GARBAGE_PLUS, GARBAGE_MINUS } torture_garbage;

/* Which rows the garbage lies in. */
enum { GARBAGE_IN_KEY = 1, GARBAGE_IN_VALUE = 2, GARBAGE_IN_QUERY = 4, GARBAGE_IN_GRAD_OUT = 8 };

/* How a problem is run. */
typedef enum torture_form { FORM_PLAN, FORM_HOST, FORM_TWICE } torture_form;

typedef struct torture_problem {
  uint64_t seed;
  int64_t mode, dtype, gate_dtype; /* of the enums */
  int64_t batch, queries, keys, heads, kv_heads, head_dim;
  int64_t causal, wrap, sharing, own_orders;
  sattn_window window_sa, window_swa;
  int64_t order_extra; /* -1: no order_length; else order_length = keys + this */
  int64_t sink_tokens, block, topk;
  double scale, softcap;
  int64_t gate_sa_shape, gate_swa_shape;
  int64_t lengths, query_start; /* 0 none, 1 in range, 2 some out of range (kernels clamp) */
  int64_t sink_logits;
  int64_t backward; /* 0, 1 with dO, 2 with dLSE as well */
  int64_t layout[3];
  int64_t offset;
  int64_t wrap_host;
  int64_t larger_plan; /* the plan is made for more than the call brings */
  int64_t spread;      /* of Q, K and V in tenths */
  int64_t garbage, garbage_in;
  int64_t form;
} torture_problem;

/* Problem `round` of a run. Neighbours share what makes drivers compile: mode, dtype, head_dim, heads and the like. */
void torture_draw(uint64_t seed, int64_t round, torture_problem *out_problem);

/* Makes a problem valid that drawing or shrinking left inconsistent. */
void torture_fix(torture_problem *problem);

/* The call with its arrays (test_memory). `tame` differs from `call` where lengths or query_start are out of range: what the kernels
 * must make of it. */
void torture_expand(torture_problem *problem, test_call *call, test_call *tame);

/* 1 where row (b, token) of K and V, or of Q and dO, holds garbage. */
int torture_garbage_key(const torture_problem *problem, int64_t b, int64_t token);
int torture_garbage_query(const torture_problem *problem, int64_t b, int64_t token);

#endif
