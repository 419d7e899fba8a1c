#include "reference_permute.h"

void sattn_reference_permute(const uint32_t *order, int64_t length, int64_t tokens, int gaps, sattn_reference_slots *slots) {
  int64_t rank = 0;
  for (int64_t place = 0; place < length; ++place) {
    uint32_t token = order[place];
    if (token >= tokens) continue;
    slots->token[rank] = token;
    slots->rank[token] = (uint32_t)rank;
    slots->slot[token] = (uint32_t)(gaps ? place : rank);
    ++rank;
  }
  slots->tokens = tokens;
  slots->total = gaps ? length : tokens;
}
