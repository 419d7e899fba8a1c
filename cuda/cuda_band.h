/* The fast path of the forward pass on any of its kernels: a mode becomes one or two passes of band attention over an order.
 *
 *     FULL, SLIDING_WINDOW   one pass, identity order
 *                            few queries: keys shared out over thread blocks, partial results joined in fixed order
 *     STOCHASTIC             one pass over the permutation
 *     UNION                  SWA band with the sink tokens -> partial sums in the workspace; SA band, without keys of the first, goes on
 *     GATED                  SA band -> first branch; SWA band -> second branch, mixed with the first as it is written
 */
#ifndef SATTN_CUDA_BAND_H
#define SATTN_CUDA_BAND_H

#include "cuda_attend.h"
#include "cuda_permute.h"

/* The kernel for one dtype and head_dim. */
typedef struct sattn_cuda_band_kernel {
  char program[32], name[48];
  int32_t rows; /* of a tile: (query token, head) pairs */
  uint32_t shared_bytes;
} sattn_cuda_band_kernel;

typedef struct sattn_cuda_band_state {
  sattn_cuda_band_kernel kernel;
  sattn_cu_function attend;
  sattn_cu_function join; /* NULL where keys are never split */
  sattn_cuda_permute_kernels permute;
  void *general; /* for calls whose rows are not aligned */
} sattn_cuda_band_state;

/* What no fast kernel does: false, with a clause. `shared_bytes` is what a thread block of the kernel needs. */
bool sattn_cuda_band_supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t shared_bytes,
                              char *reason);

uint64_t sattn_cuda_band_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, int32_t rows);
sattn_status sattn_cuda_band_prepare(const sattn_plan *plan, const sattn_cuda_band_kernel *kernel, void *state, sattn_error *error);
void sattn_cuda_band_destroy(sattn_context *context, void *state);
sattn_status sattn_cuda_band_enqueue(const sattn_plan *plan, void *state, const sattn_forward_args *args, sattn_cuda_chain *chain,
                                     sattn_error *error);

/* ---- bands, for forward and backward ---- */

/* Whether rows, or an array, start at multiples of 16 bytes. The batch stride counts in a batch of one, too: what runs, and with it every
 * bit, must not depend on the batch. `width`: bytes of an element. */
bool sattn_cuda_band_rows_aligned(const sattn_tensor *tensor, int32_t heads, uint64_t width);
bool sattn_cuda_band_array_aligned(const sattn_array *array, uint64_t width);

/* A side of a window, at most as far as there are keys or slots. */
int32_t sattn_cuda_band_side(int32_t distance, int32_t most);

/* An SWA band over the identity order; in FULL one that holds everything. */
void sattn_cuda_band_use_positions(const sattn_problem *problem, sattn_cuda_band *band);

#endif
