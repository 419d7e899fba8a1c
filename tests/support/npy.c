#include "npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

#define HEADER_LIMIT 4096

/* The text after 'key': in the header's dictionary. */
static const char *entry(const char *header, const char *key) {
  const char *found = strstr(header, key);
  return found ? strchr(found, ':') : NULL;
}

static int parse(const char *header, test_npy *array) {
  const char *kind = entry(header, "'descr'");
  const char *order = entry(header, "'fortran_order'");
  const char *shape = entry(header, "'shape'");
  if (!kind || !order || !shape || strncmp(order, ": False", 7) != 0) return -1;
  if (strncmp(kind, ": '<f4'", 7) == 0) {
    array->kind = TEST_NPY_FLOAT32;
  } else if (strncmp(kind, ": '<i4'", 7) == 0) {
    array->kind = TEST_NPY_INT32;
  } else if (strncmp(kind, ": '<u4'", 7) == 0) {
    array->kind = TEST_NPY_UINT32;
  } else {
    return -1;
  }
  const char *at = strchr(shape, '(');
  array->dimensions = 0;
  array->count = 1;
  while (at && array->dimensions < 4) {
    char *end;
    long long size = strtoll(at + 1, &end, 10);
    if (end == at + 1) break;
    if (size < 0 || size > 1000000000) return -1;
    array->size[array->dimensions++] = size;
    array->count *= (size_t)size;
    at = *end == ',' ? end : NULL;
  }
  return array->dimensions > 0 ? 0 : -1;
}

static int read_array(FILE *file, test_npy *array) {
  unsigned char start[12];
  char header[HEADER_LIMIT + 1];
  if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0) return -1;
  size_t length = (size_t)start[8] | (size_t)start[9] << 8;
  if (start[6] == 2) {
    if (fread(start + 10, 1, 2, file) != 2) return -1;
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  } else if (start[6] != 1) {
    return -1;
  }
  if (length > HEADER_LIMIT || fread(header, 1, length, file) != length) return -1;
  header[length] = '\0';
  if (parse(header, array)) return -1;
  array->data = test_memory(array->count * 4);
  if (fread(array->data, 4, array->count, file) != array->count) return -1;
  return fgetc(file) == EOF ? 0 : -1;
}

int test_npy_read(const char *path, test_npy *out_array, char *message, size_t capacity) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    snprintf(message, capacity, "%s: cannot be opened", path);
    return -1;
  }
  int failed = read_array(file, out_array);
  fclose(file);
  if (failed) snprintf(message, capacity, "%s: not a 4-byte little-endian C-order .npy file of its stated size", path);
  return failed;
}
