/* A small valid call of any mode on the reference backend, every array in a buffer of its own, outputs filled with a pattern. */
#ifndef TEST_PLAN_CASE_H
#define TEST_PLAN_CASE_H

#include "objects.h"

#include "unit.h"

enum {
  CASE_BATCH = 2,
  CASE_QUERIES = 3,
  CASE_KEYS = 4,
  CASE_HEADS = 2,
  CASE_DIM = 5,
  CASE_BYTES = 4096,
  CASE_BUFFERS = 32,
  CASE_PATTERN = 0xa5
};

typedef struct plan_case {
  sattn_context *context;
  sattn_attention attention;
  sattn_plan *plan;
  sattn_plan *other_plan;
  sattn_permutation *permutation;
  sattn_context *other_context;
  sattn_buffer *foreign; /* of the other context */
  sattn_buffer *workspace;
  sattn_saved saved;
  sattn_forward_args forward;
  sattn_backward_args backward;
  int buffers;
  sattn_buffer *buffer[CASE_BUFFERS]; /* all of CASE_BYTES bytes */
} plan_case;

/* Optional arrays (lengths, query_start, sink logits) are all present where `options` is set. */
void plan_case_open(plan_case *c, sattn_mode mode, bool options);
void plan_case_close(plan_case *c);

/* A fresh buffer that holds the pattern. */
sattn_buffer *plan_case_buffer(plan_case *c);

/* Fails the test if any byte of the buffer is not the pattern. */
void plan_case_untouched(const sattn_buffer *buffer);

#endif
