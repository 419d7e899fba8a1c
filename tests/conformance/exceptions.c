#include "conformance.h"

const test_exception conformance_exceptions[] = {
    {NULL, TEST_UNSUPPORTED, NULL, NULL},
};
