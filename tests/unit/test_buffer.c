#include "objects.h"

#include "unit.h"

static sattn_context *context;

static int open_context(void **state) {
  (void)state;
  context = unit_context();
  return 0;
}

static int close_context(void **state) {
  (void)state;
  sattn_context_destroy(&context);
  return 0;
}

static void write_and_read_back(void **state) {
  (void)state;
  sattn_buffer *buffer = NULL;
  sattn_error error = {0};
  unit_ok(sattn_buffer_create(context, 16, &buffer, &error), &error);
  assert_int_equal(sattn_buffer_size(buffer), 16);
  const char source[16] = "abcdefghijklmno";
  char target[16] = {0};
  unit_ok(sattn_buffer_write(buffer, 0, source, 16, &error), &error);
  unit_ok(sattn_buffer_write(buffer, 2, "XY", 2, &error), &error);
  unit_ok(sattn_buffer_read(buffer, 1, target, 4, &error), &error);
  assert_memory_equal(target, "bXYe", 4);
  unit_ok(sattn_buffer_read(buffer, 16, NULL, 0, &error), &error);
  unit_ok(sattn_buffer_write(buffer, 16, NULL, 0, &error), &error);
  unit_refused(sattn_buffer_read(buffer, 17, target, 0, &error), SATTN_INVALID_ARGUMENT, &error, "offset is 17", "16 bytes");
  unit_refused(sattn_buffer_read(buffer, 10, target, 7, &error), SATTN_INVALID_ARGUMENT, &error, "offset is 10", "7 bytes");
  unit_refused(sattn_buffer_write(buffer, UINT64_MAX, source, 2, &error), SATTN_INVALID_ARGUMENT, &error, "offset", NULL);
  unit_refused(sattn_buffer_write(buffer, 0, NULL, 2, &error), SATTN_INVALID_ARGUMENT, &error, "source", NULL);
  unit_refused(sattn_buffer_read(buffer, 0, NULL, 2, &error), SATTN_INVALID_ARGUMENT, &error, "target", NULL);
  unit_refused(sattn_buffer_read(NULL, 0, target, 2, &error), SATTN_INVALID_ARGUMENT, &error, "buffer", NULL);
  unit_refused(sattn_buffer_write(NULL, 0, source, 2, &error), SATTN_INVALID_ARGUMENT, &error, "buffer", NULL);
  sattn_buffer_destroy(&buffer);
  assert_null(buffer);
  sattn_buffer_destroy(&buffer);
  sattn_buffer_destroy(NULL);
  assert_int_equal(sattn_buffer_size(NULL), 0);
}

static void empty_buffers(void **state) {
  (void)state;
  sattn_buffer *buffer = NULL;
  assert_int_equal(sattn_buffer_create(context, 0, &buffer, NULL), SATTN_OK);
  assert_int_equal(sattn_buffer_size(buffer), 0);
  sattn_buffer_destroy(&buffer);
}

static void host_memory_in_place(void **state) {
  (void)state;
  assert_int_equal(sattn_context_device(context)->shares_host_memory, 1);
  _Alignas(4) char memory[8] = "1234567";
  sattn_buffer *buffer = NULL;
  sattn_error error = {0};
  unit_ok(sattn_buffer_wrap_host(context, memory, sizeof memory, &buffer, &error), &error);
  unit_ok(sattn_buffer_write(buffer, 0, "ab", 2, &error), &error);
  assert_memory_equal(memory, "ab34567", 8);
  sattn_buffer_destroy(&buffer);
  assert_memory_equal(memory, "ab34567", 8);
  unit_refused(sattn_buffer_wrap_host(context, NULL, 1, &buffer, &error), SATTN_INVALID_ARGUMENT, &error, "memory", NULL);
  unit_refused(sattn_buffer_wrap_host(context, memory, 1, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "out_buffer", NULL);
  unit_refused(sattn_buffer_wrap_host(NULL, memory, 1, &buffer, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_buffer_wrap_host(context, memory + 2, 4, &buffer, &error), SATTN_INVALID_ARGUMENT, &error, "memory", "multiple of 4");
  context->device.shares_host_memory = 0;
  unit_refused(sattn_buffer_wrap_host(context, memory, 1, &buffer, &error), SATTN_UNSUPPORTED, &error, "memory", "reference:0");
  context->device.shares_host_memory = 1;
  assert_null(buffer);
}

static void sizes_beyond_the_device(void **state) {
  (void)state;
  sattn_buffer *buffer = NULL;
  sattn_error error = {0};
  unit_refused(sattn_buffer_create(context, UINT64_MAX, &buffer, &error), SATTN_INVALID_ARGUMENT, &error, "18446744073709551615", NULL);
  uint64_t most = context->device.max_allocation_bytes;
  context->device.max_allocation_bytes = 1000;
  unit_refused(sattn_buffer_create(context, 1001, &buffer, &error), SATTN_OUT_OF_MEMORY, &error, "1001", "1000");
  assert_int_equal(sattn_buffer_create(context, 1000, &buffer, NULL), SATTN_OK);
  sattn_buffer_destroy(&buffer);
  context->device.max_allocation_bytes = most;
  unit_refused(sattn_buffer_create(NULL, 1, &buffer, &error), SATTN_INVALID_ARGUMENT, &error, "context", NULL);
  unit_refused(sattn_buffer_create(context, 1, NULL, &error), SATTN_INVALID_ARGUMENT, &error, "out_buffer", NULL);
}

static void packed_strides(void **state) {
  (void)state;
  sattn_tensor tensor = {NULL, 5, 0, 0, 0};
  sattn_tensor_resolve(&tensor, 7, 3, 8);
  assert_true(tensor.stride_batch == 168 && tensor.stride_token == 24 && tensor.stride_head == 8 && tensor.offset == 5);
  sattn_tensor given = {NULL, 0, 0, 0, 9};
  sattn_tensor_resolve(&given, 7, 3, 8);
  assert_true(given.stride_batch == 0 && given.stride_token == 0 && given.stride_head == 9);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(write_and_read_back),     cmocka_unit_test(empty_buffers),  cmocka_unit_test(host_memory_in_place),
    cmocka_unit_test(sizes_beyond_the_device), cmocka_unit_test(packed_strides),
};
UNIT_MAIN_WITH(tests, open_context, close_context)
