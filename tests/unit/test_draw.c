/* Permutations drawn on a device (lib/draw.c and each backend's draw stage) against those drawn on the host: equal to the bit (field case
 * P-D5), on every device of every backend that can draw. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "draw.h"
#include "unit.h"

static void check_one(sattn_context *context, int64_t length, const sattn_permutation_options *options) {
  sattn_error error;
  sattn_permutation *drawn = NULL;
  sattn_status status = sattn_permutation_create(context, options, &drawn, &error);
  if (status != SATTN_OK) fail_msg("%s: length %" PRId64 ": %s", sattn_context_device(context)->id, length, error.message);
  uint32_t *expected = malloc(((size_t)length + 1) * sizeof *expected);
  assert_non_null(expected);
  for (int64_t i = 0; i < sattn_permutation_count(drawn); ++i) {
    sattn_permutation_key key = options->key;
    key.substream += (uint32_t)i;
    assert_int_equal(sattn_permutation_draw(length, &key, expected, NULL, &error), SATTN_OK);
    if (length > 0) assert_memory_equal(sattn_permutation_order(drawn, i), expected, (size_t)length * sizeof *expected);
  }
  free(expected);
  sattn_permutation_destroy(&drawn);
}

static void check_device(const char *id, int64_t longest) {
  static const uint64_t seeds[] = {0, 1, UINT64_C(1) << 31, (UINT64_C(1) << 32) + 1, UINT64_MAX};
  const int64_t lengths[] = {0, 1, 2, 3, 5, 64, 65, 1000, longest};
  sattn_error error;
  sattn_context *context = NULL;
  if (sattn_context_create(id, NULL, &context, &error) != SATTN_OK) fail_msg("%s: %s", id, error.message);
  assert_int_equal(context->draw, SATTN_DRAW_DEVICE);
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    sattn_permutation_options options;
    sattn_permutation_options_init(&options);
    options.length = lengths[i];
    options.key.seed = seeds[i % (sizeof seeds / sizeof seeds[0])];
    options.key.layer = (uint32_t)(7 * i);
    options.key.substream = UINT32_MAX - 1; /* counts on beyond 2^32 */
    options.key.step = (uint32_t)i;
    check_one(context, lengths[i], &options);
    if (lengths[i] > 1000) continue;
    options.sharing = SATTN_PER_BATCH_AND_HEAD;
    options.batch = 2;
    options.kv_heads = 3;
    check_one(context, lengths[i], &options);
  }
  sattn_context_destroy(&context);
}

static void devices_draw_what_the_host_draws(void **state) {
  (void)state;
  setenv("SATTN_DRAW", "device", 1);
  int checked = 0, could = 0;
  for (int b = SATTN_BACKEND_REFERENCE; b <= SATTN_BACKEND_CUDA; ++b) {
    const sattn_backend_ops *ops = sattn_registry_get((sattn_backend)b);
    if (!ops->draw_orders) continue;
    ++could;
    uint32_t count = ops->device_count();
    for (uint32_t i = 0; i < count; ++i, ++checked) {
      sattn_device_info info;
      sattn_error error;
      sattn_device_info_init(&info);
      assert_int_equal(sattn_device_get_info((sattn_backend)b, i, &info, &error), SATTN_OK);
      check_device(info.id, 20011);
    }
  }
  unsetenv("SATTN_DRAW");
  print_message("%d device(s) of %d backend(s) that draw\n", checked, could);
  if (could > 0 && checked == 0) skip();
}

static void rows_are_cut_to_fit_memory(void **state) {
  (void)state;
  sattn_permutation permutation;
  memset(&permutation, 0, sizeof permutation);
  permutation.length = 1 << 20;
  permutation.count = 100;
  sattn_permutation_key key = {1, 2, 3, 4};
  sattn_draw_params params;
  sattn_draw_describe(&permutation, &key, 0, &params);
  assert_true(params.rows == 32);
  sattn_draw_describe(&permutation, &key, 96, &params);
  assert_true(params.rows == 4 && params.first_row == 96 && params.substream == 3 + 96);
}

/* A network of 2^k entries has k (k + 1) / 2 steps; the last one compares neighbours in one run. */
static void steps_make_a_whole_network(void **state) {
  (void)state;
  for (int64_t padded = 2, k = 1; padded <= 1 << 20; padded *= 2, ++k) {
    sattn_draw_params params;
    memset(&params, 0, sizeof params);
    params.padded = padded;
    int64_t steps = 0, last_run = 0, last_stride = 0;
    while (sattn_draw_next_step(&params)) {
      ++steps;
      last_run = params.run;
      last_stride = params.stride;
    }
    assert_true(steps == k * (k + 1) / 2 && last_run == padded && last_stride == 1);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(devices_draw_what_the_host_draws),
    cmocka_unit_test(rows_are_cut_to_fit_memory),
    cmocka_unit_test(steps_make_a_whole_network),
};

UNIT_MAIN(tests)
