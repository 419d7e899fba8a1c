/* Permutations on a device. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

void sattn_permutation_options_init(sattn_permutation_options *options) {
  if (options == NULL) return;
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
  options->batch = 1;
  options->kv_heads = 1;
}

static bool per_batch(sattn_sharing sharing) {
  return sharing == SATTN_PER_BATCH || sharing == SATTN_PER_BATCH_AND_HEAD;
}
static bool per_head(sattn_sharing sharing) {
  return sharing == SATTN_PER_HEAD || sharing == SATTN_PER_BATCH_AND_HEAD;
}

int64_t sattn_permutation_index(sattn_sharing sharing, int64_t kv_heads, int64_t b, int64_t g) {
  switch (sharing) {
    case SATTN_SHARED:
      return 0;
    case SATTN_PER_HEAD:
      return g;
    case SATTN_PER_BATCH:
      return b;
    case SATTN_PER_BATCH_AND_HEAD:
      return b * kv_heads + g;
  }
  return 0;
}

static uint64_t mix(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 29);
}

/* Computed from numbers, not from bytes, so that every machine gets the same. */
static uint64_t hash_of(const sattn_permutation *permutation, const uint32_t *order) {
  uint64_t hash = mix(mix(mix(UINT64_C(0x5361747461747431), (uint64_t)permutation->sharing), (uint64_t)permutation->length),
                      (uint64_t)permutation->count);
  size_t total = (size_t)permutation->count * (size_t)permutation->length;
  for (size_t i = 0; i < total; ++i) hash = mix(hash, order[i]);
  return hash;
}

static sattn_status refuse(sattn_error *error, const char *argument, int64_t value, const char *rule) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, argument, "%s is %" PRId64 ": %s", argument, value, rule);
}

static sattn_status out_of_memory(uint64_t bytes, sattn_error *error) {
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "the host has no %" PRIu64 " bytes for the orders of a permutation", bytes);
}

static sattn_status check_options(const sattn_permutation_options *options, sattn_error *error) {
  if (options->length < 0 || options->length > INT32_MAX) return refuse(error, "length", options->length, "it must be 0 to 2147483647");
  if (options->sharing < SATTN_SHARED || options->sharing > SATTN_PER_BATCH_AND_HEAD) {
    return refuse(error, "sharing", (int64_t)options->sharing,
                  "it must be one of sattn_sharing (SATTN_SHARED to SATTN_PER_BATCH_AND_HEAD)");
  }
  if (per_batch(options->sharing) && (options->batch < 0 || options->batch > INT32_MAX)) {
    return refuse(error, "batch", options->batch, "it must be 0 to 2147483647");
  }
  if (per_head(options->sharing) && (options->kv_heads < 1 || options->kv_heads > INT32_MAX)) {
    return refuse(error, "kv_heads", options->kv_heads, "it must be 1 to 2147483647");
  }
  return SATTN_OK;
}

/* `seen` holds, for each token, 1 + the place of `row` where it stood first. */
static sattn_status check_row(const uint32_t *row, int64_t index, int64_t length, uint32_t *seen, sattn_error *error) {
  memset(seen, 0, (size_t)length * sizeof *seen);
  for (int64_t i = 0; i < length; ++i) {
    if (row[i] >= (uint64_t)length) {
      return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order",
                        "order[%" PRId64 "][%" PRId64 "] is %" PRIu32 ": it must be a token, 0 to %" PRId64, index, i, row[i], length - 1);
    }
    if (seen[row[i]] != 0) {
      return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order",
                        "order[%" PRId64 "][%" PRId64 "] is %" PRIu32 ", as order[%" PRId64 "][%" PRIu32
                        "] is already: every token must stand once",
                        index, i, row[i], index, seen[row[i]] - 1);
    }
    seen[row[i]] = (uint32_t)i + 1;
  }
  return SATTN_OK;
}

static sattn_status check_orders(const uint32_t *order, int64_t count, int64_t length, sattn_error *error) {
  if (length == 0) return SATTN_OK;
  uint32_t *seen = malloc((size_t)length * sizeof *seen);
  if (seen == NULL) return out_of_memory((uint64_t)length * sizeof *seen, error);
  sattn_status status = SATTN_OK;
  for (int64_t i = 0; i < count && status == SATTN_OK; ++i) status = check_row(order + i * length, i, length, seen, error);
  free(seen);
  return status;
}

static sattn_status draw_orders(const sattn_permutation *permutation, const sattn_permutation_key *key, uint32_t *order,
                                sattn_error *error) {
  sattn_status status = SATTN_OK;
  sattn_permutation_key one = *key;
  for (int64_t i = 0; i < permutation->count && status == SATTN_OK; ++i) {
    one.substream = key->substream + (uint32_t)i; /* modulo 2^32, as the format says */
    status = sattn_permutation_draw(permutation->length, &one, order + i * permutation->length, NULL, error);
  }
  return status;
}

/* Tokens from which sorting on a device of its own memory beats the host's sort and the upload; below, launches cost more. */
#define DEVICE_DRAW_TOKENS 65536

static bool draws_on_device(const sattn_permutation *permutation) {
  const sattn_context *context = permutation->context;
  int64_t total = permutation->length * permutation->count;
  if (context->ops->draw_orders == NULL || total == 0 || context->draw == SATTN_DRAW_HOST) return false;
  return context->draw == SATTN_DRAW_DEVICE || (!context->device.shares_host_memory && total >= DEVICE_DRAW_TOKENS);
}

