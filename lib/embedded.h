/* Files built into the library by cmake/SattnEmbed.cmake: kernel sources and device images. */
#ifndef SATTN_LIB_EMBEDDED_H
#define SATTN_LIB_EMBEDDED_H

#include <stddef.h>

typedef struct sattn_embedded_file {
  const char *name;           /* base name; NULL ends the table */
  const unsigned char *bytes; /* aligned to 64, followed by a terminating zero that is not counted */
  const unsigned char *end;
} sattn_embedded_file;

static inline size_t sattn_embedded_length(const sattn_embedded_file *file) {
  return (size_t)(file->end - file->bytes);
}

#endif
