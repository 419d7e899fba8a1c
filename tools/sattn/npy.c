#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_BYTES = 6, MAX_HEADER = 65536 };

static const unsigned char MAGIC[MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct {
  sattn_npy_type type;
  const char *code; /* without the byte order */
  const char *name;
  size_t size;
} TYPES[] = {
    {SATTN_NPY_FLOAT16, "f2", "float16", 2}, {SATTN_NPY_FLOAT32, "f4", "float32", 4}, {SATTN_NPY_FLOAT64, "f8", "float64", 8},
    {SATTN_NPY_INT32, "i4", "int32", 4},     {SATTN_NPY_INT64, "i8", "int64", 8},     {SATTN_NPY_UINT32, "u4", "uint32", 4},
};
enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

const char *sattn_npy_type_name(sattn_npy_type type) {
  for (int i = 0; i < TYPE_COUNT; i++)
    if (TYPES[i].type == type) return TYPES[i].name;
  return "unknown";
}

size_t sattn_npy_type_size(sattn_npy_type type) {
  for (int i = 0; i < TYPE_COUNT; i++)
    if (TYPES[i].type == type) return TYPES[i].size;
  return 0;
}

static char byte_order(void) {
  const uint16_t one = 1;
  return *(const unsigned char *)&one ? '<' : '>';
}

void sattn_npy_shape_text(const sattn_npy *array, char *text, size_t capacity) {
  size_t used = (size_t)snprintf(text, capacity, "[");
  for (int i = 0; i < array->dimensions && used < capacity; i++)
    used += (size_t)snprintf(text + used, capacity - used, "%s%" PRId64, i ? ", " : "", array->shape[i]);
  if (used < capacity) snprintf(text + used, capacity - used, "]");
}

void sattn_npy_free(sattn_npy *array) {
  free(array->data);
  memset(array, 0, sizeof *array);
}

/* ---- the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ---- */

typedef struct cursor {
  const char *at;
  const char *path;
  sattn_report *report;
} cursor;

static void skip_blanks(cursor *c) {
  c->at += strspn(c->at, " \t\n\r");
}

static bool take(cursor *c, char wanted) {
  skip_blanks(c);
  if (*c->at != wanted) return false;
  c->at++;
  return true;
}

static bool broken(const cursor *c, const char *what) {
  return sattn_tool_refuse(c->report, "%s: the .npy header is malformed: %s", c->path, what);
}

static bool read_quoted(cursor *c, char *text, size_t capacity) {
  skip_blanks(c);
  char quote = *c->at;
  if (quote != '\'' && quote != '"') return broken(c, "a quoted word is missing");
  const char *end = strchr(c->at + 1, quote);
  size_t length = end ? (size_t)(end - c->at - 1) : capacity;
  if (length >= capacity) return broken(c, "a quoted word does not end or is too long");
  memcpy(text, c->at + 1, length);
  text[length] = '\0';
  c->at = end + 1;
  return true;
}

static bool read_type(cursor *c, sattn_npy *array) {
  char descr[32];
  skip_blanks(c);
  if (*c->at == '[') return sattn_tool_refuse(c->report, "%s: holds records; plain arrays are needed", c->path);
  if (!read_quoted(c, descr, sizeof descr)) return false;
  for (int i = 0; i < TYPE_COUNT; i++)
    if (descr[0] && strcmp(descr + 1, TYPES[i].code) == 0) {
      if (descr[0] != byte_order() && descr[0] != '=')
        return sattn_tool_refuse(c->report, "%s: element type '%s' has the other byte order; store it in this machine's", c->path, descr);
      array->type = TYPES[i].type;
      return true;
    }
  return sattn_tool_refuse(c->report, "%s: element type '%s' is not supported; float16, float32, float64, int32, int64, uint32 are",
                           c->path, descr);
}

static bool read_order(cursor *c) {
  skip_blanks(c);
  if (strncmp(c->at, "False", 5) == 0) {
    c->at += 5;
    return true;
  }
  if (strncmp(c->at, "True", 4) == 0)
    return sattn_tool_refuse(c->report, "%s: stored in Fortran order; C order is needed (numpy.ascontiguousarray)", c->path);
  return broken(c, "fortran_order is neither True nor False");
}

static bool read_shape(cursor *c, sattn_npy *array) {
  if (!take(c, '(')) return broken(c, "shape is not a tuple");
  array->dimensions = 0;
  while (!take(c, ')')) {
    char *end = NULL;
    skip_blanks(c);
    if (*c->at < '0' || *c->at > '9') return broken(c, "a dimension is not a non-negative whole number");
    errno = 0;
    long long value = strtoll(c->at, &end, 10);
    if (errno == ERANGE) return sattn_tool_refuse(c->report, "%s: a dimension does not fit 63 bits", c->path);
    if (array->dimensions == SATTN_NPY_MAX_DIMENSIONS)
      return sattn_tool_refuse(c->report, "%s: more than %d dimensions", c->path, SATTN_NPY_MAX_DIMENSIONS);
    array->shape[array->dimensions++] = value;
    c->at = end;
    if (take(c, ',')) continue;
    if (!take(c, ')')) return broken(c, "shape does not end");
    return true;
  }
  return true;
}

static bool read_dictionary(const char *path, const char *text, sattn_npy *array, sattn_report *report) {
  cursor c = {text, path, report};
  bool has_type = false, has_order = false, has_shape = false;
  if (!take(&c, '{')) return broken(&c, "no dictionary");
  while (!take(&c, '}')) {
    char key[32];
    if (!read_quoted(&c, key, sizeof key)) return false;
    if (!take(&c, ':')) return broken(&c, "a colon is missing");
    bool *has = strcmp(key, "descr") == 0           ? &has_type
                : strcmp(key, "fortran_order") == 0 ? &has_order
                : strcmp(key, "shape") == 0         ? &has_shape
                                                    : NULL;
    if (!has || *has) return broken(&c, "an unknown key, or one that stands there twice");
    *has = true;
    if (has == &has_type && !read_type(&c, array)) return false;
    if (has == &has_order && !read_order(&c)) return false;
    if (has == &has_shape && !read_shape(&c, array)) return false;
    if (take(&c, ',')) continue;
    if (!take(&c, '}')) return broken(&c, "the dictionary does not end");
    break;
  }
  skip_blanks(&c);
  if (*c.at) return broken(&c, "something follows the dictionary");
  if (!has_type || !has_order || !has_shape) return broken(&c, "descr, fortran_order or shape is missing");
  return true;
}

/* Bytes of the array; false when the product does not fit. A zero among the dimensions does not excuse an absurd rest. */
static bool count_bytes(sattn_npy *array, uint64_t *out_bytes) {
  uint64_t product = sattn_npy_type_size(array->type), limit = INT64_MAX;
  bool empty = false;
  array->count = 1;
  for (int i = 0; i < array->dimensions; i++) {
    uint64_t extent = (uint64_t)array->shape[i];
    if (extent == 0) {
      empty = true;
      continue;
    }
    if (product > limit / extent) return false;
    product *= extent;
    array->count *= extent;
  }
  if (empty) array->count = 0;
  *out_bytes = empty ? 0 : product;
  return true;
}

/* Reads magic, version and dictionary; leaves the file at the first element. */
static bool read_header(FILE *file, const char *path, sattn_npy *array, uint64_t *out_bytes_read, sattn_report *report) {
  unsigned char start[MAGIC_BYTES + 2 + 4];
  size_t got = fread(start, 1, MAGIC_BYTES + 2, file);
  if (got < MAGIC_BYTES || memcmp(start, MAGIC, MAGIC_BYTES) != 0)
    return sattn_tool_refuse(report, "%s: not a .npy file (bad magic)", path);
  if (got < MAGIC_BYTES + 2) return sattn_tool_refuse(report, "%s: truncated in the header", path);
  int version = start[MAGIC_BYTES];
  if (version < 1 || version > 3 || start[MAGIC_BYTES + 1] != 0)
    return sattn_tool_refuse(report, "%s: .npy version %d.%d; 1.0, 2.0 and 3.0 are known", path, version, start[MAGIC_BYTES + 1]);
  size_t length_bytes = version == 1 ? 2 : 4;
  const unsigned char *digits = start + MAGIC_BYTES + 2;
  if (fread(start + MAGIC_BYTES + 2, 1, length_bytes, file) != length_bytes)
    return sattn_tool_refuse(report, "%s: truncated in the header", path);
  uint64_t length = (uint64_t)digits[0] | (uint64_t)digits[1] << 8;
  if (length_bytes == 4) length |= (uint64_t)digits[2] << 16 | (uint64_t)digits[3] << 24;
  if (length > MAX_HEADER)
    return sattn_tool_refuse(report, "%s: a header of %" PRIu64 " bytes; at most %d are accepted", path, length, MAX_HEADER);
  char *text = sattn_tool_allocate(report, path, length + 1, 1);
  if (!text) return false;
  bool fine = fread(text, 1, (size_t)length, file) == length;
  if (!fine) sattn_tool_refuse(report, "%s: truncated: the header says it has %" PRIu64 " bytes, the file ends before", path, length);
  if (fine && memchr(text, '\0', (size_t)length)) fine = sattn_tool_refuse(report, "%s: the .npy header is malformed: a zero byte", path);
  fine = fine && read_dictionary(path, text, array, report);
  free(text);
  *out_bytes_read = MAGIC_BYTES + 2 + length_bytes + length;
  return fine;
}

static bool read_stream(FILE *file, const char *path, sattn_npy *array, sattn_report *report) {
  struct stat facts;
  uint64_t header = 0, bytes = 0;
  char shape[128];
  if (fstat(fileno(file), &facts) != 0 || !S_ISREG(facts.st_mode)) return sattn_tool_refuse(report, "%s: not a regular file", path);
  if (!read_header(file, path, array, &header, report)) return false;
  sattn_npy_shape_text(array, shape, sizeof shape);
  if (!count_bytes(array, &bytes)) return sattn_tool_refuse(report, "%s: shape %s has more bytes than fit 63 bits", path, shape);
  uint64_t present = (uint64_t)facts.st_size > header ? (uint64_t)facts.st_size - header : 0;
  if (present < bytes)
    return sattn_tool_refuse(report, "%s: truncated: shape %s of %s needs %" PRIu64 " bytes, the file has %" PRIu64, path, shape,
                             sattn_npy_type_name(array->type), bytes, present);
  if (present > bytes)
    return sattn_tool_refuse(report, "%s: %" PRIu64 " bytes follow the array of shape %s; one array a file is needed", path,
                             present - bytes, shape);
  array->data = sattn_tool_allocate(report, path, bytes, 1);
  if (!array->data) return false;
  if (fread(array->data, 1, (size_t)bytes, file) != bytes) return sattn_tool_refuse(report, "%s: could not be read to its end", path);
  return true;
}

bool sattn_npy_read(const char *path, sattn_npy *out_array, sattn_report *report) {
  sattn_npy array;
  memset(&array, 0, sizeof array);
  /* Opening a pipe would wait for a writer who may never come. */
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
  if (!file) {
    sattn_tool_refuse(report, "%s: cannot be opened: %s", path, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return false;
  }
  bool fine = read_stream(file, path, &array, report);
  fclose(file);
  if (fine)
    *out_array = array;
  else
    sattn_npy_free(&array);
  return fine;
}

/* ---- writing ---- */

static bool write_stream(FILE *file, const sattn_npy *array) {
  char shape[160] = "", header[320];
  size_t used = 0;
  const char *code = "";
  for (int i = 0; i < TYPE_COUNT; i++)
    if (TYPES[i].type == array->type) code = TYPES[i].code;
  for (int i = 0; i < array->dimensions; i++)
    used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64, i ? ", " : "", array->shape[i]);
  if (array->dimensions == 1) snprintf(shape + used, sizeof shape - used, ",");
  int length = snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s), }", byte_order(), code, shape);
  /* The format wants the elements to start at a multiple of 64 bytes and the header to end in a newline. */
  int preamble = MAGIC_BYTES + 4, total = (preamble + length + 1 + 63) / 64 * 64;
  unsigned char start[MAGIC_BYTES + 4];
  memcpy(start, MAGIC, MAGIC_BYTES);
  start[MAGIC_BYTES] = 1;
  start[MAGIC_BYTES + 1] = 0;
  start[MAGIC_BYTES + 2] = (unsigned char)((total - preamble) & 0xff);
  start[MAGIC_BYTES + 3] = (unsigned char)((total - preamble) >> 8);
  if (fwrite(start, 1, sizeof start, file) != sizeof start) return false;
  if (fprintf(file, "%s%*s\n", header, total - preamble - length - 1, "") < 0) return false;
  size_t bytes = (size_t)array->count * sattn_npy_type_size(array->type);
  return fwrite(array->data, 1, bytes, file) == bytes && fflush(file) == 0;
}

