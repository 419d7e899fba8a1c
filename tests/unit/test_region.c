/* Overlap of strided arrays against marking every byte, and what is checked of one array. */
#include "region.h"

#include "random.h"
#include "unit.h"

enum { BYTES = 4096 };

static sattn_region make(int64_t first, int64_t run, int levels, const int64_t *extents, const int64_t *strides) {
  sattn_region region = {.name = "r", .output = true, .first = first, .run = run, .levels = levels};
  for (int i = 0; i < levels; ++i) {
    int place = i;
    for (; place > 0 && region.stride[place - 1] < strides[i]; --place) {
      region.stride[place] = region.stride[place - 1];
      region.extent[place] = region.extent[place - 1];
    }
    region.stride[place] = strides[i];
    region.extent[place] = extents[i];
  }
  return region;
}

/* Adds 1 to every byte; returns whether one was marked twice by this region. */
static bool mark(const sattn_region *region, unsigned char *bytes) {
  int64_t e[3] = {1, 1, 1}, s[3] = {0, 0, 0};
  for (int i = 0; i < region->levels; ++i) {
    e[i] = region->extent[i];
    s[i] = region->stride[i];
  }
  bool twice = false;
  for (int64_t a = 0; a < e[0]; ++a) {
    for (int64_t b = 0; b < e[1]; ++b) {
      for (int64_t c = 0; c < e[2]; ++c) {
        for (int64_t x = 0; x < region->run; ++x) {
          int64_t at = region->first + a * s[0] + b * s[1] + c * s[2] + x;
          assert_true(at >= 0 && at < BYTES);
          if (++bytes[at] > 1) twice = true;
        }
      }
    }
  }
  return twice;
}

static bool meet_by_marking(const sattn_region *a, const sattn_region *b) {
  static unsigned char in_a[BYTES], in_b[BYTES];
  memset(in_a, 0, sizeof in_a);
  memset(in_b, 0, sizeof in_b);
  mark(a, in_a);
  mark(b, in_b);
  for (int i = 0; i < BYTES; ++i) {
    if (in_a[i] != 0 && in_b[i] != 0) return true;
  }
  return false;
}

static bool itself_by_marking(const sattn_region *region) {
  static unsigned char bytes[BYTES];
  memset(bytes, 0, sizeof bytes);
  return mark(region, bytes);
}

static sattn_region random_region(test_random *random, const int64_t *shared_strides) {
  int64_t extents[3], strides[3];
  int levels = (int)test_random_below(random, 4);
  for (int i = 0; i < levels; ++i) {
    extents[i] = 2 + test_random_below(random, 4);
    strides[i] = shared_strides != NULL && test_random_below(random, 4) != 0 ? shared_strides[i] : 1 + test_random_below(random, 90);
  }
  return make(test_random_below(random, 300), 1 + test_random_below(random, 8), levels, extents, strides);
}

static void any_strides_against_marking(void **state) {
  (void)state;
  uint64_t seed = test_seed();
  test_random random = test_random_open(seed, "any_strides_against_marking");
  int met = 0, apart = 0, folded = 0, plain = 0;
  for (int i = 0; i < 20000; ++i) {
    int64_t shared[3];
    for (int k = 0; k < 3; ++k) shared[k] = 1 + test_random_below(&random, 90);
    const sattn_region a = random_region(&random, shared), b = random_region(&random, shared);
    bool want = meet_by_marking(&a, &b), self = itself_by_marking(&a);
    if (sattn_regions_meet(&a, &b) != want || sattn_regions_meet(&b, &a) != want || sattn_region_meets_itself(&a) != self) {
      fail_msg("case %d; rerun: SATTN_TEST_SEED=%llu unit_region", i, (unsigned long long)seed);
    }
    *(want ? &met : &apart) += 1;
    *(self ? &folded : &plain) += 1;
  }
  assert_true(met > 1000 && apart > 1000 && folded > 1000 && plain > 1000);
}

/* Slices of one packed [B, n, 3, H, d] buffer lie between one another and do not meet; a slice that is one element off does. */
static void slices_of_a_packed_buffer(void **state) {
  (void)state;
  const int64_t batch = 64, n = 65536, heads = 32, row = 128 * 2, token = 3 * heads * row;
  const int64_t extents[3] = {batch, n, heads}, strides[3] = {n * token, token, row};
  const sattn_region q = make(0, row, 3, extents, strides), k = make(heads * row, row, 3, extents, strides);
  const sattn_region v = make(2 * heads * row, row, 3, extents, strides), off = make(heads * row - 2, row, 3, extents, strides);
  assert_false(sattn_regions_meet(&q, &k));
  assert_false(sattn_regions_meet(&v, &k));
  assert_true(sattn_regions_meet(&q, &off));
  assert_true(sattn_regions_meet(&k, &off));
  assert_false(sattn_region_meets_itself(&q));
  /* A cache of other length in the same buffer, with the same strides, and a gate of one element per head beside the heads. */
  const int64_t shorter[3] = {batch, n - 7, heads}, gate_strides[3] = {n * token, token, 2};
  const sattn_region part = make(heads * row, row, 3, shorter, strides), gate = make(2 * heads * row, 2, 3, extents, gate_strides);
  assert_false(sattn_regions_meet(&part, &q));
  assert_false(sattn_regions_meet(&gate, &k));
  assert_true(sattn_regions_meet(&gate, &v));
}

