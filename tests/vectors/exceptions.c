#include "vectors.h"

const test_exception vectors_exceptions[] = {
    {"opencl", TEST_EXPECTED_FAILURE, "*/gradients", "the OpenCL backend has no backward pass yet"},
    {NULL, TEST_UNSUPPORTED, NULL, NULL},
};
