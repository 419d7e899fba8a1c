/* What <sattn/cuda.h> and the tests need of NVIDIA's header, for machines without it. */
#include "cuda_calls.h"
