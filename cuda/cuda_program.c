#include "cuda_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "trace.h"

extern const sattn_embedded_file sattn_cuda_images[];

/* Shared memory that a kernel may have without asking for more. */
#define DEFAULT_SHARED_BYTES 49152

struct sattn_cuda_program {
  struct sattn_cuda_program *next;
  char name[64];
  sattn_cu_module module;
};

sattn_status sattn_cuda_images_check(sattn_error *error) {
  if (sattn_cuda_images[0].name) return SATTN_OK;
  return sattn_fail(error, SATTN_UNAVAILABLE, NULL, "this sattn was built without CUDA kernels: rebuild it where nvcc is installed");
}

static const sattn_embedded_file *find_image(const char *name) {
  char file_name[80];
  snprintf(file_name, sizeof file_name, "%s.fatbin", name);
  for (const sattn_embedded_file *image = sattn_cuda_images; image->name; ++image) {
    if (strcmp(image->name, file_name) == 0) return image;
  }
  return NULL;
}

static sattn_status load_program(sattn_context *context, const char *name, sattn_cuda_program **out_program, sattn_error *error) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  sattn_status status = sattn_cuda_images_check(error);
  if (status != SATTN_OK) return status;
  const sattn_embedded_file *image = find_image(name);
  if (!image) return sattn_fail(error, SATTN_INTERNAL, NULL, "no device image named %s is embedded", name);
  sattn_cuda_program *program = calloc(1, sizeof *program);
  if (!program) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for a program handle");
  snprintf(program->name, sizeof program->name, "%s", name);
  sattn_cu_result code = cuda->api->module_load_data(&program->module, image->bytes);
  if (code != SATTN_CU_SUCCESS) {
    free(program);
    char what[96];
    snprintf(what, sizeof what, "cuModuleLoadData(%s)", name);
    return sattn_cuda_check(cuda->api, code, what, error);
  }
  program->next = cuda->programs;
  cuda->programs = program;
  sattn_trace(context->trace, SATTN_TRACE_BUILD, "%s: loaded device image %s (%zu bytes)", context->device.id, name,
              sattn_embedded_length(image));
  *out_program = program;
  return SATTN_OK;
}

sattn_status sattn_cuda_program_get(sattn_context *context, const char *name, sattn_cuda_program **out_program, sattn_error *error) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  sattn_status status = SATTN_OK;
  pthread_mutex_lock(&cuda->program_lock);
  sattn_cuda_program *program = cuda->programs;
  while (program && strcmp(program->name, name) != 0) program = program->next;
  if (program) {
    *out_program = program;
  } else {
    status = load_program(context, name, out_program, error);
  }
  pthread_mutex_unlock(&cuda->program_lock);
  return status;
}

sattn_status sattn_cuda_kernel_get(sattn_context *context, sattn_cuda_program *program, const char *name, uint32_t shared_bytes,
                                   sattn_cu_function *out_kernel, sattn_error *error) {
  const sattn_cuda_api *api = sattn_cuda_of(context)->api;
  sattn_cu_function kernel = NULL;
  sattn_cu_result code = api->module_get_function(&kernel, program->module, name);
  if (code != SATTN_CU_SUCCESS) {
    char what[128];
    snprintf(what, sizeof what, "cuModuleGetFunction(%s)", name);
    return sattn_cuda_check(api, code, what, error);
  }
  if (shared_bytes > DEFAULT_SHARED_BYTES) {
    code = api->function_set_attribute(kernel, SATTN_CU_FUNCTION_MAX_DYNAMIC_SHARED, (int)shared_bytes);
    if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", error);
  }
  *out_kernel = kernel;
  return SATTN_OK;
}

void sattn_cuda_programs_destroy(sattn_context *context) {
  sattn_cuda_context *cuda = sattn_cuda_of(context);
  while (cuda->programs) {
    sattn_cuda_program *program = cuda->programs;
    cuda->programs = program->next;
    cuda->api->module_unload(program->module);
    free(program);
  }
}
