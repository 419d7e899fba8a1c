/* Drivers that are missing, small, plural, or fail to compile; folders of compiled programs. Mostly processes of their own. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conformance_opencl.h"

#define STARTERS 8

/* ---- children ---- */

static sattn_context *left_open;

/* One small call on the device. Exit status: 0, or where it went wrong. */
static int attend(const char *device, sattn_mode mode) {
  test_random random = test_random_open(1, "child");
  test_call call;
  test_result result;
  sattn_error error;
  const char *fault;
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  test_difference difference;
  if (!left_open && sattn_context_create(device, NULL, &left_open, &error)) {
    printf("%s: %s\n", sattn_status_name(error.status), error.message);
    return 3;
  }
  test_call_init(&call, mode, 1, 40, 40, 2, 1, 8);
  test_call_fill(&call, &random, 1.0);
  if (test_run_call(left_open, &call, &result, &fault, &error) || fault) {
    printf("%s\n", fault ? fault : error.message);
    return 4;
  }
  test_oracle(&call, TEST_EXACT, &exact);
  test_oracle_tolerances(&call, &exact, tolerance);
  test_compare("out", test_output_shape(&call, TEST_OUT), exact.output[TEST_OUT], result.output[TEST_OUT], tolerance[TEST_OUT],
               &difference);
  if (difference.wrong) printf("%s\n", difference.report);
  test_memory_release();
  return difference.wrong ? 5 : 0;
}

static int child_attend(const char *device) {
  int status = attend(device, SATTN_SLIDING_WINDOW);
  return status ? status : attend(device, SATTN_FULL);
}

/* Exit status 0 only if nothing had to be compiled. */
static int child_compiles_nothing(const char *device) {
  uint64_t compiled = 0;
  uint64_t cached = 0;
  int status = child_attend(device);
  if (status) return status;
  sattn_context_program_counts(left_open, &compiled, &cached);
  printf("%llu compiled, %llu from the cache\n", (unsigned long long)compiled, (unsigned long long)cached);
  return compiled == 0 && cached > 0 ? 0 : 6;
}

/* P-R1. */
static int child_without_platform(const char *device) {
  sattn_error error;
  sattn_context *context = NULL;
  uint32_t count = 1;
  (void)device;
  sattn_status status = sattn_backend_probe(SATTN_BACKEND_OPENCL, &error);
  printf("%s: %s\n", sattn_status_name(status), status ? error.message : "");
  if (status != SATTN_UNAVAILABLE || !strstr(error.message, "install")) return 3;
  if (sattn_device_count(SATTN_BACKEND_OPENCL, &count, &error) || count != 0) return 4;
  if (sattn_context_create("opencl", NULL, &context, &error) != SATTN_UNAVAILABLE || context) return 5;
  return child_attend("reference");
}

static int child_small_memory(const char *device) {
  sattn_error error;
  sattn_buffer *buffer = NULL;
  if (sattn_context_create(device, NULL, &left_open, &error)) return 3;
  uint64_t limit = sattn_context_device(left_open)->max_allocation_bytes;
  sattn_status status = sattn_buffer_create(left_open, limit + 1, &buffer, &error);
  printf("limit %llu: %s: %s\n", (unsigned long long)limit, sattn_status_name(status), status ? error.message : "");
  char needed[32];
  char allowed[32];
  snprintf(needed, sizeof needed, "%llu", (unsigned long long)limit + 1);
  snprintf(allowed, sizeof allowed, "%llu", (unsigned long long)limit);
  if (status != SATTN_OUT_OF_MEMORY || !strstr(error.message, needed) || !strstr(error.message, allowed)) return 4;
  /* A plan whose workspace would not fit is refused by the query already. */
  test_call call;
  sattn_plan_info info;
  sattn_sizes sizes = {64, 1 << 20, 1 << 20};
  test_call_init(&call, SATTN_MOBA, 1, 1, 1, 64, 8, 128);
  call.attention.topk = 64;
  sattn_plan_info_init(&info);
  status = sattn_plan_query(left_open, &call.attention, &sizes, SATTN_PASS_FORWARD, &info, &error);
  if (status == SATTN_OK && info.forward_workspace > limit) {
    printf("a plan with %llu bytes of workspace\n", (unsigned long long)info.forward_workspace);
    return 5;
  }
  return child_attend(device);
}

