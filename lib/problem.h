/* A description after validation: every default applied, every width turned into sides. What backends read. */
#ifndef SATTN_LIB_PROBLEM_H
#define SATTN_LIB_PROBLEM_H

#include <stdbool.h>

#include <sattn/attention.h>
#include <sattn/plan.h>

#include "error.h"

typedef struct sattn_problem {
  sattn_mode mode;
  sattn_dtype dtype;
  int32_t heads;
  int32_t kv_heads;
  int32_t group; /* heads / kv_heads */
  int32_t head_dim;
  bool causal;
  bool uses_sa; /* the mode has an SA band: STOCHASTIC, UNION, GATED */
  bool uses_swa;
  /* Sides of the bands; unbounded and anything larger is INT32_MAX, so that slot differences (below 2^31 in size) compare in 32 bits. */
  int32_t left_sa, right_sa;
  int32_t left_swa, right_swa;
  bool wrap;
  int32_t order_length; /* 0: slots of the existing tokens only */
  sattn_sharing sharing;
  int32_t sink_tokens;
  int32_t block, topk;
  float scale;   /* never 0 */
  float softcap; /* 0: off */
  sattn_gate_shape gate_sa_shape, gate_swa_shape;
  sattn_dtype gate_dtype;
  bool has_lengths, has_query_start, has_sink_logits;
} sattn_problem;

/* Validates a description (sattn_attention_validate) and resolves it. */
sattn_status sattn_problem_resolve(const sattn_attention *attention, sattn_problem *out_problem, sattn_error *error);

/* 0 <= queries <= keys < 2^31, batch >= 0, order_length >= keys; no product of sizes overflows. `name` is the argument in messages. */
sattn_status sattn_sizes_validate(const char *name, const sattn_sizes *sizes, const sattn_problem *problem, sattn_error *error);

#endif
