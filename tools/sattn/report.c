#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool keep(sattn_report *report, int exit_status, const char *format, va_list arguments) {
  report->exit_status = exit_status;
  vsnprintf(report->message, sizeof report->message, format, arguments);
  return false;
}

bool sattn_tool_refuse(sattn_report *report, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(report, SATTN_EXIT_REFUSED, format, arguments);
  va_end(arguments);
  return false;
}

bool sattn_tool_misuse(sattn_report *report, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(report, SATTN_EXIT_USAGE, format, arguments);
  va_end(arguments);
  return false;
}

bool sattn_tool_check(sattn_report *report, sattn_status status, const sattn_error *error) {
  if (status == SATTN_OK) return true;
  const char *message = error && error->message[0] ? error->message : "no message";
  if (error && error->driver_code)
    return sattn_tool_refuse(report, "%s (%s, driver code %d)", message, sattn_status_name(status), (int)error->driver_code);
  return sattn_tool_refuse(report, "%s (%s)", message, sattn_status_name(status));
}

void *sattn_tool_allocate(sattn_report *report, const char *what, uint64_t count, size_t size) {
  if (count == 0) count = 1;
  void *memory = count > SIZE_MAX / size ? NULL : calloc((size_t)count, size);
  if (!memory) sattn_tool_refuse(report, "%s: no memory for %llu elements of %zu bytes", what, (unsigned long long)count, size);
  return memory;
}
