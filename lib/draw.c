#include "draw.h"

#include <string.h>

#define MAX_KEY_BYTES (INT64_C(256) << 20)

static int64_t power_of_two(int64_t at_least) {
  int64_t power = 2;
  while (power < at_least) power *= 2;
  return power;
}

void sattn_draw_describe(const sattn_permutation *permutation, const sattn_permutation_key *key, int64_t first_row,
                         sattn_draw_params *out_params) {
  sattn_draw_params params;
  memset(&params, 0, sizeof params);
  params.length = (int32_t)permutation->length;
  params.padded = power_of_two(permutation->length);
  int64_t most = MAX_KEY_BYTES / (params.padded * (int64_t)sizeof(uint64_t));
  params.rows = permutation->count - first_row;
  if (params.rows > most) params.rows = most > 0 ? most : 1;
  params.first_row = first_row;
  params.seed = (int64_t)key->seed;
  params.layer = (int32_t)key->layer;
  params.step = (int32_t)key->step;
  params.substream = (int32_t)(key->substream + (uint32_t)first_row); /* modulo 2^32, as the format says */
  *out_params = params;
}

bool sattn_draw_next_step(sattn_draw_params *params) {
  if (params->run == 0) {
    params->run = 2;
    params->stride = 1;
  } else if (params->stride > 1) {
    params->stride /= 2;
  } else {
    params->run *= 2;
    params->stride = params->run / 2;
  }
  return params->run <= params->padded;
}