/* Two devices at once, taking turns. */
static int child_two_devices(const char *device) {
  uint32_t count = 0;
  sattn_error error;
  sattn_context *contexts[2] = {NULL, NULL};
  (void)device;
  if (sattn_device_count(SATTN_BACKEND_OPENCL, &count, &error) || count < 2) {
    printf("%u devices\n", count);
    return 3;
  }
  if (sattn_context_create("opencl:0", NULL, &contexts[0], &error) || sattn_context_create("opencl:1", NULL, &contexts[1], &error)) {
    printf("%s\n", error.message);
    return 4;
  }
  int status = 0;
  for (int i = 0; i < 4 && !status; ++i) {
    left_open = contexts[i % 2];
    status = attend(NULL, SATTN_STOCHASTIC);
  }
  for (int i = 0; i < 2; ++i) sattn_context_destroy(&contexts[i]);
  return status;
}

const test_child opencl_children[] = {{"attend", child_attend},
                                      {"compiles-nothing", child_compiles_nothing},
                                      {"without-platform", child_without_platform},
                                      {"small-memory", child_small_memory},
                                      {"two-devices", child_two_devices},
                                      {NULL, NULL}};

/* ---- folders ---- */

static void make_folder(char *path, size_t capacity) {
  const char *parent = getenv("XDG_CACHE_HOME");
  if (!parent || !*parent) parent = "/tmp";
  mkdir(parent, 0777);
  snprintf(path, capacity, "%s/test-XXXXXX", parent);
  if (!mkdtemp(path)) snprintf(path, capacity, "/nowhere");
}

typedef void (*file_action)(const char *path, int index);

static int for_files(const char *folder, file_action action) {
  char path[1024];
  int count = 0;
  DIR *list = opendir(folder);
  for (struct dirent *entry = list ? readdir(list) : NULL; entry; entry = readdir(list)) {
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (stat(path, &facts) || !S_ISREG(facts.st_mode)) continue;
    action(path, count++);
  }
  if (list) closedir(list);
  return count;
}

static void remove_file(const char *path, int index) {
  (void)index;
  remove(path);
}

static void remove_folder(const char *folder) {
  for_files(folder, remove_file);
  rmdir(folder);
}

/* Truncated, empty, or with a byte changed. */
static void damage_file(const char *path, int index) {
  struct stat facts;
  FILE *file = fopen(path, "r+b");
  if (!file) return;
  if (index % 3 == 2 && !stat(path, &facts) && fseek(file, facts.st_size / 2, SEEK_SET) == 0) fputc('!', file);
  fclose(file);
  if (index % 3 == 0 && !stat(path, &facts) && truncate(path, facts.st_size / 2)) remove(path);
  if (index % 3 == 1 && truncate(path, 0)) remove(path);
}

static void expect_child(test_env *env, const char *label, const char *name, const char *const *environment) {
  test_child_result result;
  test_child_run(name, env->suite->info.id, environment, &result);
  if (result.status != 0)
    test_fail(env->suite, "%s: exit status %d, signal %d: %.300s", label, result.status, result.signal, result.output);
}

/* P-R8, P-R9: what one process compiled the next one finds; damage is a miss. */
static void cache_across_processes(test_env *env) {
  char folder[512];
  char entry[600];
  make_folder(folder, sizeof folder);
  snprintf(entry, sizeof entry, "SATTN_CACHE_DIR=%s", folder);
  const char *const environment[] = {entry, NULL};
  expect_child(env, "first process", "attend", environment);
  expect_child(env, "second process", "compiles-nothing", environment);
  if (for_files(folder, damage_file) == 0) test_fail(env->suite, "nothing was stored");
  expect_child(env, "damaged cache", "attend", environment);
  expect_child(env, "repaired cache", "compiles-nothing", environment);
  chmod(folder, 0555);
  expect_child(env, "read-only cache", "attend", environment);
  chmod(folder, 0755);
  remove_folder(folder);
}

