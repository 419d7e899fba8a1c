/* Format version 1: known answers, properties, statistics. Statistics run on fixed seeds: they cannot fail by chance from one run to the
 * next. */
#include "philox.h"

#include "unit.h"

static uint32_t crc32_of(const uint32_t *numbers, size_t count) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < count; ++i) {
    for (int byte = 0; byte < 4; ++byte) {
      crc ^= (numbers[i] >> (8 * byte)) & 0xffu;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
    }
  }
  return ~crc;
}

static FILE *open_vectors(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/permutation/%s", UNIT_VECTORS, name);
  FILE *file = fopen(path, "r");
  if (file == NULL) fail_msg("%s cannot be read", path);
  return file;
}

static void philox_known_answers(void **state) {
  (void)state;
  FILE *file = open_vectors("philox4x32-10.txt");
  char line[512];
  int cases = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (line[0] == '#') continue;
    sattn_philox_words counter;
    uint32_t key[2], want[4];
    int fields = sscanf(line, "%x %x %x %x %x %x %x %x %x %x", &counter.word[0], &counter.word[1], &counter.word[2], &counter.word[3],
                        &key[0], &key[1], &want[0], &want[1], &want[2], &want[3]);
    assert_int_equal(fields, 10);
    const sattn_philox_words got = sattn_philox4x32_10(counter, key[0], key[1]);
    assert_memory_equal(got.word, want, sizeof want);
    ++cases;
  }
  fclose(file);
  assert_true(cases >= 5);
}

static uint32_t *draw(int64_t n, sattn_permutation_key key, uint32_t *slot) {
  uint32_t *order = malloc((size_t)(n > 0 ? n : 1) * sizeof *order);
  assert_non_null(order);
  sattn_error error = {0};
  unit_ok(sattn_permutation_draw(n, &key, order, slot, &error), &error);
  return order;
}

/* "seed layer substream step n | first entries | crc32" */
static void order_known_answers(void **state) {
  (void)state;
  FILE *file = open_vectors("order.txt");
  char line[512];
  int cases = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    if (line[0] == '#') continue;
    unsigned long long seed, n;
    sattn_permutation_key key = {0};
    int used = 0;
    assert_int_equal(sscanf(line, "%llu %u %u %u %llu |%n", &seed, &key.layer, &key.substream, &key.step, &n, &used), 5);
    key.seed = seed;
    uint32_t *order = draw((int64_t)n, key, NULL);
    const char *at = line + used;
    for (unsigned long long i = 0; i < n && i < 8; ++i) {
      char *end = NULL;
      assert_int_equal(order[i], strtoul(at, &end, 10));
      assert_true(end != at);
      at = end;
    }
    const char *bar = strchr(at, '|');
    assert_non_null(bar);
    assert_int_equal(crc32_of(order, (size_t)n), strtoul(bar + 1, NULL, 16));
    free(order);
    ++cases;
  }
  fclose(file);
  assert_true(cases >= 29);
}

static void check_bijection(int64_t n, sattn_permutation_key key) {
  uint32_t *slot = malloc((size_t)(n > 0 ? n : 1) * sizeof *slot);
  assert_non_null(slot);
  memset(slot, 0xff, (size_t)n * sizeof *slot);
  uint32_t *order = draw(n, key, slot);
  for (int64_t i = 0; i < n; ++i) {
    if (order[i] >= (uint64_t)n || slot[order[i]] != (uint64_t)i) fail_msg("n %lld: not a bijection at %lld", (long long)n, (long long)i);
  }
  free(order);
  free(slot);
}

static void bijections(void **state) {
  (void)state;
  for (int64_t n = 0; n < 700; ++n) check_bijection(n, (sattn_permutation_key){(uint64_t)n, 1, 2, 3});
  const int64_t large[] = {1000, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 200000, 1048577};
  for (size_t i = 0; i < sizeof large / sizeof large[0]; ++i) check_bijection(large[i], (sattn_permutation_key){7, 0, 0, 0});
}

