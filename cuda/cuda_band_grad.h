/* The fast backward pass: a mode becomes one or two passes of band attention over an order, each a kernel of dQ by tiles of queries and one
 * of dK and dV by tiles of keys.
 *
 *     all                    rows: delta and LSE of each (query, head), from O and dO
 *     FULL, SLIDING_WINDOW   one pass, identity order
 *     STOCHASTIC             one pass over the permutation
 *     UNION                  SWA band with the sink tokens -> sums in the workspace; SA band, without keys of the first, goes on. Both with
 *                            the LSE of the union
 *     GATED                  SA band with the first branch's LSE -> sums in the workspace; SWA band, with the second's, goes on
 */
#ifndef SATTN_CUDA_BAND_GRAD_H
#define SATTN_CUDA_BAND_GRAD_H

#include "cuda_attend.h"
#include "cuda_permute.h"

/* The kernels for one dtype and head_dim. */
typedef struct sattn_cuda_grad_kernels {
  char program[32];
  char query[48], key[48];
  char value[48];               /* empty: `key` does dV too */
  int32_t query_rows, key_rows; /* of a thread block */
  uint32_t query_shared, key_shared;
} sattn_cuda_grad_kernels;

typedef struct sattn_cuda_grad_state {
  sattn_cuda_grad_kernels kernels;
  sattn_cu_function rows, ranges, query, key, value, sinks;
  sattn_cuda_permute_kernels permute;
  void *general; /* for calls whose rows are not aligned, and those without queries */
} sattn_cuda_grad_state;

uint64_t sattn_cuda_band_grad_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima,
                                        int32_t query_rows, int32_t key_rows);
sattn_status sattn_cuda_band_grad_prepare(const sattn_plan *plan, const sattn_cuda_grad_kernels *kernels, void *state, sattn_error *error);
void sattn_cuda_band_grad_destroy(sattn_context *context, void *state);
sattn_status sattn_cuda_band_grad_enqueue(const sattn_plan *plan, void *state, const sattn_backward_args *args, sattn_cuda_chain *chain,
                                          sattn_error *error);

#endif
