/* One attention call as a plain description on the host: what the oracle computes, and what is run on a device.
 *
 * Arrays are fp32, packed, already rounded to the dtype that the device will get; memory comes from test_memory.
 */
#ifndef TEST_CALL_H
#define TEST_CALL_H

#include <sattn/sattn.h>

#include "compare.h"
#include "random.h"

typedef enum test_input {
  TEST_QUERY,
  TEST_KEY,
  TEST_VALUE,
  TEST_GATE_SA,
  TEST_GATE_SWA,
  TEST_SINK_LOGITS,
  TEST_GRAD_OUT,
  TEST_GRAD_LSE,
  TEST_GRAD_LSE_SA,
  TEST_GRAD_LSE_SWA,
  TEST_INPUTS
} test_input;

typedef enum test_output {
  TEST_OUT,
  TEST_LSE,
  TEST_LSE_SA,
  TEST_LSE_SWA,
  TEST_GRAD_QUERY,
  TEST_GRAD_KEY,
  TEST_GRAD_VALUE,
  TEST_GRAD_GATE_SA,
  TEST_GRAD_GATE_SWA,
  TEST_GRAD_SINK_LOGITS,
  TEST_OUTPUTS
} test_output;

/* How the rows of a [B, n, H, d] array lie in memory. */
typedef enum test_layout {
  TEST_BNHD, /* packed, strides left at zero */
  TEST_BHND, /* head-major */
  TEST_GAPS, /* poison between heads, tokens and batches */
  TEST_QKV   /* query, key and value: slices of one [B, n, H + 2 H_kv, d] buffer; needs n_q = n_k */
} test_layout;

typedef struct test_call {
  sattn_attention attention;
  sattn_sizes sizes;
  sattn_sizes maxima; /* of the plan; all zero: the sizes */
  sattn_permutation_key key;
  const uint32_t *order; /* [order_count][order_size] or NULL */
  int64_t order_count;
  int64_t order_size;
  const float *input[TEST_INPUTS]; /* NULL: not given */
  const int32_t *lengths;
  const int32_t *query_start;

  /* --- how it is run --- */
  int backward;
  test_layout layout[3]; /* query (and out, gradients of both), key, value */
  int64_t offset;        /* elements before the first one of every array, beyond an aligned start */
  int wrap;              /* host memory in place, where the device shares it */
} test_call;

typedef struct test_result {
  float *output[TEST_OUTPUTS]; /* packed fp32; NULL: the call has none */
} test_result;

/* "out", "lse", "lse-sa" ..., the words of the vector folders. */
const char *test_output_name(test_output output);

/* A call with every option at its default; a window of 1/4 of the keys (at least 1) where the mode wants one, blocks of 8 and topk 2. */
void test_call_init(test_call *call, sattn_mode mode, int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t kv_heads,
                    int64_t head_dim);

/* Draws every input that the description asks for. MOBA's are redrawn until no selection hangs on a near tie. */
void test_call_fill(test_call *call, test_random *random, double spread);

/* Draws dO and, if with_lse, dLSE, and asks for backward. */
void test_call_fill_gradients(test_call *call, test_random *random, int with_lse);

/* A copy of an array that the caller may change; `call` then points to it. */
float *test_call_edit(test_call *call, test_input input);

int test_call_has_output(const test_call *call, test_output output);
test_shape test_input_shape(const test_call *call, test_input input);
test_shape test_output_shape(const test_call *call, test_output output);
sattn_dtype test_input_dtype(const test_call *call, test_input input);
sattn_dtype test_output_dtype(const test_call *call, test_output output);

int test_mode_uses_sa(sattn_mode mode);
int test_mode_uses_swa(sattn_mode mode);

#endif
