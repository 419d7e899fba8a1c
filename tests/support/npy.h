/* Arrays in .npy files (format 1 and 2, C order, little-endian): what the vector folders hold. */
#ifndef TEST_NPY_H
#define TEST_NPY_H

#include <stddef.h>
#include <stdint.h>

typedef enum test_npy_kind { TEST_NPY_FLOAT32, TEST_NPY_INT32, TEST_NPY_UINT32 } test_npy_kind;

typedef struct test_npy {
  test_npy_kind kind;
  int dimensions; /* 1..4 */
  int64_t size[4];
  size_t count;
  void *data; /* test_memory */
} test_npy;

/* 0, or -1 with a sentence in `message`. */
int test_npy_read(const char *path, test_npy *out_array, char *message, size_t capacity);

#endif