static sattn_status add_tensor(sattn_tensor tensor, sattn_extent extent, sattn_buffer *buffer, sattn_error *error) {
  sattn_region_set set;
  sattn_region_begin(&set, buffer->context, "the plan", error);
  sattn_region_add_tensor(&set, &extent, &tensor);
  return sattn_region_end(&set);
}

static void tensors(void **state) {
  (void)state;
  sattn_context context = {0}, other = {0};
  sattn_buffer buffer = {.context = &context, .bytes = 4 * 2 * 3 * 2 * 5}, foreign = {.context = &other, .bytes = 1000};
  const sattn_extent out = {"out", SATTN_REQUIRED, true, 4, 2, 3, 2, 5};
  sattn_extent in = out;
  in.output = false;
  sattn_error error = {0};
  const sattn_tensor packed = {&buffer, 0, 0, 0, 0};
  unit_ok(add_tensor(packed, out, &buffer, &error), &error);
  unit_ok(add_tensor((sattn_tensor){&buffer, 0, 30, 5, 15}, out, &buffer, &error), &error); /* [B, H, n, d] */
  const struct {
    sattn_tensor tensor;
    bool output;
    const char *word, *value;
  } cases[] = {
      {{NULL, 0, 0, 0, 0}, true, "out is missing", "the plan"},
      {{&foreign, 0, 0, 0, 0}, true, "another context", NULL},
      {{&buffer, -1, 0, 0, 0}, true, "out.offset is -1", NULL},
      {{&buffer, 1, 0, 0, 0}, true, "from offset 1", "240 bytes"},
      {{&buffer, INT64_MAX, 0, 0, 0}, true, "out", "240 bytes"},
      {{&buffer, 0, -30, 10, 5}, true, "out.stride_batch is -30", NULL},
      {{&buffer, 0, 30, -10, 5}, true, "out.stride_token is -10", NULL},
      {{&buffer, 0, 30, 10, -5}, true, "out.stride_head is -5", NULL},
      {{&buffer, 0, INT64_MAX, INT64_MAX, INT64_MAX}, true, "2^64", NULL},
      {{&buffer, 0, INT64_MAX, 10, 5}, true, "out", "240 bytes"},
      {{&buffer, 0, 31, 10, 5}, true, "out", "61 elements"},
      {{&buffer, 0, 0, 10, 5}, true, "out overlaps itself", NULL},
      {{&buffer, 0, 30, 0, 5}, true, "out overlaps itself", NULL},
      {{&buffer, 0, 30, 10, 4}, true, "out overlaps itself", NULL},
      {{&buffer, 0, 0, 10, 5}, false, NULL, NULL},
      {{&buffer, 0, 30, 10, 4}, false, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sattn_status status = add_tensor(cases[i].tensor, cases[i].output ? out : in, &buffer, &error);
    if (cases[i].word == NULL) {
      unit_ok(status, &error);
    } else {
      unit_refused(status, SATTN_INVALID_ARGUMENT, &error, cases[i].word, cases[i].value);
    }
  }
  sattn_extent absent = out, empty = out;
  absent.presence = SATTN_ABSENT;
  unit_refused(add_tensor(packed, absent, &buffer, &error), SATTN_INVALID_ARGUMENT, &error, "out is given", NULL);
  empty.batch = 0;
  unit_ok(add_tensor((sattn_tensor){NULL, 0, 0, 0, 0}, empty, &buffer, &error), &error);
}

static void workspaces(void **state) {
  (void)state;
  sattn_context context = {0};
  sattn_buffer buffer = {.context = &context, .bytes = 1024};
  const struct {
    uint64_t bytes;
    const sattn_buffer *buffer;
    int64_t offset;
    const char *word;
  } cases[] = {{1024, &buffer, 0, NULL},
               {768, &buffer, 256, NULL},
               {0, NULL, 0, NULL},
               {0, &buffer, 256, NULL},
               {1025, &buffer, 0, "1024"},
               {769, &buffer, 256, "1024"},
               {1, NULL, 0, "workspace is missing"},
               {1, &buffer, 128, "is 128"},
               {1, &buffer, -256, "-256"},
               {1, &buffer, 1024, "1024"},
               {UINT64_MAX, &buffer, 256, "workspace"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    sattn_error error = {0};
    sattn_region_set set;
    sattn_region_begin(&set, &context, "the plan", &error);
    sattn_region_add_workspace(&set, cases[i].bytes, cases[i].buffer, cases[i].offset);
    if (cases[i].word == NULL) {
      unit_ok(sattn_region_end(&set), &error);
    } else {
      unit_refused(sattn_region_end(&set), SATTN_INVALID_ARGUMENT, &error, cases[i].word, NULL);
    }
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_strides_against_marking),
    cmocka_unit_test(slices_of_a_packed_buffer),
    cmocka_unit_test(tensors),
    cmocka_unit_test(workspaces),
};
UNIT_MAIN(tests)
