#include "cl_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cl_buffer.h"
#include "cl_device.h"
#include "cl_program_cache.h"
#include "embedded.h"
#include "trace.h"

extern const sattn_embedded_file sattn_opencl_sources[];

#define MAX_SOURCES 16

struct sattn_cl_program {
  sattn_cl_program *next;
  char *options; /* complete */
  char *source;  /* joined */
  size_t source_bytes;
  cl_program program;
  bool stored; /* on disk already, or came from there */
};

/* ---- text ---- */

static char *join_options(const sattn_context *context, const char *options) {
  const char *prefetch = sattn_cl_of(context)->is_pocl ? " -DSATTN_PREFETCH=1" : "";
  const char *parts[] = {"-cl-std=CL1.2",       prefetch, *options ? " " : "", options, *context->build_options ? " " : "",
                         context->build_options};
  size_t bytes = 1;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) bytes += strlen(parts[i]);
  char *joined = malloc(bytes);
  if (!joined) return NULL;
  *joined = '\0';
  for (size_t i = 0, at = 0; i < sizeof parts / sizeof parts[0]; ++i) {
    size_t length = strlen(parts[i]);
    memcpy(joined + at, parts[i], length + 1);
    at += length;
  }
  return joined;
}

static const sattn_embedded_file *find_source(const char *name) {
  for (const sattn_embedded_file *file = sattn_opencl_sources; file->name; ++file) {
    if (strcmp(file->name, name) == 0) return file;
  }
  return NULL;
}

/* NULL if a name is unknown or memory is out; *out_missing tells which. */
static char *join_sources(const char *const *sources, size_t *out_bytes, const char **out_missing) {
  size_t bytes = 1;
  *out_missing = NULL;
  for (const char *const *name = sources; *name; ++name) {
    const sattn_embedded_file *file = find_source(*name);
    if (!file) {
      *out_missing = *name;
      return NULL;
    }
    bytes += sattn_embedded_length(file) + strlen(*name) + 16;
  }
  char *joined = malloc(bytes);
  if (!joined) return NULL;
  size_t at = 0;
  for (const char *const *name = sources; *name; ++name) {
    const sattn_embedded_file *file = find_source(*name);
    at += (size_t)snprintf(joined + at, bytes - at, "#line 1 \"%s\"\n", *name);
    memcpy(joined + at, file->bytes, sattn_embedded_length(file));
    at += sattn_embedded_length(file);
    joined[at++] = '\n';
  }
  joined[at] = '\0';
  *out_bytes = at;
  return joined;
}

/* ---- build ---- */

/* The cache key: everything that the machine code depends on. */
static char *make_key(const sattn_context *context, const sattn_cl_program *program, size_t *out_bytes) {
  char fingerprint[1024];
  const sattn_cl_context *cl = sattn_cl_of(context);
  sattn_cl_device_fingerprint(cl->api, cl->device, fingerprint, sizeof fingerprint);
  size_t capacity = strlen(fingerprint) + strlen(program->options) + program->source_bytes + 3;
  char *key = malloc(capacity);
  if (!key) return NULL;
  *out_bytes = (size_t)snprintf(key, capacity, "%s%s\n%s", fingerprint, program->options, program->source);
  return key;
}

static bool build_from_cache(sattn_context *context, sattn_cl_program *program) {
  if (!context->cache_directory) return false;
  size_t key_bytes = 0, binary_bytes = 0;
  unsigned char *binary = NULL;
  char *key = make_key(context, program, &key_bytes);
  if (!key) return false;
  bool found = sattn_cl_cache_load(context->cache_directory, key, key_bytes, &binary, &binary_bytes);
  free(key);
  if (!found) return false;
  const sattn_cl_context *cl = sattn_cl_of(context);
  const unsigned char *binaries[] = {binary};
  cl_int code = CL_SUCCESS, binary_status = CL_SUCCESS;
  program->program = cl->api->clCreateProgramWithBinary(cl->handle, 1, &cl->device, &binary_bytes, binaries, &binary_status, &code);
  free(binary);
  if (code == CL_SUCCESS && binary_status == CL_SUCCESS) {
    code = cl->api->clBuildProgram(program->program, 1, &cl->device, program->options, NULL, NULL);
    if (code == CL_SUCCESS) return true;
  }
  /* A binary that the driver refuses is one more kind of damage: a miss. */
  if (program->program) cl->api->clReleaseProgram(program->program);
  program->program = NULL;
  return false;
}

