/* Small kernels that stand alone: rows into slot order and back, and the merge of partial attention results.
 *
 * gather_rows and scatter_rows let SA run on somebody else's window kernel: gather Q, K, V, attend to a window, scatter the result.
 * merge joins two results over disjoint sets of keys: split keys, shared prefixes, ring attention.
 * Their programs are built at the first call of a context (or by sattn_rows_prepare). Source: contract section 7, last paragraph.
 */
#ifndef SATTN_ROWS_H
#define SATTN_ROWS_H

#include <sattn/attention.h>
#include <sattn/buffer.h>

SATTN_BEGIN_DECLS

/* Arrays are [batch, tokens, heads, head_dim] of `dtype`. The permutation has length `tokens`; where its sharing is per head, it has one
 * order for each of `heads` heads. */
typedef struct sattn_rows_args {
  size_t struct_size;
  sattn_dtype dtype;
  int64_t batch;
  int64_t tokens;
  int64_t heads;
  int64_t head_dim;
  const sattn_permutation *permutation;
  sattn_tensor source;
  sattn_tensor target; /* must not overlap source */
} sattn_rows_args;

SATTN_API void sattn_rows_args_init(sattn_rows_args *args);

/* Builds the programs of this header now, so that no later call compiles. */
SATTN_API sattn_status sattn_rows_prepare(sattn_context *context, sattn_error *out_error);

/* target[b, s, h] = source[b, order[s], h]. Asynchronous, as sattn_forward. */
SATTN_API sattn_status sattn_gather_rows(sattn_context *context, const sattn_rows_args *args, sattn_queue queue,
                                         const sattn_event *wait_list, size_t wait_count, sattn_event *out_event, sattn_error *out_error);

/* target[b, order[s], h] = source[b, s, h]: undoes gather_rows. */
SATTN_API sattn_status sattn_scatter_rows(sattn_context *context, const sattn_rows_args *args, sattn_queue queue,
                                          const sattn_event *wait_list, size_t wait_count, sattn_event *out_event, sattn_error *out_error);

/* LSE = log(exp LSE_a + exp LSE_b), O = exp(LSE_a - LSE) O_a + exp(LSE_b - LSE) O_b. A part with LSE = -infinity contributes nothing,
 * whatever its O holds; two such parts give O = 0, LSE = -infinity. out may be the same tensor as out_a or out_b, and lse as lse_a or
 * lse_b. */
typedef struct sattn_merge_args {
  size_t struct_size;
  sattn_dtype dtype;
  int64_t batch;
  int64_t queries;
  int64_t heads;
  int64_t head_dim;
  sattn_tensor out_a;
  sattn_array lse_a; /* fp32 [batch, heads, queries], as are the other two */
  sattn_tensor out_b;
  sattn_array lse_b;
  sattn_tensor out;
  sattn_array lse; /* optional */
} sattn_merge_args;

SATTN_API void sattn_merge_args_init(sattn_merge_args *args);
SATTN_API sattn_status sattn_merge(sattn_context *context, const sattn_merge_args *args, sattn_queue queue, const sattn_event *wait_list,
                                   size_t wait_count, sattn_event *out_event, sattn_error *out_error);

SATTN_END_DECLS

#endif
