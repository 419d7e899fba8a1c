/* Runs every file of the folders that are named, in order of their names. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

#define CAPACITY (1 << 20)

static int run_file(const char *path) {
  static uint8_t buffer[CAPACITY];
  FILE *file = fopen(path, "rb");
  if (!file) return -1;
  size_t size = fread(buffer, 1, sizeof buffer, file);
  fclose(file);
  /* A copy of exactly this size, so that checkers see what reads beyond it. */
  uint8_t *data = malloc(size ? size : 1);
  for (size_t i = 0; data && i < size; ++i) data[i] = buffer[i];
  if (data) LLVMFuzzerTestOneInput(data, size);
  free(data);
  return 0;
}

int main(int argc, char **argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    struct dirent **entries = NULL;
    int count = scandir(argv[i], &entries, NULL, alphasort);
    for (int j = 0; j < count; ++j) {
      char path[4096];
      snprintf(path, sizeof path, "%s/%s", argv[i], entries[j]->d_name);
      if (entries[j]->d_name[0] != '.' && run_file(path) == 0) ++files;
      free(entries[j]);
    }
    free(entries);
  }
  fprintf(stderr, "%d files\n", files);
  return files == 0;
}
