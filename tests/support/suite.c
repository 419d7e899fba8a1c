#include "suite.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "random.h"

/* More than this many messages of one case help nobody. */
#define MESSAGES 4
#define SKIPPED  77
/* Cases longer than this show their seconds. */
#define SLOW 2.0

static int parse_backend(const char *name, sattn_backend *out_backend) {
  for (int b = SATTN_BACKEND_REFERENCE; b <= SATTN_BACKEND_CUDA; ++b) {
    if (strcmp(name, sattn_backend_name((sattn_backend)b)) != 0) continue;
    *out_backend = (sattn_backend)b;
    return 0;
  }
  return -1;
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s --backend NAME [--device ID] [--case PATTERN]... [--skip PATTERN]... [--seed N] [FOLDER]\n", program);
  return 2;
}

int test_suite_parse(test_suite *suite, const test_exception *exceptions, int argc, char **argv) {
  int patterns = 0;
  int skipped = 0;
  memset(suite, 0, sizeof *suite);
  suite->program = argv[0];
  suite->exceptions = exceptions;
  suite->seed = test_seed();
  for (int i = 1; i < argc; ++i) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (argv[i][0] != '-') {
      suite->folder = argv[i];
      continue;
    }
    if (!value) return usage(argv[0]);
    ++i;
    if (strcmp(argv[i - 1], "--backend") == 0) {
      if (parse_backend(value, &suite->backend)) return usage(argv[0]);
    } else if (strcmp(argv[i - 1], "--device") == 0) {
      suite->device = value;
    } else if (strcmp(argv[i - 1], "--case") == 0) {
      if (patterns == TEST_PATTERNS) return usage(argv[0]);
      suite->patterns[patterns++] = value;
    } else if (strcmp(argv[i - 1], "--skip") == 0) {
      if (skipped == TEST_PATTERNS) return usage(argv[0]);
      suite->skipped[skipped++] = value;
    } else if (strcmp(argv[i - 1], "--seed") == 0) {
      suite->seed = strtoull(value, NULL, 0);
    } else {
      return usage(argv[0]);
    }
  }
  if (suite->backend == 0) return usage(argv[0]);
  printf("seed %llu\n", (unsigned long long)suite->seed);
  return 0;
}

/* ---- cases ---- */

