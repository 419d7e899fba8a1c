/* The only place that knows which backends exist. A backend left out of the build is a table whose probe says so. */
#include "backend.h"

static const sattn_backend_ops *const backends[SATTN_BACKEND_COUNT] = {
    &sattn_reference_backend,
    &sattn_opencl_backend,
    &sattn_cuda_backend,
};

const sattn_backend_ops *sattn_registry_get(sattn_backend backend) {
  for (size_t i = 0; i < SATTN_BACKEND_COUNT; ++i) {
    if (backends[i]->backend == backend && backends[i]->interface_version == SATTN_BACKEND_INTERFACE_VERSION) return backends[i];
  }
  return NULL;
}
