#include "reference_select.h"

#include <math.h>

int64_t sattn_reference_block_count(int64_t tokens, int64_t block) {
  return (tokens + block - 1) / block;
}

void sattn_reference_block_means(const double *key, int64_t tokens, int64_t width, int64_t block, float *mean) {
  for (int64_t first = 0; first < tokens; first += block) {
    int64_t end = first + block < tokens ? first + block : tokens;
    float *row = mean + first / block * width;
    for (int64_t c = 0; c < width; ++c) {
      /* fp32 on purpose, in position order: the selection is part of the result, so all backends round its scores alike. */
      float sum = 0;
      for (int64_t j = first; j < end; ++j) sum += (float)key[j * width + c];
      row[c] = sum / (float)(end - first);
    }
  }
}

static float gate_score(const double *query, const float *mean, int64_t width) {
  double sum = 0;
  for (int64_t c = 0; c < width; ++c) sum += query[c] * mean[c];
  return isnan(sum) ? -INFINITY : (float)sum;
}

/* The block with the highest score that is not taken yet, the lowest of equals; -1: none left. Taken ones have the score NaN, which no
 * comparison prefers. */
static int64_t best_block(const float *score, int64_t blocks) {
  int64_t best = -1;
  for (int64_t b = 0; b < blocks; ++b) {
    if (!isnan(score[b]) && (best < 0 || score[b] > score[best])) best = b;
  }
  return best;
}

int64_t sattn_reference_select(const double *query, const float *mean, int64_t blocks, int64_t width, int64_t block, int64_t topk,
                               bool causal, int64_t position, float *score, uint32_t *selected) {
  int64_t own = position / block, candidates = causal ? own + 1 : blocks, count = 0;
  if (topk >= candidates) {
    for (int64_t b = 0; b < candidates; ++b) selected[count++] = (uint32_t)b;
    return count;
  }
  for (int64_t b = 0; b < candidates; ++b) score[b] = gate_score(query, mean + b * width, width);
  score[own] = NAN;
  for (int64_t taken = 1; taken < topk; ++taken) score[best_block(score, candidates)] = NAN;
  for (int64_t b = 0; b < candidates; ++b) {
    if (isnan(score[b])) selected[count++] = (uint32_t)b;
  }
  return count;
}