/* Draws, and leaves the orders on the host (`order`) and on the device, wherever they were made. */
static sattn_status produce_orders(sattn_permutation *permutation, const sattn_permutation_key *key, uint32_t *order, uint64_t bytes,
                                   sattn_error *error) {
  if (draws_on_device(permutation)) {
    sattn_status status = permutation->context->ops->draw_orders(permutation, key, error);
    return status == SATTN_OK ? sattn_buffer_read(permutation->device_order, 0, order, bytes, error) : status;
  }
  sattn_status status = draw_orders(permutation, key, order, error);
  return status == SATTN_OK ? sattn_buffer_write(permutation->device_order, 0, order, bytes, error) : status;
}

/* Bytes of all orders; refuses what no host can hold. */
static sattn_status total_bytes(const sattn_permutation *permutation, uint64_t *out_bytes, sattn_error *error) {
  uint64_t bytes = sizeof(uint32_t);
  if (sattn_checked_multiply(bytes, (uint64_t)permutation->count, &bytes) &&
      sattn_checked_multiply(bytes, (uint64_t)permutation->length, &bytes) && bytes <= PTRDIFF_MAX) {
    *out_bytes = bytes;
    return SATTN_OK;
  }
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "length", "length is %" PRId64 ": %" PRId64 " orders of it exceed the address space",
                    permutation->length, permutation->count);
}

static sattn_status fill(sattn_permutation *permutation, const sattn_permutation_options *options, sattn_error *error) {
  uint64_t bytes = 0;
  sattn_status status = total_bytes(permutation, &bytes, error);
  if (status == SATTN_OK && options->order != NULL) status = check_orders(options->order, permutation->count, permutation->length, error);
  if (status != SATTN_OK) return status;
  permutation->order = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (permutation->order == NULL) return out_of_memory(bytes, error);
  status = sattn_buffer_create(permutation->context, bytes, &permutation->device_order, error);
  if (status == SATTN_OK && options->order == NULL) {
    status = produce_orders(permutation, &options->key, permutation->order, bytes, error);
  } else if (status == SATTN_OK && bytes > 0) {
    memcpy(permutation->order, options->order, (size_t)bytes);
    status = sattn_buffer_write(permutation->device_order, 0, permutation->order, bytes, error);
  }
  if (status == SATTN_OK) permutation->hash = hash_of(permutation, permutation->order);
  return status;
}

static sattn_status create(sattn_context *context, const sattn_permutation_options *options, sattn_permutation **out_permutation,
                           sattn_error *error) {
  if (out_permutation == NULL) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "out_permutation", "out_permutation is NULL: it must point to a handle");
  }
  sattn_permutation_options chosen;
  sattn_permutation_options_init(&chosen);
  sattn_status status = sattn_copy_struct("options", options, sizeof chosen, &chosen, error);
  if (status == SATTN_OK) status = check_options(&chosen, error);
  if (status != SATTN_OK) return status;
  sattn_permutation *permutation = calloc(1, sizeof *permutation);
  if (permutation == NULL) return out_of_memory(sizeof *permutation, error);
  permutation->context = context;
  permutation->length = chosen.length;
  permutation->sharing = chosen.sharing;
  permutation->batch = per_batch(chosen.sharing) ? chosen.batch : 1;
  permutation->kv_heads = per_head(chosen.sharing) ? chosen.kv_heads : 1;
  permutation->count = permutation->batch * permutation->kv_heads;
  permutation->id = sattn_context_new_id(context);
  status = fill(permutation, &chosen, error);
  if (status != SATTN_OK) {
    sattn_permutation_destroy(&permutation);
    return status;
  }
  *out_permutation = permutation;
  return SATTN_OK;
}

sattn_status sattn_permutation_create(sattn_context *context, const sattn_permutation_options *options, sattn_permutation **out_permutation,
                                      sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, create(context, options, out_permutation, error), error);
}

void sattn_permutation_destroy(sattn_permutation **permutation) {
  if (permutation == NULL || *permutation == NULL) return;
  sattn_buffer_destroy(&(*permutation)->device_order);
  free((*permutation)->order);
  free(*permutation);
  *permutation = NULL;
}

static sattn_status redraw(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *error) {
  if (key == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, "key", "key is NULL: it must name a permutation");
  uint64_t bytes = sattn_buffer_size(permutation->device_order);
  uint32_t *order = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (order == NULL) return out_of_memory(bytes, error);
  sattn_status status = produce_orders(permutation, key, order, bytes, error);
  if (status != SATTN_OK) {
    /* Half of it may have arrived: put the old orders back, so that host and device agree. */
    (void)sattn_buffer_write(permutation->device_order, 0, permutation->order, bytes, NULL);
    free(order);
    return status;
  }
  free(permutation->order);
  permutation->order = order;
  permutation->hash = hash_of(permutation, order);
  return SATTN_OK;
}

sattn_status sattn_permutation_redraw(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *out_error) {
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  if (permutation == NULL) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "permutation", "permutation is NULL: make one by sattn_permutation_create");
  }
  return sattn_context_report(permutation->context, redraw(permutation, key, error), error);
}

int64_t sattn_permutation_length(const sattn_permutation *permutation) {
  return permutation != NULL ? permutation->length : 0;
}
int64_t sattn_permutation_count(const sattn_permutation *permutation) {
  return permutation != NULL ? permutation->count : 0;
}
sattn_sharing sattn_permutation_sharing(const sattn_permutation *permutation) {
  return permutation != NULL ? permutation->sharing : SATTN_SHARED;
}
uint64_t sattn_permutation_hash(const sattn_permutation *permutation) {
  return permutation != NULL ? permutation->hash : 0;
}

const uint32_t *sattn_permutation_order(const sattn_permutation *permutation, int64_t index) {
  if (permutation == NULL || index < 0 || index >= permutation->count) return NULL;
  return permutation->order + index * permutation->length;
}
