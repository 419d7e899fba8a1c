/* The permutations of a stack of layers: version 1, one per layer. */
#ifndef SATTN_TOOLS_FIELD_ORDERS_H
#define SATTN_TOOLS_FIELD_ORDERS_H

#include <stdint.h>

#include <sattn/permutation.h>

typedef struct {
  uint32_t n, layers;
  uint32_t *order; /* [layers][n] */
  uint32_t *slot;  /* [layers][n] */
} sattn_field_orders;

/* Layer l of the stack uses the permutation of layer l of the seed. Ends with sattn_field_orders_free. */
sattn_status sattn_field_orders_make(uint32_t n, uint32_t layers, uint64_t seed, sattn_field_orders *out_orders, sattn_error *out_error);

/* Draws again for another seed into the same memory. */
sattn_status sattn_field_orders_draw(sattn_field_orders *orders, uint64_t seed, sattn_error *out_error);

void sattn_field_orders_free(sattn_field_orders *orders);

const uint32_t *sattn_field_order(const sattn_field_orders *orders, uint32_t layer);
const uint32_t *sattn_field_slot(const sattn_field_orders *orders, uint32_t layer);

/* Everything random here that is not a layer's order comes from the same generator through these substreams, so that it never repeats the
 * draws of a layer. */
enum { SATTN_FIELD_STREAM_TOKENS = 0x46494501, SATTN_FIELD_STREAM_GRAPH, SATTN_FIELD_STREAM_VECTOR, SATTN_FIELD_STREAM_DATA };

/* The `index`-th random 64-bit number of a substream. */
uint64_t sattn_field_random(uint64_t seed, uint32_t substream, uint64_t index);

/* The same as a number in [0, 1). */
double sattn_field_uniform(uint64_t seed, uint32_t substream, uint64_t index);

#endif
