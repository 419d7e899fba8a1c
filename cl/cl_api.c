#include "cl_api.h"

#include <pthread.h>

#include "dynlib.h"

#define INSTALL_HINT "install an ICD loader and an ICD such as pocl-opencl-icd"

/* A process that has OpenCL already (linked, or preloaded by a tool such as Oclgrind) means that one: its objects must fit ours. */
static const char *const process_names[] = {"", NULL};
static const char *const library_names[] = {"libOpenCL.so.1", "libOpenCL.so", NULL};

static const sattn_symbol symbols[] = {
#define SYMBOL(function) {#function, offsetof(sattn_cl_api, function), 1},
    SATTN_CL_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* Addresses of driver functions, written once under the lock; the driver itself is as global as they are. */
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static sattn_cl_api loaded_api;
static void *loaded_library;

static sattn_status load(const char *const *names, sattn_error *error) {
  return sattn_dynlib_open(names, symbols, sizeof symbols / sizeof symbols[0], &loaded_api, INSTALL_HINT, &loaded_library, error);
}

const sattn_cl_api *sattn_cl_api_get(sattn_error *error) {
  sattn_status status = SATTN_OK;
  pthread_mutex_lock(&load_lock);
  if (!loaded_library && load(process_names, NULL) != SATTN_OK) status = load(library_names, error);
  pthread_mutex_unlock(&load_lock);
  return status == SATTN_OK ? &loaded_api : NULL;
}

typedef struct status_text {
  cl_int code;
  const char *text;
} status_text;

#define TEXT(code) \
  { code, #code }
static const status_text status_texts[] = {
    TEXT(CL_SUCCESS),
    TEXT(CL_DEVICE_NOT_FOUND),
    TEXT(CL_DEVICE_NOT_AVAILABLE),
    TEXT(CL_COMPILER_NOT_AVAILABLE),
    TEXT(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    TEXT(CL_OUT_OF_RESOURCES),
    TEXT(CL_OUT_OF_HOST_MEMORY),
    TEXT(CL_PROFILING_INFO_NOT_AVAILABLE),
    TEXT(CL_MEM_COPY_OVERLAP),
    TEXT(CL_BUILD_PROGRAM_FAILURE),
    TEXT(CL_MAP_FAILURE),
    TEXT(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    TEXT(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    TEXT(CL_COMPILE_PROGRAM_FAILURE),
    TEXT(CL_LINKER_NOT_AVAILABLE),
    TEXT(CL_LINK_PROGRAM_FAILURE),
    TEXT(CL_INVALID_VALUE),
    TEXT(CL_INVALID_DEVICE_TYPE),
    TEXT(CL_INVALID_PLATFORM),
    TEXT(CL_INVALID_DEVICE),
    TEXT(CL_INVALID_CONTEXT),
    TEXT(CL_INVALID_QUEUE_PROPERTIES),
    TEXT(CL_INVALID_COMMAND_QUEUE),
    TEXT(CL_INVALID_HOST_PTR),
    TEXT(CL_INVALID_MEM_OBJECT),
    TEXT(CL_INVALID_BINARY),
    TEXT(CL_INVALID_BUILD_OPTIONS),
    TEXT(CL_INVALID_PROGRAM),
    TEXT(CL_INVALID_PROGRAM_EXECUTABLE),
    TEXT(CL_INVALID_KERNEL_NAME),
    TEXT(CL_INVALID_KERNEL_DEFINITION),
    TEXT(CL_INVALID_KERNEL),
    TEXT(CL_INVALID_ARG_INDEX),
    TEXT(CL_INVALID_ARG_VALUE),
    TEXT(CL_INVALID_ARG_SIZE),
    TEXT(CL_INVALID_KERNEL_ARGS),
    TEXT(CL_INVALID_WORK_DIMENSION),
    TEXT(CL_INVALID_WORK_GROUP_SIZE),
    TEXT(CL_INVALID_WORK_ITEM_SIZE),
    TEXT(CL_INVALID_GLOBAL_OFFSET),
    TEXT(CL_INVALID_EVENT_WAIT_LIST),
    TEXT(CL_INVALID_EVENT),
    TEXT(CL_INVALID_OPERATION),
    TEXT(CL_INVALID_BUFFER_SIZE),
    TEXT(CL_INVALID_GLOBAL_WORK_SIZE),
    TEXT(CL_INVALID_PROPERTY),
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};
#undef TEXT

const char *sattn_cl_status_text(cl_int code) {
  for (size_t i = 0; i < sizeof status_texts / sizeof status_texts[0]; ++i) {
    if (status_texts[i].code == code) return status_texts[i].text;
  }
  return "unknown OpenCL status";
}

sattn_status sattn_cl_check(cl_int code, const char *function, sattn_error *error) {
  if (code == CL_SUCCESS) return SATTN_OK;
  bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
  return sattn_fail_driver(error, memory ? SATTN_OUT_OF_MEMORY : SATTN_DRIVER_ERROR, code, "%s returned %d (%s)", function, (int)code,
                           sattn_cl_status_text(code));
}
