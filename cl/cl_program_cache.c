#include "cl_program_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Changes whenever the file's layout does. */
static const char magic[8] = {'s', 'a', 't', 't', 'n', 'c', 'l', '1'};

/* No program comes near this; a larger size in a header is damage, and must not become an allocation. */
#define MAX_BYTES ((uint64_t)256 << 20)

typedef struct header {
  char magic[8];
  uint64_t key_bytes;
  uint64_t binary_bytes;
  uint64_t checksum;
} header;

/* FNV-1a: told apart are accidents, not attackers; the folder's mode keeps those out. */
#define HASH_START UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

static uint64_t hash(uint64_t state, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < count; ++i) state = (state ^ at[i]) * HASH_PRIME;
  return state;
}

static uint64_t checksum(const void *key, size_t key_bytes, const void *binary, size_t bytes) {
  return hash(hash(HASH_START, key, key_bytes), binary, bytes);
}

static bool file_path(char *path, size_t capacity, const char *directory, const void *key, size_t key_bytes) {
  uint64_t low = hash(HASH_START, key, key_bytes), high = hash(~HASH_START, key, key_bytes);
  int length = snprintf(path, capacity, "%s/%016" PRIx64 "%016" PRIx64 ".clbin", directory, high, low);
  return length > 0 && (size_t)length < capacity;
}

/* Machine code is executed, so it must be nobody else's to write. */
static bool is_ours(const struct stat *facts) {
  return facts->st_uid == geteuid() && !(facts->st_mode & (S_IWGRP | S_IWOTH));
}

static bool folder_is_ours(const char *directory) {
  struct stat facts;
  return stat(directory, &facts) == 0 && S_ISDIR(facts.st_mode) && is_ours(&facts);
}

static bool make_folder(const char *directory) {
  char path[PATH_MAX];
  size_t length = strlen(directory);
  if (length == 0 || length >= sizeof path) return false;
  memcpy(path, directory, length + 1);
  for (size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    char kept = path[i];
    path[i] = '\0';
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
    path[i] = kept;
  }
  return folder_is_ours(directory);
}

static bool read_all(int file, void *target, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t got = read(file, (char *)target + done, bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

static bool write_all(int file, const void *source, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t put = write(file, (const char *)source + done, bytes - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += (size_t)put;
  }
  return true;
}

/* Reads what follows the header; the result holds key and binary. */
static unsigned char *read_body(int file, const header *head, const struct stat *facts, const void *key, size_t key_bytes) {
  if (memcmp(head->magic, magic, sizeof magic) != 0 || head->key_bytes != key_bytes) return NULL;
  if (head->binary_bytes == 0 || head->binary_bytes > MAX_BYTES) return NULL;
  uint64_t body_bytes = head->key_bytes + head->binary_bytes;
  if ((uint64_t)facts->st_size != sizeof *head + body_bytes) return NULL;
  unsigned char *body = malloc((size_t)body_bytes);
  if (!body) return NULL;
  if (read_all(file, body, (size_t)body_bytes) && memcmp(body, key, key_bytes) == 0 &&
      head->checksum == checksum(body, key_bytes, body + key_bytes, (size_t)head->binary_bytes)) {
    return body;
  }
  free(body);
  return NULL;
}

bool sattn_cl_cache_load(const char *directory, const void *key, size_t key_bytes, unsigned char **out_binary, size_t *out_bytes) {
  char path[PATH_MAX];
  if (!folder_is_ours(directory) || !file_path(path, sizeof path, directory, key, key_bytes)) return false;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  header head;
  struct stat facts;
  unsigned char *body = NULL;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && is_ours(&facts) && read_all(file, &head, sizeof head)) {
    body = read_body(file, &head, &facts, key, key_bytes);
  }
  close(file);
  if (!body) return false;
  memmove(body, body + key_bytes, (size_t)head.binary_bytes);
  *out_binary = body;
  *out_bytes = (size_t)head.binary_bytes;
  return true;
}

/* A name that no other process or thread uses at this moment; O_EXCL settles the rest. */
static int open_temporary(char *path, size_t capacity, const char *final_path) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int length = snprintf(path, capacity, "%s.%ld.%ld.%d", final_path, (long)getpid(), now.tv_nsec, attempt);
    if (length < 0 || (size_t)length >= capacity) return -1;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

bool sattn_cl_cache_store(const char *directory, const void *key, size_t key_bytes, const unsigned char *binary, size_t bytes) {
  char path[PATH_MAX], temporary[PATH_MAX];
  if (bytes == 0 || bytes > MAX_BYTES) return false;
  if (!make_folder(directory) || !file_path(path, sizeof path, directory, key, key_bytes)) return false;
  int file = open_temporary(temporary, sizeof temporary, path);
  if (file < 0) return false;
  header head;
  memcpy(head.magic, magic, sizeof magic);
  head.key_bytes = key_bytes;
  head.binary_bytes = bytes;
  head.checksum = checksum(key, key_bytes, binary, bytes);
  bool good = write_all(file, &head, sizeof head) && write_all(file, key, key_bytes) && write_all(file, binary, bytes);
  good = close(file) == 0 && good;
  good = good && rename(temporary, path) == 0;
  if (!good) unlink(temporary);
  return good;
}
