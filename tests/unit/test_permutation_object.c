#include "objects.h"

#include "unit.h"

static sattn_context *context;

static int open_context(void **state) {
  (void)state;
  context = unit_context();
  return 0;
}

static int close_context(void **state) {
  (void)state;
  sattn_context_destroy(&context);
  return 0;
}

static sattn_permutation_options options_of(int64_t length) {
  sattn_permutation_options options;
  sattn_permutation_options_init(&options);
  options.length = length;
  return options;
}

static sattn_permutation *create(const sattn_permutation_options *options) {
  sattn_permutation *permutation = NULL;
  sattn_error error = {0};
  unit_ok(sattn_permutation_create(context, options, &permutation, &error), &error);
  return permutation;
}

static void refuse(const sattn_permutation_options *options, const char *word, const char *value) {
  sattn_permutation *permutation = (sattn_permutation *)&context;
  sattn_error error = {0};
  unit_refused(sattn_permutation_create(context, options, &permutation, &error), SATTN_INVALID_ARGUMENT, &error, word, value);
  assert_ptr_equal(permutation, &context);
}

/* Host copy, device copy and the pure function agree. */
static void check_orders(const sattn_permutation *permutation, sattn_permutation_key key) {
  int64_t n = sattn_permutation_length(permutation), count = sattn_permutation_count(permutation);
  uint32_t *want = malloc((size_t)(n + 1) * sizeof *want), *device = malloc((size_t)(n + 1) * sizeof *device);
  assert_non_null(want);
  assert_non_null(device);
  uint32_t first = key.substream;
  size_t bytes = (size_t)n * sizeof *want;
  for (int64_t i = 0; i < count; ++i) {
    key.substream = first + (uint32_t)i;
    assert_int_equal(sattn_permutation_draw(n, &key, want, NULL, NULL), SATTN_OK);
    assert_memory_equal(sattn_permutation_order(permutation, i), want, bytes);
    assert_int_equal(sattn_buffer_read(permutation->device_order, (uint64_t)i * bytes, device, bytes, NULL), SATTN_OK);
    assert_memory_equal(device, want, bytes);
  }
  assert_null(sattn_permutation_order(permutation, count));
  assert_null(sattn_permutation_order(permutation, -1));
  free(want);
  free(device);
}

static void sharing_uses_substreams_in_order(void **state) {
  (void)state;
  const struct {
    sattn_sharing sharing;
    int64_t count;
  } cases[] = {{SATTN_SHARED, 1}, {SATTN_PER_HEAD, 3}, {SATTN_PER_BATCH, 2}, {SATTN_PER_BATCH_AND_HEAD, 6}};
  for (size_t i = 0; i < 4; ++i) {
    sattn_permutation_options options = options_of(57);
    options.sharing = cases[i].sharing;
    options.batch = 2;
    options.kv_heads = 3;
    options.key = (sattn_permutation_key){5, 6, UINT32_MAX - 1, 7}; /* substreams pass 2^32 */
    sattn_permutation *permutation = create(&options);
    assert_int_equal(sattn_permutation_count(permutation), cases[i].count);
    assert_int_equal(sattn_permutation_sharing(permutation), cases[i].sharing);
    check_orders(permutation, options.key);
    sattn_permutation_destroy(&permutation);
    assert_null(permutation);
  }
}

static void index_of_batch_and_head(void **state) {
  (void)state;
  assert_int_equal(sattn_permutation_index(SATTN_SHARED, 3, 1, 2), 0);
  assert_int_equal(sattn_permutation_index(SATTN_PER_HEAD, 3, 1, 2), 2);
  assert_int_equal(sattn_permutation_index(SATTN_PER_BATCH, 3, 1, 2), 1);
  assert_int_equal(sattn_permutation_index(SATTN_PER_BATCH_AND_HEAD, 3, 1, 2), 5);
}

static void hashes_tell_permutations_apart(void **state) {
  (void)state;
  sattn_permutation_options options = options_of(16);
  sattn_permutation *a = create(&options), *b = create(&options);
  assert_true(sattn_permutation_hash(a) == sattn_permutation_hash(b));
  assert_true(a->id != b->id);
  options.order = sattn_permutation_order(a, 0); /* the same orders by another way */
  sattn_permutation *c = create(&options);
  assert_true(sattn_permutation_hash(a) == sattn_permutation_hash(c));
  options.sharing = SATTN_PER_HEAD;
  sattn_permutation *d = create(&options);
  assert_true(sattn_permutation_hash(a) != sattn_permutation_hash(d));
  options.order = NULL;
  options.sharing = SATTN_SHARED;
  options.key.seed = 1;
  sattn_permutation *e = create(&options);
  assert_true(sattn_permutation_hash(a) != sattn_permutation_hash(e));
  sattn_permutation *all[] = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) sattn_permutation_destroy(&all[i]);
}

