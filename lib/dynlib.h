/* Libraries opened at run time: drivers and BLAS. */
#ifndef SATTN_LIB_DYNLIB_H
#define SATTN_LIB_DYNLIB_H

#include <stddef.h>

#include "error.h"

/* One entry of a symbol table: where the pointer goes, and whether the library is useless without it. */
typedef struct sattn_symbol {
  const char *name;
  size_t offset; /* of a function pointer within the table struct */
  int required;
} sattn_symbol;

/* Tries `names` (NULL-terminated, the versioned name first; "" is what the process has loaded already) and resolves `symbols` into `table`.
 * On failure nothing stays open, the table is zeroed, and the message names the library, what is missing and `hint` (what to install).
 * SATTN_UNAVAILABLE. */
sattn_status sattn_dynlib_open(const char *const *names, const sattn_symbol *symbols, size_t symbol_count, void *table, const char *hint,
                               void **out_library, sattn_error *error);

/* NULL is allowed. Drivers start threads and register exit handlers, so a driver that was used is never closed (see dynlib.c). */
void sattn_dynlib_close(void **library);

#endif
