/* Whether strided regions share a byte.
 *
 * Both regions are trees: the widest stride first, rows of contiguous bytes as leaves. Two subtrees whose byte intervals are apart cannot
 * meet. Otherwise, where both have the same stride on top, only the difference of their indices matters, and of those differences only the
 * few whose intervals meet; where strides differ, one of the two is opened index by index. Layouts that people use end after a few steps.
 */
#include "region.h"

enum { STEP_BUDGET = 1 << 16 };

/* A subtree: the region from `level` on, beginning at byte `first`. */
typedef struct subtree {
  const sattn_region *region;
  int32_t level;
  int64_t first;
} subtree;

/* Bytes from the first to behind the last of what lies below `level`. */
static int64_t span(const sattn_region *region, int32_t level) {
  int64_t bytes = region->run;
  for (int32_t i = level; i < region->levels; ++i) bytes += (region->extent[i] - 1) * region->stride[i];
  return bytes;
}

static int64_t divide_down(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static bool meet(subtree a, subtree b, int32_t *budget);

/* Indices k for which [a.first + k * stride, + bytes_a) meets [b.first, + bytes_b), within [low, high]. */
static void meeting_range(int64_t from, int64_t bytes_a, int64_t bytes_b, int64_t stride, int64_t *low, int64_t *high) {
  *low = larger(*low, divide_down(-from - bytes_a, stride) + 1);
  *high = smaller(*high, divide_down(bytes_b - from - 1, stride));
}

/* Both have the same stride on top: shift a by every difference of indices that can meet. */
static bool meet_in_step(subtree a, subtree b, int32_t *budget) {
  int64_t stride = a.region->stride[a.level];
  int64_t low = -(b.region->extent[b.level] - 1), high = a.region->extent[a.level] - 1;
  meeting_range(a.first - b.first, span(a.region, a.level + 1), span(b.region, b.level + 1), stride, &low, &high);
  for (int64_t k = low; k <= high; ++k) {
    subtree shifted = {a.region, a.level + 1, a.first + k * stride};
    subtree below = {b.region, b.level + 1, b.first};
    if (meet(shifted, below, budget)) return true;
  }
  return false;
}

static bool meet_opened(subtree a, subtree b, int32_t *budget) {
  int64_t stride = a.region->stride[a.level];
  int64_t low = 0, high = a.region->extent[a.level] - 1;
  meeting_range(a.first - b.first, span(a.region, a.level + 1), span(b.region, b.level), stride, &low, &high);
  for (int64_t k = low; k <= high; ++k) {
    subtree below = {a.region, a.level + 1, a.first + k * stride};
    if (meet(below, b, budget)) return true;
  }
  return false;
}

static bool meet(subtree a, subtree b, int32_t *budget) {
  if (a.first >= b.first + span(b.region, b.level) || b.first >= a.first + span(a.region, a.level)) return false;
  if (--*budget < 0) return true;
  int64_t stride_a = a.level < a.region->levels ? a.region->stride[a.level] : 0;
  int64_t stride_b = b.level < b.region->levels ? b.region->stride[b.level] : 0;
  if (stride_a == 0 && stride_b == 0) return true;
  if (stride_a == stride_b) return meet_in_step(a, b, budget);
  return stride_a > stride_b ? meet_opened(a, b, budget) : meet_opened(b, a, budget);
}

bool sattn_regions_meet(const sattn_region *a, const sattn_region *b) {
  if (a->run == 0 || b->run == 0) return false;
  int32_t budget = STEP_BUDGET;
  subtree left = {a, 0, a->first}, right = {b, 0, b->first};
  return meet(left, right, &budget);
}

bool sattn_region_meets_itself(const sattn_region *region) {
  int32_t budget = STEP_BUDGET;
  for (int32_t level = 0; level < region->levels; ++level) {
    int64_t stride = region->stride[level];
    if (stride == 0) return true;
    /* Two elements whose indices agree above this level and differ by k here. */
    int64_t high = smaller(region->extent[level] - 1, (span(region, level + 1) - 1) / stride);
    for (int64_t k = 1; k <= high; ++k) {
      subtree shifted = {region, level + 1, region->first + k * stride};
      subtree below = {region, level + 1, region->first};
      if (meet(shifted, below, &budget)) return true;
    }
  }
  return false;
}
