/* Format version 1: tokens sorted by (64-bit sort key, token).
 *
 * The keys are uniform random numbers, so one pass over their top bits spreads n tokens over about n buckets of about one token each, and
 * an insertion sort inside each bucket ends the work: O(n). Both steps are stable, so that equal keys stay in the order of tokens.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "objects.h"
#include "philox.h"

typedef struct scratch {
  uint64_t *keys;  /* [n] */
  uint32_t *ends;  /* [buckets]: where the next token of a bucket goes */
  uint32_t *order; /* [n], only where the caller gave none */
  uint32_t shift;  /* bucket of a key = key >> shift */
  size_t buckets;
} scratch;

static void free_scratch(scratch *work) {
  free(work->keys);
  free(work->ends);
  free(work->order);
}

/* At most n buckets, so that 8 n + 4 n + 4 n bytes are enough. n >= 1. */
static bool make_scratch(size_t n, bool wants_order, scratch *work) {
  uint32_t bits = 0;
  while (((size_t)2 << bits) <= n) ++bits;
  memset(work, 0, sizeof *work);
  work->buckets = (size_t)1 << bits;
  work->shift = 64 - bits; /* 64 for a single bucket: never used as a shift, see bucket_of */
  work->keys = malloc(n * sizeof *work->keys);
  work->ends = calloc(work->buckets, sizeof *work->ends);
  if (wants_order) work->order = malloc(n * sizeof *work->order);
  return work->keys != NULL && work->ends != NULL && (!wants_order || work->order != NULL);
}

static size_t bucket_of(uint64_t key, uint32_t shift) {
  return shift == 64 ? 0 : (size_t)(key >> shift);
}

static void make_keys(size_t n, const sattn_permutation_key *key, uint64_t *keys) {
  for (size_t token = 0; token < n; ++token)
    keys[token] = sattn_sort_key((uint32_t)token, key->seed, key->layer, key->substream, key->step);
}

/* Turns counts into first places. */
static void count_buckets(size_t n, scratch *work) {
  for (size_t token = 0; token < n; ++token) ++work->ends[bucket_of(work->keys[token], work->shift)];
  uint32_t place = 0;
  for (size_t i = 0; i < work->buckets; ++i) {
    uint32_t count = work->ends[i];
    work->ends[i] = place;
    place += count;
  }
}

static void sort_bucket(const uint64_t *keys, uint32_t *order, size_t first, size_t end) {
  for (size_t i = first + 1; i < end; ++i) {
    uint32_t token = order[i];
    size_t place = i;
    for (; place > first && keys[order[place - 1]] > keys[token]; --place) order[place] = order[place - 1];
    order[place] = token;
  }
}

static void sort_tokens(size_t n, scratch *work, uint32_t *order) {
  count_buckets(n, work);
  for (size_t token = 0; token < n; ++token) order[work->ends[bucket_of(work->keys[token], work->shift)]++] = (uint32_t)token;
  size_t first = 0;
  for (size_t i = 0; i < work->buckets; ++i) {
    sort_bucket(work->keys, order, first, work->ends[i]);
    first = work->ends[i];
  }
}

sattn_status sattn_permutation_draw(int64_t n, const sattn_permutation_key *key, uint32_t *order, uint32_t *slot, sattn_error *out_error) {
  if (n < 0 || n > INT32_MAX) {
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "n", "n is %" PRId64 ": the number of tokens must be 0 to 2147483647", n);
  }
  if (key == NULL) return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "key", "key is NULL: it must name a permutation");
  size_t count = (size_t)n;
  if (count == 0 || (order == NULL && slot == NULL)) return SATTN_OK;
  scratch work;
  if (!make_scratch(count, order == NULL, &work)) {
    free_scratch(&work);
    return sattn_fail(out_error, SATTN_OUT_OF_MEMORY, "n", "n is %" PRId64 ": the host has no %" PRIu64 " bytes to sort so many tokens", n,
                      (uint64_t)n * 16);
  }
  uint32_t *target = order != NULL ? order : work.order;
  make_keys(count, key, work.keys);
  sort_tokens(count, &work, target);
  if (slot != NULL) {
    for (size_t i = 0; i < count; ++i) slot[target[i]] = (uint32_t)i;
  }
  free_scratch(&work);
  return SATTN_OK;
}
