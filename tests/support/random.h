/* Random test data from a seed that is printed, so that a failure can be had again. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <sattn/attention.h>

typedef struct test_random {
  uint64_t state;
} test_random;

/* The environment variable SATTN_TEST_SEED, else a fixed number. Callers print it. */
uint64_t test_seed(void);

/* An independent stream for every (seed, name): a case draws the same data alone and in a full run. */
test_random test_random_open(uint64_t seed, const char *name);

uint64_t test_random_next(test_random *random);
/* 0 .. bound-1 */
int64_t test_random_below(test_random *random, int64_t bound);
double test_random_normal(test_random *random);

/* An array (test_memory) of `count` normal numbers times spread, rounded to the dtype. */
float *test_random_array(test_random *random, sattn_dtype dtype, size_t count, double spread);

/* A uniformly random order of n tokens (test_memory). */
uint32_t *test_random_order(test_random *random, int64_t n);

#endif
