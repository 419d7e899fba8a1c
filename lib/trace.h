/* What SATTN_TRACE asks for. The only place of the library that writes to a stream. */
#ifndef SATTN_LIB_TRACE_H
#define SATTN_LIB_TRACE_H

#include <stdint.h>

#include "error.h"

typedef enum sattn_trace_level { SATTN_TRACE_ERROR = 1, SATTN_TRACE_DISPATCH = 2, SATTN_TRACE_BUILD = 4 } sattn_trace_level;

/* Sum of the levels named in a SATTN_TRACE value; NULL and unknown words count nothing. */
uint32_t sattn_trace_parse(const char *text);

/* Writes `sattn:LEVEL: text` to standard error if `levels` holds `level`. */
void sattn_trace(uint32_t levels, sattn_trace_level level, const char *format, ...) SATTN_PRINTF_LIKE(3, 4);

#endif
