/* MoBA: which blocks a query selects. Contract section 5. */
#ifndef SATTN_REFERENCE_SELECT_H
#define SATTN_REFERENCE_SELECT_H

#include <stdbool.h>
#include <stdint.h>

/* What an unused place of the saved selection holds. */
#define SATTN_REFERENCE_UNUSED_BLOCK 0xffffffffu

int64_t sattn_reference_block_count(int64_t tokens, int64_t block);

/* mean[b] of the rows of each block, width numbers each. key: [tokens, width]. */
void sattn_reference_block_means(const double *key, int64_t tokens, int64_t width, int64_t block, float *mean);

/* The own block of `position` and up to topk-1 others (causal: before it), ascending, into selected; returns how many. score and selected
 * have room for all blocks. */
int64_t sattn_reference_select(const double *query, const float *mean, int64_t blocks, int64_t width, int64_t block, int64_t topk,
                               bool causal, int64_t position, float *score, uint32_t *selected);

#endif
