/* Actual sizes of a call, or the maxima of a plan. */
#include <inttypes.h>

#include "problem.h"

static sattn_status refuse(sattn_error *error, const char *name, const char *field, int64_t value, const char *rule) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, field, "%s.%s is %" PRId64 ": %s", name, field, value, rule);
}

/* Whether a * b * c * d elements of 8 bytes, the widest that anything here has, stay addressable. */
static bool product_fits(int64_t a, int64_t b, int64_t c, int64_t d) {
  uint64_t product = 8;
  return sattn_checked_multiply(product, (uint64_t)a, &product) && sattn_checked_multiply(product, (uint64_t)b, &product) &&
         sattn_checked_multiply(product, (uint64_t)c, &product) && sattn_checked_multiply(product, (uint64_t)d, &product) &&
         product <= INT64_MAX;
}

sattn_status sattn_sizes_validate(const char *name, const sattn_sizes *sizes, const sattn_problem *problem, sattn_error *error) {
  if (sizes == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s is NULL: it must point to sizes", name);
  const char *rule = "it must be 0 to 2147483647";
  if (sizes->batch < 0 || sizes->batch > INT32_MAX) return refuse(error, name, "batch", sizes->batch, rule);
  if (sizes->queries < 0 || sizes->queries > INT32_MAX) return refuse(error, name, "queries", sizes->queries, rule);
  if (sizes->keys < 0 || sizes->keys > INT32_MAX) return refuse(error, name, "keys", sizes->keys, rule);
  if (sizes->queries > sizes->keys) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "queries",
                      "%s.queries is %" PRId64 ": there must not be more queries than keys, %" PRId64, name, sizes->queries, sizes->keys);
  }
  if (problem->order_length > 0 && problem->order_length < sizes->keys) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "order_length",
                      "order_length is %" PRId32 ": it must be at least the number of keys, %" PRId64, problem->order_length, sizes->keys);
  }
  int64_t orders = (int64_t)problem->order_length > sizes->keys ? problem->order_length : sizes->keys;
  int64_t topk = problem->topk > 0 ? problem->topk : 1;
  if (!product_fits(sizes->batch, sizes->queries, problem->heads, problem->head_dim) ||
      !product_fits(sizes->batch, sizes->keys, problem->kv_heads, problem->head_dim) ||
      !product_fits(sizes->batch, sizes->queries, problem->heads, topk) || !product_fits(sizes->batch, orders, problem->kv_heads, 1)) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, name,
                      "%s is batch %" PRId64 ", queries %" PRId64 ", keys %" PRId64 ": with these heads an array would exceed 2^63 bytes",
                      name, sizes->batch, sizes->queries, sizes->keys);
  }
  return SATTN_OK;
}
