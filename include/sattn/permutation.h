/* Random orders of tokens, format version 1, and the objects that hold them on a device.
 *
 *     order[slot] = token        slot[token] = slot        both uint32
 *
 * The order is the tokens 0..n-1 sorted by (sort key, token). The sort key of a token is a 64-bit number that Philox4x32-10 makes from
 * (seed; token, step, layer, substream). It is a pure function of these numbers: the same on every backend, device, thread and process,
 * for ever (SATTN_PERMUTATION_VERSION). Dropping the tokens >= m from the order for n gives the order for m.
 *
 * Source: contract section 3; paper section "method" (one permutation per layer).
 */
#ifndef SATTN_PERMUTATION_H
#define SATTN_PERMUTATION_H

#include <sattn/device.h>

SATTN_BEGIN_DECLS

/* What names a permutation. All zero is valid and names one. */
typedef struct sattn_permutation_key {
  uint64_t seed;
  uint32_t layer;
  uint32_t substream; /* anything else the caller wants apart */
  uint32_t step;      /* for a fresh draw per training step */
} sattn_permutation_key;

/* Draws on the host, without any context. n: 0 .. 2^31-1. order and slot hold n entries each; either may be NULL.
 * Takes O(n) time and 16 n bytes of temporary memory. Thread-safety: safe. */
SATTN_API sattn_status sattn_permutation_draw(int64_t n, const sattn_permutation_key *key, uint32_t *order, uint32_t *slot,
                                              sattn_error *out_error);

/* Whether the call has one permutation, or one per key/value head, per batch entry, or both. */
typedef enum sattn_sharing {
  SATTN_SHARED = 0,   /* one for the whole call (default; the paper's form) */
  SATTN_PER_HEAD = 1, /* one per key/value head */
  SATTN_PER_BATCH = 2,
  SATTN_PER_BATCH_AND_HEAD = 3 /* batch outer, head inner */
} sattn_sharing;

typedef struct sattn_permutation_options {
  size_t struct_size;
  /* Tokens that the permutation orders: the call's n_k, or, where the attention has an order_length, exactly that. Required; 0 is a
   * permutation of nothing. */
  int64_t length;
  sattn_sharing sharing;     /* default SATTN_SHARED */
  int64_t batch;             /* needed where sharing is per batch; default 1 */
  int64_t kv_heads;          /* needed where sharing is per head; default 1 */
  sattn_permutation_key key; /* default all zero; entry `index` of a shared-out permutation uses substream + index modulo 2^32 */
  /* Instead of key: the caller's orders, [count][length] row-major, count = 1, kv_heads, batch or batch * kv_heads as `sharing` says.
   * Copied. Every row must be a permutation of 0..length-1; the message names the first bad entry. NULL (default): draw from key. */
  const uint32_t *order;
} sattn_permutation_options;

SATTN_API void sattn_permutation_options_init(sattn_permutation_options *options);

/* Permutations on a context's device. Immutable but for sattn_permutation_redraw. Serves any number of plans, forward and backward.
 * Ownership: the creator's; must live until every call that uses it is complete, and, for training, until backward is.
 * Thread-safety: safe while nobody redraws it. */
typedef struct sattn_permutation sattn_permutation;

/* Draws or copies and uploads; blocks until done. Where a device has memory of its own and the orders are long (65536 tokens and more),
 * they are drawn and sorted there; SATTN_DRAW=host or =device in the environment decides otherwise. The bits are the same. */
SATTN_API sattn_status sattn_permutation_create(sattn_context *context, const sattn_permutation_options *options,
                                                sattn_permutation **out_permutation, sattn_error *out_error);
SATTN_API void sattn_permutation_destroy(sattn_permutation **permutation);

/* Draws anew for another key into the same memory; blocks until done. No call in flight may be using the permutation. What a forward call
 * saved before no longer matches afterwards, and backward refuses it. */
SATTN_API sattn_status sattn_permutation_redraw(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *out_error);

SATTN_API int64_t sattn_permutation_length(const sattn_permutation *permutation);
SATTN_API int64_t sattn_permutation_count(const sattn_permutation *permutation);
SATTN_API sattn_sharing sattn_permutation_sharing(const sattn_permutation *permutation);

/* Order number `index` (0 <= index < count), `length` entries; borrowed. NULL when index is out of range. */
SATTN_API const uint32_t *sattn_permutation_order(const sattn_permutation *permutation, int64_t index);

/* A 64-bit digest of sharing, length and all orders. Equal permutations have equal hashes in every process. */
SATTN_API uint64_t sattn_permutation_hash(const sattn_permutation *permutation);

SATTN_END_DECLS

#endif
