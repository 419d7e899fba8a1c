#include "vectors.h"

const test_exception vectors_exceptions[] = {
    {NULL, TEST_UNSUPPORTED, NULL, NULL},
};
