/* Is it right? Finite first, element by element, `!(error <= tolerance)`, so that NaN can never pass. Contract section 8. */
#ifndef TEST_COMPARE_H
#define TEST_COMPARE_H

#include <stddef.h>
#include <stdint.h>

/* What a comparison found; `report` is empty when everything is within the tolerance. */
typedef struct test_difference {
  size_t wrong;   /* elements outside the tolerance */
  size_t worst;   /* index of the worst one; a non-finite result is worse than any finite one */
  double largest; /* largest finite error of all */
  char report[320];
} test_difference;

/* Dimensions of an array, outermost first; unused leading ones are 1. Only for readable indices. */
typedef struct test_shape {
  int64_t size[4];
} test_shape;

size_t test_shape_count(test_shape shape);

/* Expected infinities must be met exactly. An expected NaN means: this element is not compared. Returns the number of wrong elements. */
size_t test_compare(const char *name, test_shape shape, const double *expected, const float *got, double tolerance,
                    test_difference *difference);

/* The same bits, -0 and NaN included. */
size_t test_compare_bits(const char *name, test_shape shape, const float *expected, const float *got, test_difference *difference);

/* The same values with no tolerance: -0 equals 0, NaN equals nothing. */
size_t test_compare_exact(const char *name, test_shape shape, const float *expected, const float *got, test_difference *difference);

#endif
