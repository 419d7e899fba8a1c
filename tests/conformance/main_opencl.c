/* conformance_opencl --backend opencl [--device ID] [--case PATTERN]...: what only an OpenCL program can ask for. */
#include "conformance.h"
#include "conformance_opencl.h"

static void all_cases(test_suite *suite) {
  cases_opencl_queues(suite);
  cases_opencl_processes(suite);
}

int main(int argc, char **argv) {
  test_suite suite;
  int status = test_child_main(argc, argv, opencl_children);
  if (status >= 0) return status;
  status = test_suite_parse(&suite, conformance_exceptions, argc, argv);
  return status ? status : test_suite_run(&suite, all_cases);
}
