#include "reach.h"

uint32_t sattn_field_reach_window(const sattn_field_pattern *pattern, uint64_t layers, uint32_t i) {
  const uint64_t before = layers * pattern->swa.left;
  const uint64_t after = pattern->causal ? 0 : layers * pattern->swa.right;
  const uint32_t last = pattern->n - 1;
  return (before < i ? (uint32_t)before : i) + (after < last - i ? (uint32_t)after : last - i) + 1;
}

uint64_t sattn_field_window_depth(const sattn_field_pattern *pattern) {
  const uint64_t distance = pattern->n - 1;
  if (distance == 0) {
    return 1;
  }
  const uint64_t left = pattern->swa.left;
  const uint64_t right = pattern->causal ? left : pattern->swa.right;
  if (left == 0 || right == 0) {
    return 0;
  }
  /* the last token looks left, the first one right: the narrower side needs more layers */
  const uint64_t narrow = left < right ? left : right;
  return (distance + narrow - 1) / narrow;
}
