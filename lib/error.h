/* Making messages, and size arithmetic that cannot overflow unnoticed. */
#ifndef SATTN_LIB_ERROR_H
#define SATTN_LIB_ERROR_H

#include <stdbool.h>

#include <sattn/status.h>

#if defined(__GNUC__)
#define SATTN_PRINTF_LIKE(format_index, first) __attribute__((format(printf, format_index, first)))
#else
#define SATTN_PRINTF_LIKE(format_index, first)
#endif

/* Fills the error (which may be NULL) and returns `status`. `argument` may be NULL. The message reads: argument, value, rule. */
sattn_status sattn_fail(sattn_error *error, sattn_status status, const char *argument, const char *format, ...) SATTN_PRINTF_LIKE(4, 5);

/* The same with the driver's own code. */
sattn_status sattn_fail_driver(sattn_error *error, sattn_status status, int32_t driver_code, const char *format, ...)
    SATTN_PRINTF_LIKE(4, 5);

/* Returns false, and leaves *result alone, when the result does not fit. */
bool sattn_checked_add(uint64_t a, uint64_t b, uint64_t *result);
bool sattn_checked_multiply(uint64_t a, uint64_t b, uint64_t *result);

/* Checks `struct_size` of a caller's struct against the size that the library knows (status.h, rules) and copies it over `defaults`, which
 * the caller of this function has initialised: fields beyond struct_size keep their default. */
sattn_status sattn_copy_struct(const char *name, const void *from, size_t known_size, void *defaults, sattn_error *error);

/* The same check for a struct that the library will fill. */
sattn_status sattn_check_struct(const char *name, const void *target, size_t known_size, sattn_error *error);

/* Copies as many fields of `from` as the checked `target` has room for; struct_size of the target stays. */
void sattn_return_struct(const void *from, void *target);

#endif
