/* A vector folder: the options of one call (`args`), its arrays, the expected results and their tolerances. tests/vectors/oracle.py
 * explains the folder and wrote it. */
#ifndef TEST_VECTOR_H
#define TEST_VECTOR_H

#include "call.h"

typedef struct test_vector {
  test_call call;
  double *expected[TEST_OUTPUTS]; /* NULL: not given; NaN inside: not compared */
  double tolerance[TEST_OUTPUTS];
  char refused[64]; /* a word that the refusal must contain; empty: the call must succeed */
} test_vector;

/* 0, or -1 with a sentence in `message`. */
int test_vector_read(const char *folder, test_vector *out_vector, char *message, size_t capacity);

#endif
