#include "refuse.h"

#include <stdarg.h>
#include <stdio.h>

sattn_status sattn_field_refuse(sattn_error *error, sattn_status status, const char *argument, const char *format, ...) {
  if (error != NULL) {
    *error = (sattn_error){.status = status};
    snprintf(error->argument, sizeof error->argument, "%s", argument != NULL ? argument : "");
    va_list values;
    va_start(values, format);
    vsnprintf(error->message, sizeof error->message, format, values);
    va_end(values);
  }
  return status;
}

sattn_status sattn_field_no_memory(sattn_error *error) {
  return sattn_field_refuse(error, SATTN_OUT_OF_MEMORY, NULL, "the host's memory does not suffice for this n and this many layers");
}
