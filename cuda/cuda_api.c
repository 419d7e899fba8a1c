#include "cuda_api.h"

#include <pthread.h>

#include "dynlib.h"

#define INSTALL_HINT "install the NVIDIA driver (its libcuda.so.1)"

static const char *const library_names[] = {"libcuda.so.1", "libcuda.so", NULL};

static const sattn_symbol symbols[] = {
#define SYMBOL(symbol, name, parameters) {#symbol, offsetof(sattn_cuda_api, name), 1},
    SATTN_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* Addresses of driver functions, written once under the lock; the driver itself is as global as they are. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static sattn_cuda_api loaded_api;
static void *loaded_library;
static int initialised;

const sattn_cuda_api *sattn_cuda_api_get(sattn_error *error) {
  sattn_status status = SATTN_OK;
  pthread_mutex_lock(&load_lock);
  if (!loaded_library) {
    status =
        sattn_dynlib_open(library_names, symbols, sizeof symbols / sizeof symbols[0], &loaded_api, INSTALL_HINT, &loaded_library, error);
  }
  if (status == SATTN_OK && !initialised) {
    sattn_cu_result code = loaded_api.init(0);
    if (code == SATTN_CU_SUCCESS) {
      initialised = 1;
    } else {
      const char *text = NULL;
      loaded_api.get_error_name(code, &text);
      status = sattn_fail_driver(error, SATTN_UNAVAILABLE, code, "cuInit returned %d (%s): %s", code, text ? text : "unknown",
                                 code == SATTN_CU_ERROR_NO_DEVICE ? "there is no NVIDIA GPU" : "the NVIDIA driver cannot be used");
    }
  }
  pthread_mutex_unlock(&load_lock);
  return status == SATTN_OK ? &loaded_api : NULL;
}

sattn_status sattn_cuda_check(const sattn_cuda_api *api, sattn_cu_result code, const char *function, sattn_error *error) {
  if (code == SATTN_CU_SUCCESS) return SATTN_OK;
  const char *name = NULL;
  api->get_error_name(code, &name);
  if (!name) name = "unknown CUDA error";
  switch (code) {
    case SATTN_CU_ERROR_OUT_OF_MEMORY:
      return sattn_fail_driver(error, SATTN_OUT_OF_MEMORY, code, "%s returned %d (%s)", function, code, name);
    case SATTN_CU_ERROR_NO_BINARY_FOR_GPU:
    case SATTN_CU_ERROR_INVALID_PTX:
    case SATTN_CU_ERROR_UNSUPPORTED_PTX_VERSION:
      return sattn_fail_driver(error, SATTN_UNAVAILABLE, code,
                               "%s returned %d (%s): the NVIDIA driver is too old for these kernels; update it", function, code, name);
    default:
      return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "%s returned %d (%s)", function, code, name);
  }
}
