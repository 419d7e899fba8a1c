#include "conformance.h"

const test_exception conformance_exceptions[] = {
    {"opencl", TEST_EXPECTED_FAILURE, "gradients*", "the OpenCL backend has no backward pass yet"},
    {NULL, TEST_UNSUPPORTED, NULL, NULL},
};