static const test_exception *find_exception(const test_suite *suite) {
  const char *backend = sattn_backend_name(suite->backend);
  for (const test_exception *e = suite->exceptions; e && e->backend; ++e) {
    if (strcmp(e->backend, backend) == 0 && fnmatch(e->pattern, suite->name, 0) == 0) return e;
  }
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int is_wanted(const test_suite *suite, const char *name) {
  for (int i = 0; i < TEST_PATTERNS && suite->skipped[i]; ++i) {
    if (fnmatch(suite->skipped[i], name, 0) == 0) return 0;
  }
  for (int i = 0; i < TEST_PATTERNS && suite->patterns[i]; ++i) {
    if (fnmatch(suite->patterns[i], name, 0) == 0) return 1;
  }
  return suite->patterns[0] == NULL;
}

int test_suite_begin(test_suite *suite, const char *name) {
  if (!is_wanted(suite, name)) return 0;
  snprintf(suite->name, sizeof suite->name, "%s", name);
  suite->exception = find_exception(suite);
  suite->failures = 0;
  suite->started = now();
  return 1;
}

static void print_rerun(const test_suite *suite) {
  const char *family = getenv("SATTN_KERNELS");
  printf("  again: %s%s%s%s --backend %s --device %s --case '%s' --seed %llu%s%s\n", family ? "SATTN_KERNELS=" : "", family ? family : "",
         family ? " " : "", suite->program, sattn_backend_name(suite->backend), suite->info.id, suite->name,
         (unsigned long long)suite->seed, suite->folder ? " " : "", suite->folder ? suite->folder : "");
}

void test_suite_end(test_suite *suite) {
  const test_exception *exception = suite->exception;
  double seconds = now() - suite->started;
  test_memory_release();
  if (suite->failures && exception) {
    ++suite->excepted;
    printf("%s %s: %s\n", exception->kind == TEST_UNSUPPORTED ? "unsupported     " : "expected failure", suite->name, exception->reason);
  } else if (suite->failures) {
    ++suite->failed;
    if (suite->failures > MESSAGES) printf("  %s: %d more\n", suite->name, suite->failures - MESSAGES);
    printf("FAILED           %s\n", suite->name);
    print_rerun(suite);
  } else if (exception) {
    ++suite->failed;
    printf("UNEXPECTED PASS  %s: take it off the list (%s)\n", suite->name, exception->reason);
    print_rerun(suite);
  } else {
    ++suite->passed;
    printf(seconds < SLOW ? "ok               %s\n" : "ok               %s (%.1f s)\n", suite->name, seconds);
  }
  fflush(stdout);
}

void test_fail(test_suite *suite, const char *format, ...) {
  va_list arguments;
  if (++suite->failures > MESSAGES || suite->exception) return;
  printf("  %s: ", suite->name);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
}

/* ---- devices ---- */

/* Whether this machine ought to have the backend: then its absence is a failure, never a skip. */
static int driver_is_installed(sattn_backend backend) {
  if (backend == SATTN_BACKEND_REFERENCE) return 1;
  if (backend == SATTN_BACKEND_CUDA) return access("/dev/nvidiactl", F_OK) == 0;
  const char *vendors = getenv("OCL_ICD_VENDORS");
  DIR *folder = opendir(vendors ? vendors : "/etc/OpenCL/vendors");
  int found = 0;
  for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
    size_t length = strlen(entry->d_name);
    found |= length > 4 && strcmp(entry->d_name + length - 4, ".icd") == 0;
  }
  if (folder) closedir(folder);
  return found;
}

static int run_device(test_suite *suite, const char *id, void (*cases)(test_suite *suite)) {
  sattn_error error;
  if (sattn_context_create(id, NULL, &suite->context, &error)) {
    printf("FAILED           %s: no context: %s\n", id, error.message);
    return 1;
  }
  suite->info = *sattn_context_device(suite->context);
  suite->passed = suite->failed = suite->excepted = 0;
  printf("device %s: %s, %s\n", suite->info.id, suite->info.name, suite->info.driver);
  cases(suite);
  sattn_context_destroy(&suite->context);
  printf("%s: %d passed, %d failed, %d exceptions\n", suite->info.id, suite->passed, suite->failed, suite->excepted);
  if (suite->passed + suite->failed + suite->excepted == 0) {
    printf("FAILED           no case of that name\n");
    return 1;
  }
  return suite->failed != 0;
}

int test_suite_run(test_suite *suite, void (*cases)(test_suite *suite)) {
  sattn_error error;
  uint32_t count = 0;
  if (suite->device) return run_device(suite, suite->device, cases);
  if (sattn_backend_probe(suite->backend, &error)) {
    /* A library that was built without the backend is a choice; the reason says so. */
    int absent = !driver_is_installed(suite->backend) || strstr(error.message, "built without") != NULL;
    printf("%s           %s: %s\n", absent ? "SKIPPED" : "FAILED ", sattn_backend_name(suite->backend), error.message);
    return absent ? SKIPPED : 1;
  }
  if (sattn_device_count(suite->backend, &count, &error) || count == 0) {
    printf("FAILED           the backend is available, but has no device\n");
    return 1;
  }
  int failed = 0;
  for (uint32_t i = 0; i < count; ++i) {
    sattn_device_info info;
    sattn_device_info_init(&info);
    if (sattn_device_get_info(suite->backend, i, &info, &error)) {
      printf("FAILED           device %u: %s\n", i, error.message);
      failed = 1;
      continue;
    }
    failed |= run_device(suite, info.id, cases);
  }
  return failed;
}
