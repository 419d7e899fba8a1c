#include "random.h"

#include <math.h>
#include <stdlib.h>

#include "half.h"
#include "memory.h"

#define DEFAULT_SEED 20260401u

uint64_t test_seed(void) {
  const char *text = getenv("SATTN_TEST_SEED");
  return text && *text ? strtoull(text, NULL, 0) : DEFAULT_SEED;
}

test_random test_random_open(uint64_t seed, const char *name) {
  test_random random = {seed};
  for (const char *c = name; *c; ++c) {
    random.state = (random.state ^ (unsigned char)*c) * 0x100000001b3u;
  }
  test_random_next(&random);
  return random;
}

/* splitmix64 */
uint64_t test_random_next(test_random *random) {
  uint64_t z = random->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t test_random_below(test_random *random, int64_t bound) {
  return (int64_t)(test_random_next(random) % (uint64_t)bound);
}

static double uniform(test_random *random) {
  return ((double)(test_random_next(random) >> 11) + 0.5) / 9007199254740992.0;
}

double test_random_normal(test_random *random) {
  double radius = sqrt(-2.0 * log(uniform(random)));
  return radius * cos(6.283185307179586 * uniform(random));
}

float *test_random_array(test_random *random, sattn_dtype dtype, size_t count, double spread) {
  float *values = test_memory(count * sizeof *values);
  for (size_t i = 0; i < count; ++i) values[i] = (float)test_round(dtype, spread * test_random_normal(random));
  return values;
}

uint32_t *test_random_order(test_random *random, int64_t n) {
  uint32_t *order = test_memory((size_t)n * sizeof *order);
  for (int64_t i = 0; i < n; ++i) order[i] = (uint32_t)i;
  for (int64_t i = n - 1; i > 0; --i) {
    int64_t j = test_random_below(random, i + 1);
    uint32_t kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  return order;
}
