/* Refusals in the library's own form. */
#ifndef SATTN_TOOLS_FIELD_REFUSE_H
#define SATTN_TOOLS_FIELD_REFUSE_H

#include <sattn/status.h>

#if defined(__GNUC__)
#define SATTN_FIELD_PRINTF_LIKE(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define SATTN_FIELD_PRINTF_LIKE(format_index, first)
#endif

/* Fills the error, which may be NULL, and returns `status`. */
sattn_status sattn_field_refuse(sattn_error *error, sattn_status status, const char *argument, const char *format, ...)
    SATTN_FIELD_PRINTF_LIKE(4, 5);

sattn_status sattn_field_no_memory(sattn_error *error);

#endif