/* mkstemp makes files that only their owner may read; an output file should be like any other. */
static void give_usual_permissions(int descriptor) {
  mode_t mask = umask(0);
  umask(mask);
  if (fchmod(descriptor, 0666 & ~mask) != 0) return; /* a file system without permissions: nothing to give */
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool folder_of(const char *path, struct stat *out_facts) {
  size_t length = (size_t)(last_part(path) - path);
  if (length == 0) return stat(".", out_facts) == 0;
  char *folder = malloc(length + 1);
  if (!folder) return false;
  memcpy(folder, path, length);
  folder[length] = '\0';
  bool known = stat(folder, out_facts) == 0;
  free(folder);
  return known;
}

/* Whether two paths, spelled alike or not, name one file, which need not be there yet. */
static bool same_file(const char *a, const char *b) {
  struct stat folder_a, folder_b;
  if (strcmp(a, b) == 0) return true;
  if (strcmp(last_part(a), last_part(b)) != 0 || !folder_of(a, &folder_a) || !folder_of(b, &folder_b)) return false;
  return folder_a.st_dev == folder_b.st_dev && folder_a.st_ino == folder_b.st_ino;
}

bool sattn_npy_writer_add(sattn_npy_writer *writer, const char *path, const sattn_npy *array, sattn_report *report) {
  static const char SUFFIX[] = ".XXXXXX";
  struct stat facts;
  if (writer->count == SATTN_NPY_MAX_OUTPUTS) return sattn_tool_refuse(report, "%s: too many output files", path);
  for (int i = 0; i < writer->count; i++)
    if (same_file(writer->files[i].path, path)) return sattn_tool_misuse(report, "%s: two outputs have this name", path);
  /* The finished file takes the place of what is there, so that must be an ordinary file: a device or a link would be gone. */
  if (lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode)) {
    return sattn_tool_refuse(report, "%s: is %s", path, S_ISDIR(facts.st_mode) ? "a folder" : "not an ordinary file");
  }
  size_t length = strlen(path);
  char *temporary = sattn_tool_allocate(report, path, length + sizeof SUFFIX, 1);
  if (!temporary) return false;
  memcpy(temporary, path, length);
  memcpy(temporary + length, SUFFIX, sizeof SUFFIX);
  int descriptor = mkstemp(temporary);
  if (descriptor < 0) {
    free(temporary);
    return sattn_tool_refuse(report, "%s: cannot be written: %s", path, strerror(errno));
  }
  writer->files[writer->count].path = path;
  writer->files[writer->count].temporary = temporary;
  writer->count++;
  give_usual_permissions(descriptor);
  FILE *file = fdopen(descriptor, "wb");
  bool fine = file && write_stream(file, array);
  int code = errno;
  if (file ? fclose(file) != 0 : close(descriptor) != 0) fine = false;
  return fine || sattn_tool_refuse(report, "%s: cannot be written: %s", path, strerror(code));
}

bool sattn_npy_writer_commit(sattn_npy_writer *writer, sattn_report *report) {
  for (int i = 0; i < writer->count; i++) {
    if (rename(writer->files[i].temporary, writer->files[i].path) == 0) continue;
    sattn_tool_refuse(report, "%s: cannot be written: %s", writer->files[i].path, strerror(errno));
    for (int done = 0; done < i; done++) unlink(writer->files[done].path);
    sattn_npy_writer_discard(writer);
    return false;
  }
  for (int i = 0; i < writer->count; i++) free(writer->files[i].temporary);
  writer->count = 0;
  return true;
}

void sattn_npy_writer_discard(sattn_npy_writer *writer) {
  for (int i = 0; i < writer->count; i++) {
    unlink(writer->files[i].temporary);
    free(writer->files[i].temporary);
  }
  writer->count = 0;
}
