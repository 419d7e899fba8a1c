/* Which keys a query sees. Contract sections 2, 3 and 5, in their order. */
#include "oracle_visible.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* ---- permutation, version 1 ---- */

typedef struct drawn {
  uint64_t sort_key;
  uint32_t token;
} drawn;

static uint64_t sort_key(uint32_t token, const sattn_permutation_key *key) {
  uint32_t c[4] = {token, key->step, key->layer, key->substream};
  uint32_t k[2] = {(uint32_t)(key->seed & 0xffffffffu), (uint32_t)(key->seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    uint64_t p = (uint64_t)0xD2511F53u * c[0];
    uint64_t q = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t n[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
    memcpy(c, n, sizeof c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return (uint64_t)c[1] << 32 | c[0];
}

static int by_key_then_token(const void *a, const void *b) {
  const drawn *x = a;
  const drawn *y = b;
  if (x->sort_key != y->sort_key) return x->sort_key < y->sort_key ? -1 : 1;
  return x->token < y->token ? -1 : x->token > y->token;
}

void test_oracle_order(int64_t n, const sattn_permutation_key *key, uint32_t *order) {
  drawn *list = test_memory((size_t)n * sizeof *list);
  for (int64_t t = 0; t < n; ++t) list[t] = (drawn){sort_key((uint32_t)t, key), (uint32_t)t};
  qsort(list, (size_t)n, sizeof *list, by_key_then_token);
  for (int64_t s = 0; s < n; ++s) order[s] = list[s].token;
}

/* ---- slots of one head ---- */

static void find_slots(test_head *head) {
  const test_call *call = head->call;
  const sattn_attention *a = &call->attention;
  int per_batch = a->sharing == SATTN_PER_BATCH || a->sharing == SATTN_PER_BATCH_AND_HEAD;
  int per_head = a->sharing == SATTN_PER_HEAD || a->sharing == SATTN_PER_BATCH_AND_HEAD;
  int64_t index = (per_batch ? head->b : 0) * (per_head ? head->kv_heads : 1) + (per_head ? head->g : 0);
  int64_t total = a->order_length ? a->order_length : call->sizes.keys;
  const uint32_t *order = call->order ? call->order + index * total : NULL;
  if (!order) {
    sattn_permutation_key key = call->key;
    key.substream += (uint32_t)index;
    uint32_t *fresh = test_memory((size_t)total * sizeof *fresh);
    test_oracle_order(total, &key, fresh);
    order = fresh;
  }
  head->slot = test_memory((size_t)call->sizes.keys * sizeof *head->slot);
  int64_t slot = 0;
  for (int64_t s = 0; s < total; ++s) {
    int exists = (int64_t)order[s] < head->n;
    if (exists) head->slot[order[s]] = slot;
    /* Without order_length tokens that do not exist leave no gap. */
    slot += exists || a->order_length;
  }
  head->slots = slot;
}

void test_head_open(const test_call *call, int64_t b, int64_t h, test_head *head) {
  const sattn_attention *a = &call->attention;
  memset(head, 0, sizeof *head);
  head->call = call;
  head->b = b;
  head->h = h;
  head->kv_heads = a->kv_heads ? a->kv_heads : a->heads;
  head->g = h / (a->heads / head->kv_heads);
  head->n = call->lengths ? call->lengths[b] : call->sizes.keys;
  head->start = call->query_start ? call->query_start[b] : call->sizes.keys - call->sizes.queries;
  head->margin = (double)INFINITY;
  if (test_mode_uses_sa(a->mode)) find_slots(head);
}

const float *test_head_query(const test_head *head, int64_t i) {
  const test_call *call = head->call;
  return call->input[TEST_QUERY] + ((head->b * call->sizes.queries + i) * call->attention.heads + head->h) * call->attention.head_dim;
}

const float *test_head_row(const test_head *head, test_input key_or_value, int64_t j) {
  const test_call *call = head->call;
  return call->input[key_or_value] + ((head->b * call->sizes.keys + j) * head->kv_heads + head->g) * call->attention.head_dim;
}

/* ---- windows ---- */

typedef struct sides {
  int64_t left, right;
} sides;

static sides resolve(sattn_band band, int causal, const sattn_window *window) {
  int64_t w = window->width;
  if (window->kind == SATTN_WINDOW_SIDES) return (sides){window->left, window->right};
  if (!causal) return (sides){w / 2, w - 1 - w / 2};
  return (sides){w - 1, band == SATTN_BAND_SA ? w - 1 : 0};
}

static int within(int64_t delta, sides window) {
  return (window.left == SATTN_UNBOUNDED || -delta <= window.left) && (window.right == SATTN_UNBOUNDED || delta <= window.right);
}

static int swa_sees(const test_head *head, int64_t position, int64_t j) {
  const sattn_attention *a = &head->call->attention;
  return within(j - position, resolve(SATTN_BAND_SWA, a->causal, &a->window_swa));
}

static int sa_sees(const test_head *head, int64_t position, int64_t j) {
  const sattn_attention *a = &head->call->attention;
  sides window = resolve(SATTN_BAND_SA, a->causal, &a->window_sa);
  int64_t delta = head->slot[j] - head->slot[position];
  if (within(delta, window)) return 1;
  if (!a->wrap) return 0;
  /* As a window of all slots or more reaches every key, walking once around either way is enough. */
  return within(delta + head->slots, window) || within(delta - head->slots, window);
}

/* ---- MoBA ---- */

static double block_score(const test_head *head, const float *query, int64_t block) {
  const sattn_attention *a = &head->call->attention;
  int64_t first = block * a->block;
  int64_t end = first + a->block < head->n ? first + a->block : head->n;
  double score = 0;
  for (int64_t c = 0; c < a->head_dim; ++c) {
    float sum = 0;
    for (int64_t j = first; j < end; ++j) sum += test_head_row(head, TEST_KEY, j)[c];
    score += (double)query[c] * (double)(sum / (float)(end - first));
  }
  return isnan(score) ? -(double)INFINITY : score;
}

/* Marks the blocks that the query at `position` selects. */
static void select_blocks(test_head *head, const float *query, int64_t position, unsigned char *chosen) {
  const sattn_attention *a = &head->call->attention;
  int64_t count = (head->n - 1) / a->block + 1; /* a block may hold 2^63 - 1 tokens */
  int64_t own = position / a->block;
  double *score = malloc((size_t)count * sizeof *score);
  memset(chosen, 0, (size_t)count);
  for (int64_t b = 0; score && b < count; ++b) score[b] = b == own || (a->causal && b > own) ? (double)NAN : block_score(head, query, b);
  chosen[own] = 1;
  double last = (double)INFINITY;
  for (int64_t taken = 1; score && taken <= a->topk && taken <= count; ++taken) {
    int64_t best = -1;
    for (int64_t b = 0; b < count; ++b) {
      if (chosen[b] || isnan(score[b])) continue;
      if (best < 0 || score[b] > score[best]) best = b;
    }
    if (best < 0) break;
    if (taken < a->topk) {
      chosen[best] = 1;
      last = score[best];
    } else if (taken > 1 && last - score[best] < head->margin) {
      head->margin = last - score[best];
    }
  }
  free(score);
}

/* ---- all together ---- */

int64_t test_head_visible(test_head *head, test_way way, int64_t i, unsigned char *seen) {
  const sattn_attention *a = &head->call->attention;
  int64_t position = head->start + i;
  int64_t count = 0;
  memset(seen, 0, (size_t)head->call->sizes.keys);
  if (position >= head->n) return 0;
  unsigned char *chosen = NULL;
  if (a->mode == SATTN_MOBA) {
    chosen = malloc((size_t)head->n);
    if (chosen) select_blocks(head, test_head_query(head, i), position, chosen);
  }
  for (int64_t j = 0; j < head->n; ++j) {
    int visible = 0;
    if (a->mode == SATTN_FULL) visible = 1;
    if (chosen) visible = chosen[j / a->block];
    if (test_mode_uses_swa(a->mode) && way != TEST_WAY_SA) visible |= swa_sees(head, position, j);
    if (test_mode_uses_sa(a->mode) && way != TEST_WAY_SWA) visible |= sa_sees(head, position, j);
    if (j < a->sink_tokens) visible = 1;
    if (a->causal && j > position) visible = 0;
    seen[j] = (unsigned char)visible;
    count += visible;
  }
  free(chosen);
  return count;
}

int64_t test_oracle_visible(const test_call *call, sattn_band band, int64_t b, int64_t h, int64_t i, unsigned char *seen) {
  test_head head;
  test_head_open(call, b, h, &head);
  test_way way = call->attention.mode != SATTN_GATED ? TEST_WAY_ALL : band == SATTN_BAND_SA ? TEST_WAY_SA : TEST_WAY_SWA;
  return test_head_visible(&head, way, i, seen);
}

double test_oracle_margin(const test_call *call) {
  double margin = (double)INFINITY;
  unsigned char *seen = test_memory((size_t)call->sizes.keys);
  for (int64_t b = 0; b < call->sizes.batch; ++b) {
    for (int64_t h = 0; h < call->attention.heads; ++h) {
      test_head head;
      test_head_open(call, b, h, &head);
      for (int64_t i = 0; i < call->sizes.queries; ++i) test_head_visible(&head, TEST_WAY_ALL, i, seen);
      if (head.margin < margin) margin = head.margin;
    }
  }
  return margin;
}
