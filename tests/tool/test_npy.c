/* The .npy reader against files that lie, and the writer's promise: whole or not at all, all or none. */
#include <arrays.h>
#include <math.h>
#include <npy.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/sattn-test-npy-XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder); /* fails if a test left a file behind */
}

static const char *in_folder(const char *name) {
  static char paths[4][128];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void put_file(const char *path, const void *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, count, file), count);
  assert_int_equal(fclose(file), 0);
}

/* magic, version, header length (the true one plus `lie`), dictionary, data */
static size_t build(unsigned char *file, int version, const char *dictionary, int lie, size_t data_bytes) {
  size_t length = strlen(dictionary), told = (size_t)((int)length + lie), at = 8;
  memcpy(file, "\x93NUMPY", 6);
  file[6] = (unsigned char)version;
  file[7] = 0;
  for (int i = 0; i < (version == 1 ? 2 : 4); i++) file[at++] = (unsigned char)(told >> (8 * i));
  memcpy(file + at, dictionary, length);
  memset(file + at + length, 7, data_bytes);
  return at + length + data_bytes;
}

static void expect_refusal(const char *path, const char *word) {
  sattn_report report = {0, ""};
  sattn_npy array;
  memset(&array, 0x5a, sizeof array);
  sattn_npy before = array;
  assert_false(sattn_npy_read(path, &array, &report));
  assert_int_equal(report.exit_status, SATTN_EXIT_REFUSED);
  if (!strstr(report.message, word) || !strstr(report.message, path))
    fail_msg("message '%s' lacks '%s' or the file's name", report.message, word);
  assert_memory_equal(&array, &before, sizeof array);
}

#define FLOATS "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"

static void test_refuses_headers_that_lie(void **state) {
  static const struct {
    int version;
    const char *dictionary;
    int lie;
    size_t data;
    const char *word;
  } files[] = {
      {1, FLOATS, 0, 23, "truncated"},
      {1, FLOATS, 0, 25, "follow"},
      {1, FLOATS, 1000, 24, "truncated"},
      {1, FLOATS, -30, 24, "malformed"},
      {2, FLOATS, 1 << 30, 24, "at most"},
      {4, FLOATS, 0, 24, "version"},
      {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 0, 24, "Fortran"},
      {1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", 0, 24, "byte order"},
      {1, "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", 0, 48, "<c8"},
      {1, "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", 0, 48, "|O"},
      {1, "{'descr': '', 'fortran_order': False, 'shape': (2, 3), }", 0, 48, "not supported"},
      {1, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", 0, 24, "records"},
      {1, "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }", 0, 24, "fortran_order"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3), }", 0, 24, "whole number"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3.5), }", 0, 24, "shape"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", 0, 24, "tuple"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", 0, 24, "shape"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0, 24, "63 bits"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 0, 0, "63 bits"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4, 0), }", 0, 0, "63 bits"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", 0, 24, "truncated"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 0, 4, "dimensions"},
      {1, "{'descr': '<f4', 'shape': (2, 3), }", 0, 24, "missing"},
      {1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 0, 24, "twice"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}", 0, 24, "unknown key"},
      {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } 1", 0, 24, "follows the dictionary"},
      {1, "{'descr': '<f4", 0, 24, "quoted"},
      {1, "", 0, 24, "dictionary"},
  };
  static unsigned char bytes[4096];
  const char *path = in_folder("lie.npy");
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    put_file(path, bytes, build(bytes, files[i].version, files[i].dictionary, files[i].lie, files[i].data));
    expect_refusal(path, files[i].word);
  }
  unlink(path);
}

static void test_refuses_every_truncation(void **state) {
  unsigned char bytes[512];
  const char *path = in_folder("cut.npy");
  size_t whole = build(bytes, 1, FLOATS, 0, 24);
  (void)state;
  for (size_t count = 0; count < whole; count++) {
    put_file(path, bytes, count);
    expect_refusal(path, count < 6 ? "magic" : "truncated");
  }
  unlink(path);
}

static void test_refuses_what_is_no_such_file(void **state) {
  const char *path = in_folder("other.npy");
  (void)state;
  expect_refusal(in_folder("absent.npy"), "cannot be opened");
  expect_refusal(folder, "not a regular file");
  put_file(path, "PK\x03\x04 this is a zip archive", 27);
  expect_refusal(path, "magic");
  unlink(path);
  /* Nobody will ever write to this pipe: waiting for it to be opened would be for ever. */
  assert_int_equal(mkfifo(path, 0600), 0);
  alarm(60);
  expect_refusal(path, "not a regular file");
  alarm(0);
  unlink(path);
}

