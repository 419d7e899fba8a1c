/* Files built into the library by cmake/SattnEmbed.cmake: kernel sources and device images. */
#ifndef SATTN_LIB_EMBEDDED_H
#define SATTN_LIB_EMBEDDED_H

#include <stddef.h>

typedef struct sattn_embedded_file {
  const char *name; /* base name; NULL ends the table */
  const unsigned char *bytes; /* followed by a terminating zero that is not counted */
  size_t length;
} sattn_embedded_file;

#endif
