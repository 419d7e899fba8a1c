/* Names, defaults and the meaning of a width, with the worked example of the contract. */
#include "unit.h"

static void names(void **state) {
  (void)state;
  const char *const modes[] = {"full", "swa", "sa", "union", "gated", "moba"};
  for (int i = 0; i < 6; ++i) assert_string_equal(sattn_mode_name((sattn_mode)(i + 1)), modes[i]);
  assert_null(sattn_mode_name((sattn_mode)0));
  assert_null(sattn_mode_name((sattn_mode)7));
  const char *const dtypes[] = {"fp32", "fp16", "bf16"};
  const size_t sizes[] = {4, 2, 2};
  for (int i = 0; i < 3; ++i) {
    assert_string_equal(sattn_dtype_name((sattn_dtype)(i + 1)), dtypes[i]);
    assert_int_equal(sattn_dtype_size((sattn_dtype)(i + 1)), sizes[i]);
  }
  assert_null(sattn_dtype_name((sattn_dtype)4));
  assert_int_equal(sattn_dtype_size((sattn_dtype)0), 0);
}

static void defaults(void **state) {
  (void)state;
  sattn_attention attention;
  memset(&attention, 0x55, sizeof attention);
  sattn_attention_init(&attention);
  assert_int_equal(attention.struct_size, sizeof attention);
  assert_int_equal(attention.causal, 1);
  assert_int_equal(attention.dtype, SATTN_FP32);
  assert_int_equal(attention.gate_dtype, SATTN_FP32);
  assert_int_equal(attention.window_sa.kind, SATTN_WINDOW_NONE);
  assert_int_equal(attention.sharing, SATTN_SHARED);
  assert_true(attention.scale == 0 && attention.softcap == 0);
  sattn_attention_init(NULL);
}

static void check_width(sattn_band band, int causal, int64_t width, int64_t left, int64_t right) {
  int64_t got_left = -7, got_right = -7;
  sattn_error error = {0};
  unit_ok(sattn_window_resolve(band, causal, sattn_window_width(width), &got_left, &got_right, &error), &error);
  assert_true(got_left == left && got_right == right);
}

static void widths_become_sides(void **state) {
  (void)state;
  for (int64_t w = 1; w < 100; ++w) {
    check_width(SATTN_BAND_SWA, 1, w, w - 1, 0);
    check_width(SATTN_BAND_SA, 1, w, w - 1, w - 1);
    check_width(SATTN_BAND_SWA, 0, w, w / 2, w - 1 - w / 2);
    check_width(SATTN_BAND_SA, 0, w, w / 2, w - 1 - w / 2);
  }
  check_width(SATTN_BAND_SA, 1, INT64_MAX, INT64_MAX - 1, INT64_MAX - 1);
}

static void sides_stay_as_they_are(void **state) {
  (void)state;
  int64_t left = -1, right = -1;
  sattn_error error = {0};
  unit_ok(sattn_window_resolve(SATTN_BAND_SA, 1, sattn_window_sides(0, SATTN_UNBOUNDED), &left, &right, &error), &error);
  assert_true(left == 0 && right == SATTN_UNBOUNDED);
}