static void test_reads_every_version_and_spelling(void **state) {
  static const struct {
    int version;
    const char *dictionary;
    size_t data;
    int dimensions;
  } files[] = {{1, FLOATS, 24, 2},
               {2, FLOATS, 24, 2},
               {3, FLOATS, 24, 2},
               {1, "{\"shape\": (6,), \"fortran_order\": False, \"descr\": \"<f4\"}", 24, 1},
               {1, "{'descr':'=f4','fortran_order':False,'shape':()}", 4, 0},
               {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 2), }", 0, 3}};
  unsigned char bytes[512];
  const char *path = in_folder("good.npy");
  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    sattn_report report = {0, ""};
    sattn_npy array;
    put_file(path, bytes, build(bytes, files[i].version, files[i].dictionary, 0, files[i].data));
    if (!sattn_npy_read(path, &array, &report)) fail_msg("%s: %s", files[i].dictionary, report.message);
    assert_int_equal(array.type, SATTN_NPY_FLOAT32);
    assert_int_equal(array.dimensions, files[i].dimensions);
    assert_int_equal(array.count, files[i].data / 4);
    for (size_t b = 0; b < files[i].data; b++) assert_int_equal(((unsigned char *)array.data)[b], 7);
    sattn_npy_free(&array);
  }
  unlink(path);
}

static void test_writes_what_it_reads(void **state) {
  static const sattn_npy_type types[] = {SATTN_NPY_FLOAT16, SATTN_NPY_FLOAT32, SATTN_NPY_FLOAT64,
                                         SATTN_NPY_INT32,   SATTN_NPY_INT64,   SATTN_NPY_UINT32};
  const char *path = in_folder("round.npy");
  unsigned char data[5 * 4 * 8];
  (void)state;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 37 + 1);
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (int dimensions = 0; dimensions <= 2; dimensions++) {
      sattn_report report = {0, ""};
      sattn_npy written = {types[t], dimensions, {5, 4}, dimensions == 0 ? 1 : dimensions == 1 ? 5 : 20, data}, read;
      sattn_npy_writer writer = {0};
      struct stat facts;
      assert_true(sattn_npy_writer_add(&writer, path, &written, &report));
      assert_true(sattn_npy_writer_commit(&writer, &report));
      size_t bytes = (size_t)written.count * sattn_npy_type_size(types[t]);
      assert_int_equal(stat(path, &facts), 0);
      assert_int_equal(((size_t)facts.st_size - bytes) % 64, 0);
      assert_true(sattn_npy_read(path, &read, &report));
      assert_int_equal(read.type, types[t]);
      assert_int_equal(read.dimensions, dimensions);
      assert_int_equal(read.count, written.count);
      assert_memory_equal(read.data, data, bytes);
      sattn_npy_free(&read);
    }
  unlink(path);
}

static sattn_npy small_array(void) {
  static float value = 1;
  sattn_npy array = {SATTN_NPY_FLOAT32, 0, {0}, 1, &value};
  return array;
}

static void test_nothing_appears_before_commit(void **state) {
  sattn_report report = {0, ""};
  sattn_npy array = small_array();
  sattn_npy_writer writer = {0};
  const char *path = in_folder("later.npy");
  (void)state;
  assert_true(sattn_npy_writer_add(&writer, path, &array, &report));
  assert_int_not_equal(access(path, F_OK), 0);
  sattn_npy_writer_discard(&writer);
  assert_int_not_equal(access(path, F_OK), 0);
}

