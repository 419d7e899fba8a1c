#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

size_t test_shape_count(test_shape shape) {
  size_t count = 1;
  for (int i = 0; i < 4; ++i) count *= (size_t)shape.size[i];
  return count;
}

static void format_index(test_shape shape, size_t at, char *text, size_t capacity) {
  size_t index[4];
  for (int i = 3; i >= 0; --i) {
    index[i] = at % (size_t)shape.size[i];
    at /= (size_t)shape.size[i];
  }
  snprintf(text, capacity, "[%zu,%zu,%zu,%zu]", index[0], index[1], index[2], index[3]);
}

static void report(const char *name, test_shape shape, double expected, double got, const char *rule, test_difference *difference) {
  char index[96];
  format_index(shape, difference->worst, index, sizeof index);
  snprintf(difference->report, sizeof difference->report, "%s%s is %.9g, not %.9g (%s); %zu of %zu wrong", name, index, got, expected, rule,
           difference->wrong, test_shape_count(shape));
}

size_t test_compare(const char *name, test_shape shape, const double *expected, const float *got, double tolerance,
                    test_difference *difference) {
  size_t count = test_shape_count(shape);
  double worst = -1;
  *difference = (test_difference){0};
  for (size_t i = 0; i < count; ++i) {
    if (isnan(expected[i])) continue;
    double value = (double)got[i];
    double error = INFINITY;
    int right = 0;
    if (isinf(expected[i])) {
      right = value == expected[i];
    } else if (isfinite(value)) {
      error = fabs(value - expected[i]);
      right = error <= tolerance;
      if (error > difference->largest) difference->largest = error;
    }
    if (right) continue;
    ++difference->wrong;
    if (error > worst) {
      worst = error;
      difference->worst = i;
    }
  }
  if (difference->wrong) {
    char rule[64];
    snprintf(rule, sizeof rule, "within %.3g", tolerance);
    report(name, shape, expected[difference->worst], (double)got[difference->worst], rule, difference);
  }
  return difference->wrong;
}

size_t test_compare_bits(const char *name, test_shape shape, const float *expected, const float *got, test_difference *difference) {
  size_t count = test_shape_count(shape);
  *difference = (test_difference){0};
  for (size_t i = count; i-- > 0;) {
    if (memcmp(&expected[i], &got[i], sizeof *got) == 0) continue;
    ++difference->wrong;
    difference->worst = i;
  }
  if (difference->wrong)
    report(name, shape, (double)expected[difference->worst], (double)got[difference->worst], "the same bits", difference);
  return difference->wrong;
}

size_t test_compare_exact(const char *name, test_shape shape, const float *expected, const float *got, test_difference *difference) {
  size_t count = test_shape_count(shape);
  *difference = (test_difference){0};
  for (size_t i = count; i-- > 0;) {
    if (expected[i] == got[i]) continue;
    ++difference->wrong;
    difference->worst = i;
  }
  if (difference->wrong) report(name, shape, (double)expected[difference->worst], (double)got[difference->worst], "exactly", difference);
  return difference->wrong;
}
