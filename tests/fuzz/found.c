#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

void fuzz_found(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "FOUND: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  abort();
}
