/* Inside of the oracle: one head of one batch entry, and what its queries see. */
#ifndef TEST_ORACLE_VISIBLE_H
#define TEST_ORACLE_VISIBLE_H

#include "oracle.h"

/* GATED attends two ways, every other mode one. */
typedef enum test_way { TEST_WAY_ALL, TEST_WAY_SA, TEST_WAY_SWA } test_way;

typedef struct test_head {
  const test_call *call;
  int64_t b, h, g;
  int64_t kv_heads;
  int64_t n;     /* tokens that exist */
  int64_t start; /* position of query 0 */
  int64_t *slot; /* [n]; modes with an SA band */
  int64_t slots; /* the modulus of wrap */
  double margin; /* MOBA: see test_oracle_margin; of the queries asked so far */
} test_head;

void test_head_open(const test_call *call, int64_t b, int64_t h, test_head *head);
int64_t test_head_visible(test_head *head, test_way way, int64_t i, unsigned char *seen);
const float *test_head_query(const test_head *head, int64_t i);
const float *test_head_row(const test_head *head, test_input key_or_value, int64_t j);

#endif
