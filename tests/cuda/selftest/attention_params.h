// Shared by the host side of the test and the kernel: plain C, fixed-width fields.
#ifndef SATTN_SELFTEST_ATTENTION_PARAMS_H
#define SATTN_SELFTEST_ATTENTION_PARAMS_H

#include <stdint.h>

typedef struct selftest_attention_params {
  const void *q, *k, *v;  // 16-bit rows of 64 elements; head and row strides in elements
  void *o;
  float *lse;            // [head][n], natural logarithm
  const int32_t *order;  // [head][n], slot -> token
  int64_t head_stride, row_stride;
  int32_t n, window;  // a slot sees the slots less than `window` away
  float scale, scale_log2;
} selftest_attention_params;

enum { selftest_rows = 64, selftest_threads = 128, selftest_stages = 2 };
#define SELFTEST_ATTENTION_SHARED ((1 + 2 * selftest_stages) * 64 * 64 * 2 + selftest_stages * 64 * 4)

#endif