static void windows_that_are_refused(void **state) {
  (void)state;
  const sattn_window width_and_left = {SATTN_WINDOW_WIDTH, 3, 2, 0}, width_and_right = {SATTN_WINDOW_WIDTH, 3, 0, 2};
  const sattn_window sides_and_width = {SATTN_WINDOW_SIDES, 3, 2, 0}, none = {SATTN_WINDOW_NONE, 0, 0, 0},
                     unknown = {(sattn_window_kind)3, 1, 0, 0};
  const struct {
    sattn_band band;
    sattn_window window;
    const char *word, *value;
  } cases[] = {
      {SATTN_BAND_SWA, sattn_window_width(0), "window_swa.width", "is 0: a width must be at least 1"},
      {SATTN_BAND_SA, sattn_window_width(-1), "window_sa.width", "is -1"},
      {SATTN_BAND_SA, sattn_window_width(INT32_MIN), "window_sa.width", "-2147483648"},
      {SATTN_BAND_SA, sattn_window_width(INT64_MIN), "window_sa.width", "-9223372036854775808"},
      {SATTN_BAND_SA, sattn_window_sides(-2, 3), "window_sa.left", "is -2"},
      {SATTN_BAND_SWA, sattn_window_sides(3, -4), "window_swa.right", "is -4"},
      {SATTN_BAND_SWA, width_and_left, "window_swa.left", "is 2"},
      {SATTN_BAND_SWA, width_and_right, "window_swa.right", "is 2"},
      {SATTN_BAND_SWA, sides_and_width, "window_swa.width", "is 3"},
      {SATTN_BAND_SWA, none, "window_swa", "is 0"},
      {SATTN_BAND_SWA, unknown, "window_swa.kind", "is 3"},
      {(sattn_band)3, sattn_window_width(1), "band", "is 3"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    for (int causal = 0; causal < 2; ++causal) {
      int64_t left = -7, right = -7;
      sattn_error error = {0};
      sattn_status status = sattn_window_resolve(cases[i].band, causal, cases[i].window, &left, &right, &error);
      unit_refused(status, SATTN_INVALID_ARGUMENT, &error, cases[i].word, cases[i].value);
      assert_true(left == -7 && right == -7);
      assert_int_equal(sattn_window_resolve(cases[i].band, causal, cases[i].window, &left, &right, NULL), SATTN_INVALID_ARGUMENT);
    }
  }
  int64_t side = 0;
  assert_int_equal(sattn_window_resolve(SATTN_BAND_SA, 1, sattn_window_width(1), NULL, &side, NULL), SATTN_INVALID_ARGUMENT);
  assert_int_equal(sattn_window_resolve(SATTN_BAND_SA, 1, sattn_window_width(1), &side, NULL, NULL), SATTN_INVALID_ARGUMENT);
}

/* Bit j of sets[i]: token i sees token j. */
static void visible_sets(sattn_band band, int causal, int64_t width, const uint32_t *slot, uint32_t sets[6]) {
  int64_t left = 0, right = 0;
  assert_int_equal(sattn_window_resolve(band, causal, sattn_window_width(width), &left, &right, NULL), SATTN_OK);
  for (int64_t i = 0; i < 6; ++i) {
    sets[i] = 0;
    for (int64_t j = 0; j < 6; ++j) {
      int64_t difference = (int64_t)slot[j] - (int64_t)slot[i];
      if (difference >= -left && difference <= right && (!causal || j <= i)) sets[i] |= 1u << j;
    }
  }
}

static void worked_example(void **state) {
  (void)state;
  const uint32_t order[6] = {3, 0, 5, 1, 4, 2};
  uint32_t slot[6], identity[6];
  for (uint32_t i = 0; i < 6; ++i) {
    slot[order[i]] = i;
    identity[i] = i;
  }
  /* {0} {0,1} {0,1,2} {1,2,3} {2,3,4} {3,4,5} */
  const uint32_t causal_swa[6] = {0x01, 0x03, 0x07, 0x0e, 0x1c, 0x38};
  /* {0} {0,1} {1,2} {0,3} {1,2,4} {0,1,3,4,5} */
  const uint32_t causal_sa[6] = {0x01, 0x03, 0x06, 0x09, 0x16, 0x3b};
  /* {0,3,5} {1,4,5} {2,4} {0,3} {1,2,4} {0,1,5} */
  const uint32_t two_way_sa[6] = {0x29, 0x32, 0x14, 0x09, 0x16, 0x23};
  uint32_t sets[6];
  visible_sets(SATTN_BAND_SWA, 1, 3, identity, sets);
  assert_memory_equal(sets, causal_swa, sizeof sets);
  visible_sets(SATTN_BAND_SA, 1, 3, slot, sets);
  assert_memory_equal(sets, causal_sa, sizeof sets);
  visible_sets(SATTN_BAND_SA, 0, 3, slot, sets);
  assert_memory_equal(sets, two_way_sa, sizeof sets);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names),
    cmocka_unit_test(defaults),
    cmocka_unit_test(widths_become_sides),
    cmocka_unit_test(sides_stay_as_they_are),
    cmocka_unit_test(windows_that_are_refused),
    cmocka_unit_test(worked_example),
};
UNIT_MAIN(tests)
