#include "orders.h"

#include <stdlib.h>

#include "../../lib/philox.h"
#include "refuse.h"

sattn_status sattn_field_orders_make(uint32_t n, uint32_t layers, uint64_t seed, sattn_field_orders *out_orders, sattn_error *out_error) {
  sattn_field_orders orders = {.n = n, .layers = layers};
  const size_t entries = (size_t)n * layers;
  orders.order = malloc((entries > 0 ? entries : 1) * sizeof(uint32_t));
  orders.slot = malloc((entries > 0 ? entries : 1) * sizeof(uint32_t));
  sattn_status status = SATTN_OK;
  if (orders.order == NULL || orders.slot == NULL) {
    status = sattn_field_no_memory(out_error);
  } else {
    status = sattn_field_orders_draw(&orders, seed, out_error);
  }
  if (status != SATTN_OK) {
    sattn_field_orders_free(&orders);
    return status;
  }
  *out_orders = orders;
  return SATTN_OK;
}

sattn_status sattn_field_orders_draw(sattn_field_orders *orders, uint64_t seed, sattn_error *out_error) {
  sattn_status status = SATTN_OK;
  for (uint32_t layer = 0; layer < orders->layers && status == SATTN_OK; layer++) {
    const sattn_permutation_key key = {.seed = seed, .layer = layer};
    const size_t at = (size_t)layer * orders->n;
    status = sattn_permutation_draw(orders->n, &key, orders->order + at, orders->slot + at, out_error);
  }
  return status;
}

void sattn_field_orders_free(sattn_field_orders *orders) {
  free(orders->order);
  free(orders->slot);
  *orders = (sattn_field_orders){0};
}

const uint32_t *sattn_field_order(const sattn_field_orders *orders, uint32_t layer) {
  return orders->order + (size_t)layer * orders->n;
}

const uint32_t *sattn_field_slot(const sattn_field_orders *orders, uint32_t layer) {
  return orders->slot + (size_t)layer * orders->n;
}

uint64_t sattn_field_random(uint64_t seed, uint32_t substream, uint64_t index) {
  return sattn_sort_key((uint32_t)index, seed, (uint32_t)(index >> 32), substream, 0);
}

double sattn_field_uniform(uint64_t seed, uint32_t substream, uint64_t index) {
  return (double)(sattn_field_random(seed, substream, index) >> 11) * 0x1p-53;
}
