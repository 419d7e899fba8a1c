/* A piece of device memory with a known picture: every byte is poison until a test puts something there, and every byte that a call had no
 * business with must be the same afterwards. Poison is 0xff, which is NaN in all storage types: what is read beyond an array shows, too.
 */
#ifndef TEST_GUARD_H
#define TEST_GUARD_H

#include <sattn/sattn.h>

/* Poisoned bytes before and after everything. A multiple of any alignment that matters. */
#define TEST_GUARD_MARGIN 256

typedef struct test_guard {
  sattn_buffer *buffer;
  unsigned char *image; /* what the device memory is meant to hold; TEST_GUARD_MARGIN + bytes + TEST_GUARD_MARGIN */
  unsigned char *now;   /* what it holds, after test_guard_fetch; with `wrap` the memory that the device uses */
  size_t bytes;         /* margins included */
  int wrapped;
} test_guard;

/* Makes the device memory for `bytes` bytes beyond the margins, with a poisoned image. wrap: uses host memory in place. */
sattn_status test_guard_open(sattn_context *context, size_t bytes, int wrap, test_guard *guard, sattn_error *error);
void test_guard_close(test_guard *guard);

/* Image to device. */
sattn_status test_guard_send(test_guard *guard, sattn_error *error);
/* Device to `now`. */
sattn_status test_guard_fetch(test_guard *guard, sattn_error *error);

/* Offset of the first byte where now and image differ, or -1. */
int64_t test_guard_first_change(const test_guard *guard);

#endif
