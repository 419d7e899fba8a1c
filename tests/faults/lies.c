#include "lies.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of the 2.1 headers. */
#define MAX_NUM_SUB_GROUPS 0x105C

static lies told;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t number(const char *text, const char *name) {
  const char *at = text ? strstr(text, name) : NULL;
  return at ? (size_t)strtoull(at + strlen(name), NULL, 0) : (size_t)-1;
}

static void read_lies(void) {
  const char *text = getenv("SATTN_WRAPPER_LIES");
  told.no_fp16 = text && strstr(text, "no-fp16") != NULL;
  told.no_fp64 = text && strstr(text, "no-fp64") != NULL;
  told.no_subgroups = text && strstr(text, "no-subgroups") != NULL;
  told.gpu = text && strstr(text, "gpu") != NULL;
  told.local = number(text, "local=");
  told.group = number(text, "group=");
  told.allocation = number(text, "allocation=");
}

const lies *lies_get(void) {
  pthread_once(&once, read_lies);
  return &told;
}

/* Blanks a word of the list of extensions. */
static void hide(char *list, size_t size, const char *word) {
  size_t length = strlen(word);
  for (size_t i = 0; i + length <= size && list[i]; ++i) {
    if (strncmp(list + i, word, length) == 0) memset(list + i, ' ', length);
  }
}

static void at_most(size_t size, void *value, size_t limit) {
  if (size == sizeof(cl_ulong)) *(cl_ulong *)value = lies_least((size_t) * (cl_ulong *)value, limit);
}

void lies_device(cl_device_info what, size_t size, void *value) {
  const lies *l = lies_get();
  cl_uint none = 0;
  cl_device_type gpu = CL_DEVICE_TYPE_GPU;
  cl_device_local_mem_type local = CL_LOCAL;
  if (what == CL_DEVICE_LOCAL_MEM_SIZE) at_most(size, value, l->local);
  if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE) at_most(size, value, l->group);
  if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE) at_most(size, value, l->allocation);
  if (what == CL_DEVICE_PREFERRED_VECTOR_WIDTH_HALF && l->no_fp16) memcpy(value, &none, sizeof none);
  if (what == CL_DEVICE_PREFERRED_VECTOR_WIDTH_DOUBLE && l->no_fp64) memcpy(value, &none, sizeof none);
  if (what == MAX_NUM_SUB_GROUPS && l->no_subgroups) memcpy(value, &none, sizeof none);
  if (what == CL_DEVICE_TYPE && l->gpu) memcpy(value, &gpu, sizeof gpu);
  if (what == CL_DEVICE_LOCAL_MEM_TYPE && l->gpu) memcpy(value, &local, sizeof local);
  if (what != CL_DEVICE_EXTENSIONS) return;
  if (l->no_fp16) hide(value, size, "cl_khr_fp16");
  if (l->no_fp64) hide(value, size, "cl_khr_fp64");
  if (l->no_subgroups) hide(value, size, "cl_khr_subgroups");
}
