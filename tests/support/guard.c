#include "guard.h"

#include <string.h>

#include "memory.h"

#define POISON 0xff

sattn_status test_guard_open(sattn_context *context, size_t bytes, int wrap, test_guard *guard, sattn_error *error) {
  guard->bytes = bytes + 2 * TEST_GUARD_MARGIN;
  guard->image = test_memory(guard->bytes);
  guard->now = test_memory(guard->bytes);
  guard->wrapped = wrap;
  guard->buffer = NULL;
  memset(guard->image, POISON, guard->bytes);
  if (wrap) return sattn_buffer_wrap_host(context, guard->now, guard->bytes, &guard->buffer, error);
  return sattn_buffer_create(context, guard->bytes, &guard->buffer, error);
}

void test_guard_close(test_guard *guard) {
  sattn_buffer_destroy(&guard->buffer);
}

sattn_status test_guard_send(test_guard *guard, sattn_error *error) {
  if (!guard->wrapped) return sattn_buffer_write(guard->buffer, 0, guard->image, guard->bytes, error);
  memcpy(guard->now, guard->image, guard->bytes);
  return SATTN_OK;
}

sattn_status test_guard_fetch(test_guard *guard, sattn_error *error) {
  if (guard->wrapped) return SATTN_OK;
  return sattn_buffer_read(guard->buffer, 0, guard->now, guard->bytes, error);
}

int64_t test_guard_first_change(const test_guard *guard) {
  for (size_t i = 0; i < guard->bytes; ++i) {
    if (guard->now[i] != guard->image[i]) return (int64_t)i;
  }
  return -1;
}
