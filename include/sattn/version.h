/* Version of the library: macros at compile time, functions at run time. */
#ifndef SATTN_VERSION_H
#define SATTN_VERSION_H

#include <sattn/export.h>

#define SATTN_VERSION_MAJOR 0
#define SATTN_VERSION_MINOR 1
#define SATTN_VERSION_PATCH 0

/* One number that grows with every release: 10000 * major + 100 * minor + patch. */
#define SATTN_VERSION (SATTN_VERSION_MAJOR * 10000 + SATTN_VERSION_MINOR * 100 + SATTN_VERSION_PATCH)

/* Number of the permutation format (contract: permutation, version 1). A given format never changes; a new one gets a new number. */
#define SATTN_PERMUTATION_VERSION 1

SATTN_BEGIN_DECLS

/* SATTN_VERSION of the library that was loaded. Differs from the macro when header and library come from different releases.
 * Thread-safety: safe. */
SATTN_API int sattn_version(void);

/* The same as text, "MAJOR.MINOR.PATCH". Static storage; never NULL. Thread-safety: safe. */
SATTN_API const char *sattn_version_string(void);

SATTN_END_DECLS

#endif
