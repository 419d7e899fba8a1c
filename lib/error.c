#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *sattn_status_name(sattn_status status) {
  switch (status) {
    case SATTN_OK:
      return "SATTN_OK";
    case SATTN_INVALID_ARGUMENT:
      return "SATTN_INVALID_ARGUMENT";
    case SATTN_UNSUPPORTED:
      return "SATTN_UNSUPPORTED";
    case SATTN_UNAVAILABLE:
      return "SATTN_UNAVAILABLE";
    case SATTN_OUT_OF_MEMORY:
      return "SATTN_OUT_OF_MEMORY";
    case SATTN_BUILD_FAILED:
      return "SATTN_BUILD_FAILED";
    case SATTN_DRIVER_ERROR:
      return "SATTN_DRIVER_ERROR";
    case SATTN_MISMATCH:
      return "SATTN_MISMATCH";
    case SATTN_IO_ERROR:
      return "SATTN_IO_ERROR";
    case SATTN_INTERNAL:
      return "SATTN_INTERNAL";
  }
  return "unknown status";
}

static void fill(sattn_error *error, sattn_status status, int32_t driver_code, const char *argument, const char *format, va_list values) {
  error->status = status;
  error->driver_code = driver_code;
  snprintf(error->argument, sizeof error->argument, "%s", argument != NULL ? argument : "");
  vsnprintf(error->message, sizeof error->message, format, values);
  /* Drivers put line breaks into what they say; a message is one line. */
  for (char *at = error->message; *at != '\0'; ++at) {
    if (*at == '\n' || *at == '\r') *at = ' ';
  }
}

sattn_status sattn_fail(sattn_error *error, sattn_status status, const char *argument, const char *format, ...) {
  if (error != NULL) {
    va_list values;
    va_start(values, format);
    fill(error, status, 0, argument, format, values);
    va_end(values);
  }
  return status;
}

sattn_status sattn_fail_driver(sattn_error *error, sattn_status status, int32_t driver_code, const char *format, ...) {
  if (error != NULL) {
    va_list values;
    va_start(values, format);
    fill(error, status, driver_code, NULL, format, values);
    va_end(values);
  }
  return status;
}

bool sattn_checked_add(uint64_t a, uint64_t b, uint64_t *result) {
  if (a > UINT64_MAX - b) return false;
  *result = a + b;
  return true;
}

bool sattn_checked_multiply(uint64_t a, uint64_t b, uint64_t *result) {
  if (b != 0 && a > UINT64_MAX / b) return false;
  *result = a * b;
  return true;
}

/* Reads struct_size, the first field of every struct of the caller. */
static sattn_status struct_size(const char *name, const void *from, size_t known_size, size_t *out_size, sattn_error *error) {
  if (from == NULL) return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s is NULL: it must point to an initialised struct", name);
  size_t size = 0;
  memcpy(&size, from, sizeof size);
  if (size < sizeof size || size > known_size) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, name,
                      "%s.struct_size is %zu: call the _init function first (this library knows %zu bytes)", name, size, known_size);
  }
  /* Every version of a struct is a multiple of this; another size would cut through a pointer. */
  if (size % sizeof size != 0) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s.struct_size is %zu: it must be a multiple of %zu, as sizeof is", name, size,
                      sizeof size);
  }
  *out_size = size;
  return SATTN_OK;
}

sattn_status sattn_copy_struct(const char *name, const void *from, size_t known_size, void *defaults, sattn_error *error) {
  size_t size = 0;
  sattn_status status = struct_size(name, from, known_size, &size, error);
  if (status != SATTN_OK) return status;
  memcpy(defaults, from, size);
  memcpy(defaults, &known_size, sizeof known_size);
  return SATTN_OK;
}

sattn_status sattn_check_struct(const char *name, const void *target, size_t known_size, sattn_error *error) {
  size_t size = 0;
  return struct_size(name, target, known_size, &size, error);
}

void sattn_return_struct(const void *from, void *target) {
  size_t size = 0;
  memcpy(&size, target, sizeof size);
  memcpy((char *)target + sizeof size, (const char *)from + sizeof size, size - sizeof size);
}