/* The definition, the slow way: sort by (key, token). */
static void order_is_the_tokens_sorted_by_key(void **state) {
  (void)state;
  enum { N = 777 };
  const sattn_permutation_key key = {UINT64_C(0x0123456789abcdef), 5, 6, 7};
  uint32_t *order = draw(N, key, NULL);
  for (uint32_t i = 1; i < N; ++i) {
    uint64_t before = sattn_sort_key(order[i - 1], key.seed, key.layer, key.substream, key.step);
    uint64_t after = sattn_sort_key(order[i], key.seed, key.layer, key.substream, key.step);
    assert_true(before < after || (before == after && order[i - 1] < order[i]));
  }
  free(order);
}

static void prefixes_are_consistent(void **state) {
  (void)state;
  enum { N = 1000 };
  const sattn_permutation_key key = {42, 3, 0, 9};
  uint32_t *whole = draw(N, key, NULL);
  const int64_t lengths[] = {0, 1, 2, 3, 63, 64, 65, 500, 999};
  for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; ++i) {
    uint32_t *part = draw(lengths[i], key, NULL);
    int64_t at = 0;
    for (int64_t s = 0; s < N; ++s) {
      if (whole[s] < (uint64_t)lengths[i]) assert_int_equal(part[at++], whole[s]);
    }
    assert_int_equal(at, lengths[i]);
    free(part);
  }
  free(whole);
}

static void either_output_may_be_left_out(void **state) {
  (void)state;
  const sattn_permutation_key key = {1, 0, 0, 0};
  uint32_t slot[100], alone[100];
  uint32_t *order = draw(100, key, slot);
  assert_int_equal(sattn_permutation_draw(100, &key, NULL, alone, NULL), SATTN_OK);
  assert_memory_equal(slot, alone, sizeof slot);
  assert_int_equal(sattn_permutation_draw(100, &key, NULL, NULL, NULL), SATTN_OK);
  free(order);
}