static void test_one_bad_name_leaves_no_file(void **state) {
  sattn_report report = {0, ""};
  sattn_npy array = small_array();
  sattn_npy_writer writer = {0};
  (void)state;
  assert_true(sattn_npy_writer_add(&writer, in_folder("first.npy"), &array, &report));
  assert_false(sattn_npy_writer_add(&writer, in_folder("no/such/folder.npy"), &array, &report));
  assert_non_null(strstr(report.message, "folder.npy"));
  assert_false(sattn_npy_writer_add(&writer, in_folder("first.npy"), &array, &report));
  /* The same file by another spelling. */
  sattn_report about_name = {0, ""};
  assert_false(sattn_npy_writer_add(&writer, in_folder("./first.npy"), &array, &about_name));
  assert_non_null(strstr(about_name.message, "two outputs"));
  assert_false(sattn_npy_writer_add(&writer, folder, &array, &report));
  /* Replaced by a rename, a pipe, a device or a link would be gone. */
  sattn_report about_pipe = {0, ""};
  char pipe_path[128];
  snprintf(pipe_path, sizeof pipe_path, "%s/pipe.npy", folder);
  assert_int_equal(mkfifo(pipe_path, 0600), 0);
  assert_false(sattn_npy_writer_add(&writer, pipe_path, &array, &about_pipe));
  assert_non_null(strstr(about_pipe.message, "ordinary file"));
  assert_int_equal(unlink(pipe_path), 0);
  sattn_npy_writer_discard(&writer);
  assert_int_not_equal(access(in_folder("first.npy"), F_OK), 0);
}

/* The second target becomes a folder after its file was prepared, so that its rename fails: the first must go again. */
static void test_a_failed_rename_takes_the_others_back(void **state) {
  sattn_report report = {0, ""};
  sattn_npy array = small_array();
  sattn_npy_writer writer = {0};
  const char *first = in_folder("first.npy"), *second = in_folder("second.npy");
  (void)state;
  assert_true(sattn_npy_writer_add(&writer, first, &array, &report));
  assert_true(sattn_npy_writer_add(&writer, second, &array, &report));
  assert_int_equal(mkdir(second, 0700), 0);
  assert_false(sattn_npy_writer_commit(&writer, &report));
  assert_int_equal(report.exit_status, SATTN_EXIT_REFUSED);
  assert_int_not_equal(access(first, F_OK), 0);
  assert_int_equal(rmdir(second), 0);
}

static sattn_npy doubles(const double *values, uint64_t count) {
  sattn_npy array = {SATTN_NPY_FLOAT64, 1, {(int64_t)count}, count, malloc(count * sizeof *values)};
  assert_non_null(array.data);
  memcpy(array.data, values, count * sizeof *values);
  return array;
}

/* --dtype takes float64, too. The second and third lie a hair beside the middle between two halves: rounded to fp32 first, they would be
 * that middle, and go to the even neighbour. */
static void test_doubles_are_rounded_once(void **state) {
  const double values[] = {0.1,   1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-8 + 0x1p-9 + 0x1p-10 + 0x1p-11 - 0x1p-40),
                           65520, 0x1p-25 + 0x1p-60,     -0.0};
  const uint16_t halves[] = {0x2e66, 0x3c01, 0xbc07, 0x7c00, 0x0001, 0x8000};
  (void)state;
  sattn_report report = {0, ""};
  sattn_npy array = doubles(values, 6);
  assert_true(sattn_to_storage(&array, SATTN_FP16, "q", &report));
  assert_int_equal(array.type, SATTN_NPY_FLOAT16);
  for (int i = 0; i < 6; i++) assert_int_equal(((uint16_t *)array.data)[i], halves[i]);
  sattn_npy_free(&array);
  array = doubles(values, 6);
  assert_true(sattn_to_storage(&array, SATTN_FP32, "q", &report));
  assert_int_equal(array.type, SATTN_NPY_FLOAT32);
  for (int i = 0; i < 6; i++) assert_true(((float *)array.data)[i] == (float)values[i]);
  sattn_npy_free(&array);
  const double beside[] = {1 + 0x1p-8 + 0x1p-40, NAN, INFINITY};
  array = doubles(beside, 3);
  assert_true(sattn_to_storage(&array, SATTN_BF16, "q", &report));
  assert_int_equal(((uint16_t *)array.data)[0], 0x3f81);
  assert_true(isnan(sattn_bf16_to_float(((uint16_t *)array.data)[1])));
  assert_int_equal(((uint16_t *)array.data)[2], 0x7f80);
  sattn_npy_free(&array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_refuses_headers_that_lie),     cmocka_unit_test(test_refuses_every_truncation),
      cmocka_unit_test(test_refuses_what_is_no_such_file), cmocka_unit_test(test_reads_every_version_and_spelling),
      cmocka_unit_test(test_writes_what_it_reads),         cmocka_unit_test(test_nothing_appears_before_commit),
      cmocka_unit_test(test_one_bad_name_leaves_no_file),  cmocka_unit_test(test_a_failed_rename_takes_the_others_back),
      cmocka_unit_test(test_doubles_are_rounded_once),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
