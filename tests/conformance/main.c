/* conformance --backend NAME [--device ID] [--case PATTERN] [--seed N] */
#include "conformance.h"

static void all_cases(test_suite *suite) {
  cases_visible(suite);
  cases_properties(suite);
  cases_numerics(suite);
  cases_decode(suite);
  cases_shapes(suite);
  cases_layouts(suite);
  cases_far(suite);
  cases_options(suite);
  cases_repeat(suite);
  cases_refusals(suite);
  cases_support(suite);
  cases_gradients(suite);
  cases_gradients_field(suite);
  cases_runtime(suite);
  cases_rows(suite);
  cases_host(suite);
  cases_field(suite);
}

int main(int argc, char **argv) {
  test_suite suite;
  int status = test_child_main(argc, argv, runtime_children);
  if (status >= 0) return status;
  status = test_suite_parse(&suite, conformance_exceptions, argc, argv);
  return status ? status : test_suite_run(&suite, all_cases);
}