/* The digest is part of what programs may store: it must not change. */
static void hash_is_the_same_for_ever(void **state) {
  (void)state;
  const uint32_t order[6] = {3, 0, 5, 1, 4, 2};
  sattn_permutation_options options = options_of(6);
  options.order = order;
  sattn_permutation *permutation = create(&options);
  print_message("hash %016llx\n", (unsigned long long)sattn_permutation_hash(permutation));
  assert_true(sattn_permutation_hash(permutation) == UINT64_C(0x1e11336c0aac648d));
  sattn_permutation_destroy(&permutation);
}

static void redraw_changes_all_copies(void **state) {
  (void)state;
  sattn_permutation_options options = options_of(100);
  options.sharing = SATTN_PER_HEAD;
  options.kv_heads = 2;
  sattn_permutation *permutation = create(&options);
  uint64_t hash = sattn_permutation_hash(permutation), id = permutation->id;
  const sattn_permutation_key key = {3, 1, 4, 1};
  assert_int_equal(sattn_permutation_redraw(permutation, &key, NULL), SATTN_OK);
  assert_true(sattn_permutation_hash(permutation) != hash);
  assert_true(permutation->id == id);
  check_orders(permutation, key);
  assert_int_equal(sattn_permutation_redraw(permutation, &options.key, NULL), SATTN_OK);
  assert_true(sattn_permutation_hash(permutation) == hash);
  sattn_error error = {0};
  unit_refused(sattn_permutation_redraw(permutation, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "key", NULL);
  unit_refused(sattn_permutation_redraw(NULL, &key, &error), SATTN_INVALID_ARGUMENT, &error, "permutation", NULL);
  check_orders(permutation, options.key);
  sattn_permutation_destroy(&permutation);
}

static void orders_of_the_caller_are_checked(void **state) {
  (void)state;
  uint32_t order[2][4] = {{3, 1, 0, 2}, {0, 1, 2, 3}};
  sattn_permutation_options options = options_of(4);
  options.sharing = SATTN_PER_BATCH;
  options.batch = 2;
  options.order = order[0];
  sattn_permutation *permutation = create(&options);
  assert_memory_equal(sattn_permutation_order(permutation, 0), order[0], sizeof order[0]);
  assert_memory_equal(sattn_permutation_order(permutation, 1), order[1], sizeof order[1]);
  sattn_permutation_destroy(&permutation);
  order[1][2] = 4;
  refuse(&options, "order[1][2] is 4", "0 to 3");
  order[1][2] = UINT32_MAX;
  refuse(&options, "order[1][2] is 4294967295", NULL);
  order[1][2] = 1;
  refuse(&options, "order[1][2] is 1", "order[1][1]");
  order[0][3] = 3; /* the first bad entry is named */
  refuse(&options, "order[0][3] is 3", "order[0][0]");
}

static void empty_permutations(void **state) {
  (void)state;
  sattn_permutation_options options = options_of(0);
  sattn_permutation *permutation = create(&options);
  assert_int_equal(sattn_permutation_length(permutation), 0);
  assert_int_equal(sattn_permutation_count(permutation), 1);
  sattn_permutation_destroy(&permutation);
  options = options_of(5);
  options.sharing = SATTN_PER_BATCH;
  options.batch = 0;
  permutation = create(&options);
  assert_int_equal(sattn_permutation_count(permutation), 0);
  assert_null(sattn_permutation_order(permutation, 0));
  sattn_permutation_destroy(&permutation);
}

static void bad_options(void **state) {
  (void)state;
  sattn_permutation_options options = options_of(-1);
  refuse(&options, "length", "-1");
  options = options_of(INT64_C(1) << 31);
  refuse(&options, "length", "2147483648");
  options = options_of(4);
  options.sharing = (sattn_sharing)4;
  refuse(&options, "sharing", "4");
  options.sharing = SATTN_PER_HEAD;
  options.kv_heads = 0;
  refuse(&options, "kv_heads", "0");
  options.sharing = SATTN_PER_BATCH;
  options.batch = -1;
  refuse(&options, "batch", "-1");
  options = options_of(INT32_MAX);
  options.sharing = SATTN_PER_BATCH_AND_HEAD;
  options.batch = options.kv_heads = INT32_MAX;
  refuse(&options, "length", "address space");
  options.struct_size = 0;
  refuse(&options, "struct_size", NULL);
  refuse(NULL, "options is NULL", NULL);
  options = options_of(4);
  sattn_error error = {0};
  unit_refused(sattn_permutation_create(context, &options, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "out_permutation", NULL);
  sattn_permutation *permutation = NULL;
  unit_refused(sattn_permutation_create(NULL, &options, &permutation, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  sattn_permutation_destroy(&permutation);
  sattn_permutation_destroy(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sharing_uses_substreams_in_order),
    cmocka_unit_test(index_of_batch_and_head),
    cmocka_unit_test(hashes_tell_permutations_apart),
    cmocka_unit_test(hash_is_the_same_for_ever),
    cmocka_unit_test(redraw_changes_all_copies),
    cmocka_unit_test(orders_of_the_caller_are_checked),
    cmocka_unit_test(empty_permutations),
    cmocka_unit_test(bad_options),
};
UNIT_MAIN_WITH(tests, open_context, close_context)