static sattn_status report_build_failure(sattn_context *context, const sattn_cl_program *program, cl_int code, const char *first_source,
                                         sattn_error *error) {
  const sattn_cl_context *cl = sattn_cl_of(context);
  size_t bytes = 0;
  cl->api->clGetProgramBuildInfo(program->program, cl->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
  char *log = calloc(1, bytes + 1);
  if (log) cl->api->clGetProgramBuildInfo(program->program, cl->device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
  const char *text = log && *log ? log : "(the driver gives no log)";
  sattn_context_set_build_log(context, text);
  const char *fault = strstr(text, "error:");
  int length = (int)strcspn(fault ? fault : text, "\n");
  sattn_status status = sattn_fail_driver(
      error, SATTN_BUILD_FAILED, code, "building %s for device %s (%s) with options '%s' failed: %.*s; see sattn_context_build_log",
      first_source, context->device.id, context->device.name, program->options, length < 300 ? length : 300, fault ? fault : text);
  free(log);
  return status;
}

static sattn_status build_from_source(sattn_context *context, sattn_cl_program *program, const char *first_source, sattn_error *error) {
  const sattn_cl_context *cl = sattn_cl_of(context);
  const char *text = program->source;
  cl_int code = CL_SUCCESS;
  program->program = cl->api->clCreateProgramWithSource(cl->handle, 1, &text, &program->source_bytes, &code);
  sattn_status status = sattn_cl_check(code, "clCreateProgramWithSource", error);
  if (status != SATTN_OK) return status;
  code = cl->api->clBuildProgram(program->program, 1, &cl->device, program->options, NULL, NULL);
  return code == CL_SUCCESS ? SATTN_OK : report_build_failure(context, program, code, first_source, error);
}

static void destroy_program(const sattn_context *context, sattn_cl_program *program) {
  if (program->program) sattn_cl_of(context)->api->clReleaseProgram(program->program);
  free(program->options);
  free(program->source);
  free(program);
}

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static sattn_status build(sattn_context *context, sattn_cl_program *program, const char *first_source, sattn_error *error) {
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  bool cached = build_from_cache(context, program);
  sattn_status status = cached ? SATTN_OK : build_from_source(context, program, first_source, error);
  if (status != SATTN_OK) return status;
  program->stored = cached;
  pthread_mutex_lock(&context->lock);
  if (cached) {
    context->programs_cached += 1;
  } else {
    context->programs_compiled += 1;
  }
  pthread_mutex_unlock(&context->lock);
  sattn_trace(context->trace, SATTN_TRACE_BUILD, "%s: %s in %.3f s (%s)", first_source, cached ? "from the cache" : "compiled",
              seconds_since(&start), program->options);
  return SATTN_OK;
}

/* The lock is held. */
static sattn_status find_or_build(sattn_context *context, sattn_cl_program *wanted, const char *first_source,
                                  sattn_cl_program **out_program, sattn_error *error) {
  sattn_cl_context *cl = sattn_cl_of(context);
  for (sattn_cl_program *known = cl->programs; known; known = known->next) {
    if (known->source_bytes != wanted->source_bytes || strcmp(known->options, wanted->options) != 0) continue;
    if (memcmp(known->source, wanted->source, wanted->source_bytes) != 0) continue;
    destroy_program(context, wanted);
    *out_program = known;
    return SATTN_OK;
  }
  sattn_status status = build(context, wanted, first_source, error);
  if (status != SATTN_OK) {
    destroy_program(context, wanted);
    return status;
  }
  wanted->next = cl->programs;
  cl->programs = wanted;
  *out_program = wanted;
  return SATTN_OK;
}

sattn_status sattn_cl_program_get(sattn_context *context, const char *const *sources, const char *options, sattn_cl_program **out_program,
                                  sattn_error *error) {
  const char *missing = NULL;
  sattn_cl_program *wanted = calloc(1, sizeof *wanted);
  if (wanted) {
    wanted->options = join_options(context, options);
    wanted->source = join_sources(sources, &wanted->source_bytes, &missing);
  }
  if (!wanted || !wanted->options || !wanted->source) {
    if (wanted) destroy_program(context, wanted);
    if (missing) return sattn_fail(error, SATTN_INTERNAL, NULL, "kernel source %s is not part of the library", missing);
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for the source of %s", sources[0]);
  }
  pthread_mutex_t *lock = &sattn_cl_of(context)->program_lock;
  const char *last = sources[0];
  for (const char *const *name = sources; *name; ++name) last = *name; /* helpers come first, the kernels last: name those */
  pthread_mutex_lock(lock);
  sattn_status status = find_or_build(context, wanted, last, out_program, error);
  pthread_mutex_unlock(lock);
  return status;
}

void sattn_cl_programs_destroy(sattn_context *context) {
  sattn_cl_context *cl = sattn_cl_of(context);
  while (cl->programs) {
    sattn_cl_program *program = cl->programs;
    cl->programs = program->next;
    destroy_program(context, program);
  }
}

/* ---- storing ---- */

/* The binary for this context's device; a caller's context may hold other devices too. */
static unsigned char *fetch_binary(const sattn_cl_context *cl, cl_program program, size_t *out_bytes) {
  cl_device_id devices[64];
  size_t sizes[64];
  unsigned char *binaries[64] = {NULL};
  size_t device_bytes = 0;
  if (cl->api->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, (void *)devices, &device_bytes) != CL_SUCCESS) return NULL;
  size_t count = device_bytes / sizeof devices[0], own = 0;
  while (own < count && devices[own] != cl->device) ++own;
  if (own == count) return NULL;
  if (cl->api->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, count * sizeof sizes[0], sizes, NULL) != CL_SUCCESS) return NULL;
  if (sizes[own] == 0) return NULL;
  binaries[own] = malloc(sizes[own]);
  if (!binaries[own]) return NULL;
  if (cl->api->clGetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof binaries[0], (void *)binaries, NULL) != CL_SUCCESS) {
    free(binaries[own]);
    return NULL;
  }
  *out_bytes = sizes[own];
  return binaries[own];
}

