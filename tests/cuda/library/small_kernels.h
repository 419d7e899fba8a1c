/* Checks of the kernels that stand alone; failures are counted in common.h's way. */
#ifndef SATTN_TEST_CUDA_SMALL_KERNELS_H
#define SATTN_TEST_CUDA_SMALL_KERNELS_H

#include <sattn/sattn.h>

#include "random.h"

void small_rows(sattn_context *context, test_random *random);
void small_merge(sattn_context *context, test_random *random);

#endif
