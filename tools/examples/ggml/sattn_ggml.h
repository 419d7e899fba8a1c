/* Attention of this library as a node of a ggml graph on the CPU. Copy this file pair into your program.
 *
 * The node takes the tensors that ggml_flash_attn_ext takes and gives what it gives:
 *
 *     q    F32         [head_dim, n_q,  heads,    batch]
 *     k, v F16 or F32  [head_dim, n_kv, kv_heads, batch]     views into a key/value cache of any strides; nothing is copied
 *     ->   F32         [head_dim, heads, n_q, batch]
 *
 * The last query stands on the last key, so n_kv must be the tokens in the cache, not a number padded upwards; no mask tensor is needed.
 */
#ifndef SATTN_GGML_H
#define SATTN_GGML_H

#include <ggml.h>
#include <sattn/sattn.h>

/* One attention of one or more layers of equal shape: plan, permutation and workspace. A graph node borrows it. */
typedef struct sattn_ggml {
  sattn_context *context;
  sattn_plan *plan;
  sattn_permutation *permutation; /* NULL in modes without an order */
  sattn_buffer *workspace;
  sattn_dtype dtype;
  sattn_error error; /* of the first call that failed since it was opened; status SATTN_OK: none did. Operators cannot return one. */
} sattn_ggml;

/* `cache` is the type of k and v. With an order, attention->order_length must be set to the longest context: then what an earlier token
 * sees does not change as the cache grows, and prefill and decode agree. The device must share the host's memory. */
sattn_status sattn_ggml_open(sattn_ggml *state, const char *device, const sattn_attention *attention, enum ggml_type cache,
                             const sattn_sizes *largest, const sattn_permutation_key *key, sattn_error *error);
void sattn_ggml_close(sattn_ggml *state);

struct ggml_tensor *sattn_ggml_attention(struct ggml_context *graph, sattn_ggml *state, struct ggml_tensor *q, struct ggml_tensor *k,
                                         struct ggml_tensor *v);

#endif