void sattn_cl_program_launched(sattn_context *context, sattn_cl_program *program) {
  sattn_cl_context *cl = sattn_cl_of(context);
  if (!context->cache_directory) return;
  pthread_mutex_lock(&cl->program_lock);
  if (!program->stored) {
    program->stored = true; /* one attempt: a folder that refuses once will refuse again */
    size_t key_bytes = 0, binary_bytes = 0;
    char *key = make_key(context, program, &key_bytes);
    unsigned char *binary = key ? fetch_binary(cl, program->program, &binary_bytes) : NULL;
    bool kept = binary && sattn_cl_cache_store(context->cache_directory, key, key_bytes, binary, binary_bytes);
    if (!kept) sattn_trace(context->trace, SATTN_TRACE_BUILD, "a program was not stored in '%s'", context->cache_directory);
    free(key);
    free(binary);
  }
  pthread_mutex_unlock(&cl->program_lock);
}

/* ---- kernels and arguments ---- */

sattn_status sattn_cl_kernel_create(sattn_context *context, sattn_cl_program *program, const char *name, cl_kernel *out_kernel,
                                    sattn_error *error) {
  cl_int code = CL_SUCCESS;
  cl_kernel kernel = sattn_cl_of(context)->api->clCreateKernel(program->program, name, &code);
  char function[96];
  snprintf(function, sizeof function, "clCreateKernel(%s)", name);
  sattn_status status = sattn_cl_check(code, function, error);
  if (status == SATTN_OK) *out_kernel = kernel;
  return status;
}

void sattn_cl_kernel_release(sattn_context *context, cl_kernel *kernel) {
  if (*kernel) sattn_cl_of(context)->api->clReleaseKernel(*kernel);
  *kernel = NULL;
}

sattn_cl_binder sattn_cl_bind(const sattn_context *context, cl_kernel kernel) {
  sattn_cl_binder binder = {sattn_cl_of(context)->api, kernel, 0, CL_SUCCESS};
  return binder;
}

void sattn_cl_bind_value(sattn_cl_binder *binder, const void *value, size_t bytes) {
  cl_int code = binder->api->clSetKernelArg(binder->kernel, binder->next++, bytes, value);
  if (binder->code == CL_SUCCESS) binder->code = code;
}

void sattn_cl_bind_buffer(sattn_cl_binder *binder, const sattn_buffer *buffer) {
  cl_mem memory = sattn_cl_memory(buffer);
  sattn_cl_bind_value(binder, (const void *)&memory, sizeof memory);
}

void sattn_cl_bind_buffers(sattn_cl_binder *binder, const sattn_buffer *const *buffers, size_t count) {
  for (size_t i = 0; i < count; ++i) sattn_cl_bind_buffer(binder, buffers[i]);
}

sattn_status sattn_cl_bind_status(const sattn_cl_binder *binder, sattn_error *error) {
  return sattn_cl_check(binder->code, "clSetKernelArg", error);
}

sattn_status sattn_cl_bind_all(const sattn_context *context, cl_kernel kernel, const void *params, size_t bytes,
                               const sattn_buffer *const *buffers, size_t count, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, bytes);
  sattn_cl_bind_buffers(&binder, buffers, count);
  return sattn_cl_bind_status(&binder, error);
}

size_t sattn_cl_plain_group(const sattn_context *context) {
  return context->device.local_memory_bytes > 0 && context->device.max_work_group >= 64 ? 64 : 1;
}

sattn_status sattn_cl_launch_once(sattn_context *context, cl_kernel kernel, cl_uint dimensions, const size_t *local, sattn_error *error) {
  const sattn_cl_context *cl = sattn_cl_of(context);
  cl_int code = cl->api->clEnqueueNDRangeKernel(cl->queue, kernel, dimensions, NULL, local, local, 0, NULL, NULL);
  if (code != CL_SUCCESS) return sattn_cl_check(code, "clEnqueueNDRangeKernel", error);
  code = cl->api->clFinish(cl->queue);
  return code == CL_SUCCESS ? SATTN_OK : sattn_cl_context_fail(context, code, "clFinish", error);
}
