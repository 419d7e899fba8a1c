/* A driver that has been used starts threads and registers exit handlers; unloading it under them crashes at exit. So callers close only
 * what they opened and never called. */
#include "dynlib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_CAPACITY = 256 };

/* "a, b, c" for the message. */
static void join_names(const char *const *names, char *text, size_t capacity) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; names[i] != NULL && used + 1 < capacity; ++i) {
    int written = snprintf(text + used, capacity - used, "%s%s", i > 0 ? ", " : "", names[i]);
    if (written < 0) return;
    used += (size_t)written;
  }
}

/* Table bytes that the symbols cover: the table struct itself is known to the caller only. */
static void zero_table(const sattn_symbol *symbols, size_t symbol_count, void *table) {
  for (size_t i = 0; i < symbol_count; ++i) memset((char *)table + symbols[i].offset, 0, sizeof(void *));
}

/* Returns the name of the first required symbol that is missing, or NULL. */
static const char *resolve(void *library, const sattn_symbol *symbols, size_t symbol_count, void *table) {
  for (size_t i = 0; i < symbol_count; ++i) {
    void *address = dlsym(library, symbols[i].name);
    if (address == NULL && symbols[i].required) return symbols[i].name;
    /* ISO C has no conversion from object to function pointer; POSIX gives both the same representation. */
    memcpy((char *)table + symbols[i].offset, &address, sizeof address);
  }
  return NULL;
}

sattn_status sattn_dynlib_open(const char *const *names, const sattn_symbol *symbols, size_t symbol_count, void *table, const char *hint,
                               void **out_library, sattn_error *error) {
  const char *found = NULL;
  const char *missing = NULL;
  for (size_t i = 0; names[i] != NULL; ++i) {
    void *library = dlopen(names[i][0] != '\0' ? names[i] : NULL, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) continue;
    const char *absent = resolve(library, symbols, symbol_count, table);
    if (absent == NULL) {
      *out_library = library;
      return SATTN_OK;
    }
    zero_table(symbols, symbol_count, table);
    dlclose(library);
    if (found == NULL) {
      found = names[i];
      missing = absent;
    }
  }
  zero_table(symbols, symbol_count, table);
  if (found != NULL) {
    return sattn_fail(error, SATTN_UNAVAILABLE, NULL, "%s was found, but lacks the function %s: %s", found, missing, hint);
  }
  char tried[NAMES_CAPACITY];
  join_names(names, tried, sizeof tried);
  return sattn_fail(error, SATTN_UNAVAILABLE, NULL, "no library of the names %s can be loaded: %s", tried, hint);
}

void sattn_dynlib_close(void **library) {
  if (library == NULL || *library == NULL) return;
  dlclose(*library);
  *library = NULL;
}