/* Nobody names a folder: programs are stored in the user's, and the second process compiles nothing. */
static void default_folder(test_env *env) {
  char parent[512];
  char entry[600];
  make_folder(parent, sizeof parent);
  snprintf(entry, sizeof entry, "XDG_CACHE_HOME=%s", parent);
  const char *environment[] = {entry, "SATTN_CACHE_DIR", "POCL_KERNEL_CACHE=0", NULL};
  expect_child(env, "first process", "attend", environment);
  expect_child(env, "second process", "compiles-nothing", environment);
  remove_folder(parent);
}

/* P-C5: several processes with one empty cache. */
static void cold_start_together(test_env *env) {
  char folder[512];
  char entry[600];
  pid_t children[STARTERS];
  make_folder(folder, sizeof folder);
  snprintf(entry, sizeof entry, "SATTN_CACHE_DIR=%s", folder);
  const char *const environment[] = {entry, NULL};
  for (int i = 0; i < STARTERS; ++i) children[i] = test_child_start("attend", env->suite->info.id, environment);
  for (int i = 0; i < STARTERS; ++i) {
    int status = test_child_wait(children[i]);
    if (status) test_fail(env->suite, "process %d: exit status %d", i, status);
  }
  expect_child(env, "afterwards", "compiles-nothing", environment);
  remove_folder(folder);
}

static void no_platform(test_env *env) {
  char folder[512];
  char entry[600];
  make_folder(folder, sizeof folder);
  snprintf(entry, sizeof entry, "OCL_ICD_VENDORS=%s", folder);
  const char *const environment[] = {entry, NULL};
  expect_child(env, "no vendor files", "without-platform", environment);
  remove_folder(folder);
}

static void memory_limit(test_env *env) {
  static const char *const environment[] = {"POCL_MEMORY_LIMIT=1", NULL};
  expect_child(env, "1 GiB", "small-memory", environment);
}

static void two_devices(test_env *env) {
  static const char *const environment[] = {"POCL_DEVICES=pthread basic", NULL};
  if (!strstr(env->suite->info.driver, "Portable Computing Language")) return;
  expect_child(env, "two devices", "two-devices", environment);
}

/* P-R4: a program that does not compile is a status; the log is kept whole; other contexts go on. */
static void build_failure(test_env *env) {
  static const char *const broken[] = {"-DHEAD_DIM=broken_on_purpose", "-no-such-option"};
  for (size_t i = 0; i < 2; ++i) {
    sattn_context_options options;
    sattn_context *context = NULL;
    sattn_plan *plan = NULL;
    sattn_error error;
    test_call call;
    sattn_context_options_init(&options);
    options.build_options = broken[i];
    options.cache_directory = "";
    if (sattn_context_create(env->suite->info.id, &options, &context, &error)) {
      test_fail(env->suite, "no context: %s", error.message);
      return;
    }
    test_call_init(&call, SATTN_FULL, 1, 8, 8, 1, 1, 8);
    sattn_status status = sattn_plan_create(context, &call.attention, &call.sizes, SATTN_PASS_FORWARD, &plan, &error);
    test_check_refusal(env, broken[i], status, SATTN_BUILD_FAILED, &error, "");
    if (status && !strstr(error.message, broken[i])) test_fail(env->suite, "the options are not named: %s", error.message);
    size_t length = sattn_context_build_log(context, NULL, 0);
    char *log = test_memory(length + 1);
    if (sattn_context_build_log(context, log, length + 1) != length || strlen(log) != length) test_fail(env->suite, "log length");
    if (i == 0 && !strstr(log, "broken_on_purpose")) test_fail(env->suite, "the log does not tell: %.200s", log);
    sattn_plan_destroy(&plan);
    sattn_context_destroy(&context);
  }
  test_call call;
  test_call_init(&call, SATTN_FULL, 1, 8, 8, 1, 1, 8);
  test_call_fill(&call, &env->random, 1.0);
  test_check_oracle(env, &call, "another context");
}

void cases_opencl_processes(test_suite *suite) {
  test_case_run(suite, "no-platform", no_platform);
  test_case_run(suite, "memory-limit", memory_limit);
  test_case_run(suite, "two-devices", two_devices);
  test_case_run(suite, "build-failure", build_failure);
  test_case_run(suite, "cache-across-processes", cache_across_processes);
  test_case_run(suite, "default-folder", default_folder);
  test_case_run(suite, "cold-start-together", cold_start_together);
}
