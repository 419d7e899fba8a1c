/* Drawing permutations on a device: what the backends share. */
#ifndef SATTN_LIB_DRAW_H
#define SATTN_LIB_DRAW_H

#include "kernel_params.h"
#include "objects.h"

/* Parameters but run and stride. `rows` is what is left of count beyond `first_row`, at most so many that keys stay below 256 MiB. */
void sattn_draw_describe(const sattn_permutation *permutation, const sattn_permutation_key *key, int64_t first_row,
                         sattn_draw_params *out_params);

/* The steps of a bitonic sort of params->padded entries, in order: sets run and stride of the first step (run 0 before), then of the next.
 * Returns false after the last. */
bool sattn_draw_next_step(sattn_draw_params *params);

#endif