static void bad_arguments(void **state) {
  (void)state;
  uint32_t order[4] = {9, 9, 9, 9};
  const sattn_permutation_key key = {0};
  sattn_error error = {0};
  unit_refused(sattn_permutation_draw(-1, &key, order, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "n is -1", NULL);
  unit_refused(sattn_permutation_draw(INT64_C(1) << 31, &key, order, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "n is 2147483648",
               NULL);
  unit_refused(sattn_permutation_draw(4, NULL, order, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "key", NULL);
  for (int i = 0; i < 4; ++i) assert_int_equal(order[i], 9);
}

/* Lehmer code of an order of 4: 0..23. */
static int rank_of_four(const uint32_t *order) {
  int rank = 0;
  for (int i = 0; i < 4; ++i) {
    int smaller = 0;
    for (int j = i + 1; j < 4; ++j) smaller += order[j] < order[i];
    rank = rank * (4 - i) + smaller;
  }
  return rank;
}

/* 24,000 consecutive seeds, then as many layers of one seed, expectation 1,000 per order; a chi-square of 23 degrees of freedom exceeds 71
 * once in a million. One test of each. */
static void orders_of_four_are_uniform(void **state) {
  (void)state;
  for (int by_layer = 0; by_layer <= 1; ++by_layer) {
    int counts[24] = {0};
    for (uint32_t i = 0; i < 24000; ++i) {
      uint32_t order[4];
      const sattn_permutation_key key = {by_layer ? 0 : i, by_layer ? i : 0, 0, 0};
      assert_int_equal(sattn_permutation_draw(4, &key, order, NULL, NULL), SATTN_OK);
      ++counts[rank_of_four(order)];
    }
    double chi_square = 0;
    for (int i = 0; i < 24; ++i) chi_square += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
    print_message("chi-square of the 24 orders of 4, by %s: %.2f (limit 71)\n", by_layer ? "layer" : "seed", chi_square);
    assert_true(chi_square < 71.0);
  }
}

/* 256 layers and seeds: all different, and about one fixed point each (variance 1, so the mean of 256 has standard error 1/16). */
static void layers_and_seeds_differ(void **state) {
  (void)state;
  enum { N = 64, COUNT = 256 };
  static uint32_t orders[COUNT][N];
  int fixed = 0;
  for (uint32_t i = 0; i < COUNT; ++i) {
    const sattn_permutation_key key = {i / 16, i % 16, 0, 0};
    assert_int_equal(sattn_permutation_draw(N, &key, orders[i], NULL, NULL), SATTN_OK);
    for (uint32_t s = 0; s < N; ++s) fixed += orders[i][s] == s;
    for (uint32_t j = 0; j < i; ++j) assert_true(memcmp(orders[i], orders[j], sizeof orders[i]) != 0);
  }
  print_message("fixed points: %.3f per order (expected 1)\n", fixed / (double)COUNT);
  assert_true(fixed > COUNT * 3 / 4 && fixed < COUNT * 5 / 4); /* 4 standard errors */
}

/* |slot[t] - slot[t + 1]| has mean (n + 1) / 3 and variance (n + 1)(n - 2) / 18 for a random order; neighbouring distances correlate
 * weakly, so a tolerance of 6 naive standard errors is wide. Neighbouring tokens must not stay near one another, whatever the distance
 * looked at. */
static void distances_at_large_n(void **state) {
  (void)state;
  enum { N = 1 << 20 };
  uint32_t *slot = malloc(N * sizeof *slot);
  assert_non_null(slot);
  const int64_t gaps[] = {1, 2, 64, 1000, 65536};
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const sattn_permutation_key key = {20260401, layer, 0, 0};
    assert_int_equal(sattn_permutation_draw(N, &key, NULL, slot, NULL), SATTN_OK);
    for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; ++g) {
      double sum = 0;
      int64_t near = 0, pairs = N - gaps[g];
      for (int64_t t = 0; t < pairs; ++t) {
        int64_t distance = (int64_t)slot[t] - (int64_t)slot[t + gaps[g]];
        if (distance < 0) distance = -distance;
        sum += (double)distance;
        near += distance < 256;
      }
      double mean = sum / (double)pairs, expected = (N + 1.0) / 3.0;
      /* Standard error of the mean: n / sqrt(18 pairs) = 241; of the count near 2 * 255.. / n * pairs = 510: sqrt(510) = 23. */
      if (mean < expected - 1450 || mean > expected + 1450)
        fail_msg("gap %lld: mean distance %.0f, expected %.0f", (long long)gaps[g], mean, expected);
      double expected_near = (double)pairs * 2.0 * 255.0 / N;
      if ((double)near < expected_near - 140 || (double)near > expected_near + 140) {
        fail_msg("gap %lld: %lld pairs within 255 slots, expected %.0f", (long long)gaps[g], (long long)near, expected_near);
      }
    }
  }
  free(slot);
}

static void every_word_of_the_key_counts(void **state) {
  (void)state;
  const sattn_permutation_key keys[] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {UINT64_C(1) << 32, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  enum { COUNT = sizeof keys / sizeof keys[0], N = 32 };
  uint32_t orders[COUNT][N];
  for (size_t i = 0; i < COUNT; ++i) {
    assert_int_equal(sattn_permutation_draw(N, &keys[i], orders[i], NULL, NULL), SATTN_OK);
    for (size_t j = 0; j < i; ++j) assert_true(memcmp(orders[i], orders[j], sizeof orders[i]) != 0);
  }
}

static void random_numbers_of_the_caller_are_left_alone(void **state) {
  (void)state;
  int alone[50], between[50];
  srand(12345);
  for (int i = 0; i < 50; ++i) alone[i] = rand();
  srand(12345);
  for (int i = 0; i < 50; ++i) {
    check_bijection(37, (sattn_permutation_key){(uint64_t)i, 0, 0, 0});
    between[i] = rand();
  }
  assert_memory_equal(alone, between, sizeof alone);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(philox_known_answers),
    cmocka_unit_test(order_known_answers),
    cmocka_unit_test(bijections),
    cmocka_unit_test(order_is_the_tokens_sorted_by_key),
    cmocka_unit_test(prefixes_are_consistent),
    cmocka_unit_test(either_output_may_be_left_out),
    cmocka_unit_test(bad_arguments),
    cmocka_unit_test(orders_of_four_are_uniform),
    cmocka_unit_test(layers_and_seeds_differ),
    cmocka_unit_test(distances_at_large_n),
    cmocka_unit_test(every_word_of_the_key_counts),
    cmocka_unit_test(random_numbers_of_the_caller_are_left_alone),
};
UNIT_MAIN(tests)
