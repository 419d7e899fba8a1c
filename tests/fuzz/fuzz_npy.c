/* The .npy reader: any file is either read, with a size that fits its shape, or refused with a sentence. What was read is written and read
 * again. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "npy.h"

static char folder[64];

static void clean_up(void) {
  char path[128];
  snprintf(path, sizeof path, "%s/in.npy", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/out.npy", folder);
  unlink(path);
  rmdir(folder);
}

static void make_folder(void) {
  snprintf(folder, sizeof folder, "/dev/shm/sattn-fuzz-XXXXXX");
  if (!mkdtemp(folder)) {
    snprintf(folder, sizeof folder, "/tmp/sattn-fuzz-XXXXXX");
    if (!mkdtemp(folder)) fuzz_found("no folder for files");
  }
  atexit(clean_up);
}

static void check_again(const sattn_npy *array) {
  char path[128];
  sattn_report report = {SATTN_EXIT_DONE, ""};
  sattn_npy again;
  sattn_npy_writer writer = {0};
  snprintf(path, sizeof path, "%s/out.npy", folder);
  if (!sattn_npy_writer_add(&writer, path, array, &report) || !sattn_npy_writer_commit(&writer, &report) ||
      !sattn_npy_read(path, &again, &report))
    fuzz_found("what was read cannot be written and read: %s", report.message);
  size_t bytes = (size_t)array->count * sattn_npy_type_size(array->type);
  if (again.count != array->count || again.dimensions != array->dimensions || again.type != array->type ||
      memcmp(again.data, array->data, bytes) != 0)
    fuzz_found("another array came back");
  sattn_npy_free(&again);
  unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[128];
  sattn_report report = {SATTN_EXIT_DONE, ""};
  sattn_npy array;
  if (!folder[0]) make_folder();
  snprintf(path, sizeof path, "%s/in.npy", folder);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) fuzz_found("no file");
  memset(&array, 0x5a, sizeof array);
  if (!sattn_npy_read(path, &array, &report)) {
    if (report.exit_status != SATTN_EXIT_REFUSED || !report.message[0]) fuzz_found("refused without a sentence");
    return 0;
  }
  uint64_t count = 1;
  for (int i = 0; i < array.dimensions; ++i) count *= (uint64_t)array.shape[i];
  if (count != array.count) fuzz_found("count and shape disagree");
  if (count * sattn_npy_type_size(array.type) > size) fuzz_found("more elements than the file has");
  check_again(&array);
  sattn_npy_free(&array);
  return 0;
}
