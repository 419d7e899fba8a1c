#include "conformance.h"

#define SHARED_RESCALE "rows of a group rescale together: NaN in one can move the last bit of another"

const test_exception conformance_exceptions[] = {
    {"opencl", TEST_EXPECTED_FAILURE, "garbage-queries-bits/[fsug]*", SHARED_RESCALE},
    {"opencl", TEST_EXPECTED_FAILURE, "unseen-garbage-bits/sa", SHARED_RESCALE},
    {"opencl", TEST_EXPECTED_FAILURE, "unseen-garbage-bits/[ug]*", SHARED_RESCALE},
    {NULL, TEST_UNSUPPORTED, NULL, NULL},
};
