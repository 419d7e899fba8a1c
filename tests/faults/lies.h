/* What the wrapper says about devices that the real ones would not. */
#ifndef FAULTS_LIES_H
#define FAULTS_LIES_H

#include "wrapper.h"

typedef struct lies {
  int no_fp16, no_fp64, no_subgroups, gpu;
  size_t local, group, allocation; /* (size_t)-1: the truth */
} lies;

/* From SATTN_WRAPPER_LIES, read once. */
const lies *lies_get(void);

/* Changes an answer of clGetDeviceInfo. */
void lies_device(cl_device_info what, size_t size, void *value);

static inline size_t lies_least(size_t a, size_t b) {
  return a < b ? a : b;
}

#endif
