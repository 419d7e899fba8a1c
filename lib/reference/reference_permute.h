/* Slots of the tokens that exist, for one batch entry and key/value head. */
#ifndef SATTN_REFERENCE_PERMUTE_H
#define SATTN_REFERENCE_PERMUTE_H

#include <stdint.h>

/* Three numbers of a token stay apart: its position (the index into slot and rank), its slot (what the band compares) and its rank (how
 * many existing tokens stand before it). Without order_length, slot = rank; with it, slots have gaps where tokens do not exist yet.
 *
 *     order    3 0 5 1 4 2      existing tokens: 0 1 2 3
 *     rank     0 1 - 2 - 3      the same without gaps
 *     slot     0 1 - 3 - 5      with order_length 6;   without it slot = rank
 *     token    3 0   1   2      by rank
 */
typedef struct sattn_reference_slots {
  int64_t tokens;  /* that exist */
  int64_t total;   /* slots: the modulus of `wrap` */
  uint32_t *token; /* [tokens] by rank */
  uint32_t *rank;  /* [tokens] by position */
  uint32_t *slot;  /* [tokens] by position */
} sattn_reference_slots;

/* Fills the three arrays from an order of `length` tokens, of which those below `tokens` exist. gaps: slots are counted over all of
 * `order`. */
void sattn_reference_permute(const uint32_t *order, int64_t length, int64_t tokens, int gaps, sattn_reference_slots *slots);

#endif
