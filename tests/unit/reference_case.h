/* A call on the reference backend with every array in double: the storage type that exists only inside (reference_array.h). Below the
 * public API, so that differences of the result can be taken to many digits. */
#ifndef TEST_REFERENCE_CASE_H
#define TEST_REFERENCE_CASE_H

#include "call.h"
#include "objects.h"

typedef struct reference_case {
  const test_call *call;
  sattn_context context;
  sattn_plan plan;
  sattn_permutation permutation;
  double *input[TEST_INPUTS];   /* copies of the call's; change them at will. NULL: not given */
  double *output[TEST_OUTPUTS]; /* NULL: the call has none */
  uint32_t *selected;
  double *y_sa, *y_swa;
  sattn_saved saved;
  void *workspace;
  sattn_buffer buffer[TEST_INPUTS + TEST_OUTPUTS + 8];
  int buffers;
} reference_case;

/* Memory comes from test_memory. The call's order may be NULL: it is drawn from its key. */
void reference_case_open(const test_call *call, reference_case *c);

void reference_case_forward(reference_case *c);
/* After forward. */
void reference_case_backward(reference_case *c);

size_t reference_case_count(const test_call *call, test_input input);

#endif
