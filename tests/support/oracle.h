/* What is right: a dense double-precision computation of one call, written from the contract alone and from nothing of the library.
 *
 * It looks at every (query, key) pair, so it is for small problems. Permutations are drawn here too.
 */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include "call.h"

typedef struct test_oracle_result {
  double *output[TEST_OUTPUTS]; /* packed; NULL: the call has none */
  double size[TEST_OUTPUTS];    /* gradients: largest entry of the same gradient computed with absolute values */
  double score;                 /* largest |scale| * sum |Q||K| over visible pairs */
} test_oracle_result;

/* What is rounded to the dtype, once. */
typedef enum test_rounding {
  TEST_EXACT,
  TEST_ROUND_ALL,   /* P, dS, the branches of GATED and the outputs */
  TEST_ROUND_STORED /* the branches of GATED and the outputs: what lies in memory between forward and backward */
} test_rounding;

/* Forward and, if call->backward, backward. */
void test_oracle(const test_call *call, test_rounding rounding, test_oracle_result *result);

/* The largest absolute error that contract section 8 allows for each output. Runs the rounded oracle for half types. */
void test_oracle_tolerances(const test_call *call, const test_oracle_result *exact, double tolerance[TEST_OUTPUTS]);

/* Smallest distance between the last selected and the first rejected block score of any query; infinity where there is no choice. */
double test_oracle_margin(const test_call *call);

/* The keys that query i of head h sees: sets seen[j] for j < n_k, returns how many. GATED: `band` picks the branch; else it is ignored. */
int64_t test_oracle_visible(const test_call *call, sattn_band band, int64_t b, int64_t h, int64_t i, unsigned char *seen);

/* order[slot] = token of permutation format version 1. */
void test_oracle_order(int64_t n, const sattn_permutation_key *key, uint32_t *order);

#endif
