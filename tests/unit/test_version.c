#include "unit.h"

static void macro_function_and_text_agree(void **state) {
  (void)state;
  assert_int_equal(sattn_version(), SATTN_VERSION);
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", SATTN_VERSION_MAJOR, SATTN_VERSION_MINOR, SATTN_VERSION_PATCH);
  assert_string_equal(sattn_version_string(), text);
  assert_int_equal(SATTN_PERMUTATION_VERSION, 1);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(macro_function_and_text_agree)};
UNIT_MAIN(tests)
