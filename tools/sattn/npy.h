/* The .npy format (version 1, 2 and 3 headers), for arrays in C order of a few element types.
 *
 * The reader believes nothing: magic, version, header length, the dictionary, the element type, every dimension and the size of the file
 * are checked before memory is taken, and each refusal names the file and the rule. Only regular files; only this machine's byte order.
 */
#ifndef SATTN_TOOL_NPY_H
#define SATTN_TOOL_NPY_H

#include "report.h"

typedef enum sattn_npy_type {
  SATTN_NPY_FLOAT16 = 1,
  SATTN_NPY_FLOAT32 = 2,
  SATTN_NPY_FLOAT64 = 3,
  SATTN_NPY_INT32 = 4,
  SATTN_NPY_INT64 = 5,
  SATTN_NPY_UINT32 = 6
} sattn_npy_type;

enum { SATTN_NPY_MAX_DIMENSIONS = 8 };

typedef struct sattn_npy {
  sattn_npy_type type;
  int dimensions; /* 0 for a scalar */
  int64_t shape[SATTN_NPY_MAX_DIMENSIONS];
  uint64_t count; /* product of the shape */
  void *data;     /* owned; freed by sattn_npy_free */
} sattn_npy;

const char *sattn_npy_type_name(sattn_npy_type type);
size_t sattn_npy_type_size(sattn_npy_type type);

bool sattn_npy_read(const char *path, sattn_npy *out_array, sattn_report *report);
void sattn_npy_free(sattn_npy *array);

/* "[2, 97, 4, 20]" into text; for messages. */
void sattn_npy_shape_text(const sattn_npy *array, char *text, size_t capacity);

/* ---- writing: whole or not at all, all files of a command or none ---- */

enum { SATTN_NPY_MAX_OUTPUTS = 16 };

typedef struct sattn_npy_writer {
  int count;
  struct {
    const char *path; /* borrowed until commit or discard */
    char *temporary;  /* owned */
  } files[SATTN_NPY_MAX_OUTPUTS];
} sattn_npy_writer;

/* Writes the array beside `path` under a temporary name. Begin with a zeroed writer. */
bool sattn_npy_writer_add(sattn_npy_writer *writer, const char *path, const sattn_npy *array, sattn_report *report);

/* Renames every file to its path. If one rename fails, the files already renamed are removed again. */
bool sattn_npy_writer_commit(sattn_npy_writer *writer, sattn_report *report);

/* Removes what was not committed. Harmless after commit. */
void sattn_npy_writer_discard(sattn_npy_writer *writer);

#endif
