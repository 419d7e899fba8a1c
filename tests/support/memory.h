/* Memory of a test case: taken piece by piece, given back all at once. Keeps the tests free of bookkeeping. */
#ifndef TEST_MEMORY_H
#define TEST_MEMORY_H

#include <stddef.h>

/* Zeroed; never NULL (a test without memory ends). Aligned for any device that uses host memory in place. Thread-safety: safe, but for
 * releasing. */
void *test_memory(size_t bytes);

/* Frees everything that was taken since the last release. */
void test_memory_release(void);

#endif
