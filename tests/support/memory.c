#include "memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A page: devices that share host memory use such pieces without a copy. */
#define ALIGNMENT 4096

typedef struct piece {
  struct piece *next;
  void *memory;
} piece;

static piece *pieces;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *test_memory(size_t bytes) {
  piece *taken = malloc(sizeof *taken);
  size_t rounded = (bytes / ALIGNMENT + 1) * ALIGNMENT;
  void *memory = taken ? aligned_alloc(ALIGNMENT, rounded) : NULL;
  if (!memory) {
    fprintf(stderr, "test: out of memory, %zu bytes needed\n", bytes);
    exit(2);
  }
  memset(memory, 0, rounded);
  taken->memory = memory;
  pthread_mutex_lock(&lock);
  taken->next = pieces;
  pieces = taken;
  pthread_mutex_unlock(&lock);
  return memory;
}

void test_memory_release(void) {
  while (pieces) {
    piece *gone = pieces;
    pieces = gone->next;
    free(gone->memory);
    free(gone);
  }
}
