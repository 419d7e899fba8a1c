#include "cl_draw.h"

#include <string.h>

#include "cl_buffer.h"
#include "cl_event.h"
#include "cl_program.h"
#include "draw.h"

typedef struct draw_kernels {
  cl_kernel keys, step, store;
} draw_kernels;

typedef struct draw_memory {
  sattn_buffer *keys, *tokens;
} draw_memory;

static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_draw_params *params, const sattn_buffer *first,
                         const sattn_buffer *second, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, first);
  sattn_cl_bind_buffer(&binder, second);
  return sattn_cl_bind_status(&binder, error);
}

static void release(sattn_context *context, draw_kernels *kernels) {
  sattn_cl_kernel_release(context, &kernels->keys);
  sattn_cl_kernel_release(context, &kernels->step);
  sattn_cl_kernel_release(context, &kernels->store);
}

static sattn_status launch_empty(sattn_context *context, cl_kernel kernel, sattn_error *error) {
  sattn_draw_params none;
  memset(&none, 0, sizeof none);
  const size_t local[2] = {sattn_cl_plain_group(context), 1};
  sattn_status status = bind(context, kernel, &none, NULL, NULL, error);
  return status == SATTN_OK ? sattn_cl_launch_once(context, kernel, 2, local, error) : status;
}

static sattn_status open_kernels(sattn_context *context, draw_kernels *kernels, sattn_error *error) {
  static const char *const sources[] = {"philox.h", "kernel_params.h", "draw.cl", NULL};
  sattn_cl_program *program = NULL;
  sattn_status status = sattn_cl_program_get(context, sources, "", &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "draw_keys", &kernels->keys, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "draw_step", &kernels->step, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "draw_store", &kernels->store, error);
  if (status == SATTN_OK) status = launch_empty(context, kernels->keys, error);
  if (status == SATTN_OK) status = launch_empty(context, kernels->step, error);
  if (status == SATTN_OK) status = launch_empty(context, kernels->store, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status launch(sattn_cl_chain *chain, cl_kernel kernel, const sattn_draw_params *params, const sattn_buffer *first,
                           const sattn_buffer *second, int64_t items, sattn_error *error) {
  const sattn_context *context = chain->context;
  const size_t local[2] = {sattn_cl_plain_group(context), 1};
  const size_t global[2] = {sattn_cl_axis(items, local[0]), sattn_cl_axis(params->rows, 1)};
  sattn_status status = bind(context, kernel, params, first, second, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, kernel, 2, global, local, error) : status;
}

static sattn_status draw_rows(sattn_permutation *permutation, const draw_kernels *kernels, const draw_memory *memory,
                              sattn_draw_params *params, sattn_cl_chain *chain, sattn_error *error) {
  sattn_status status = launch(chain, kernels->keys, params, memory->keys, memory->tokens, params->padded, error);
  while (status == SATTN_OK && sattn_draw_next_step(params)) {
    status = launch(chain, kernels->step, params, memory->keys, memory->tokens, params->padded / 2, error);
  }
  return status == SATTN_OK ? launch(chain, kernels->store, params, memory->tokens, permutation->device_order, params->length, error)
                            : status;
}

static sattn_status draw_all(sattn_permutation *permutation, const sattn_permutation_key *key, const draw_kernels *kernels,
                             draw_memory *memory, sattn_error *error) {
  sattn_context *context = permutation->context;
  sattn_submission submission;
  memset(&submission, 0, sizeof submission);
  sattn_draw_params params;
  sattn_draw_describe(permutation, key, 0, &params);
  uint64_t entries = (uint64_t)params.rows * (uint64_t)params.padded;
  sattn_status status = sattn_buffer_create(context, entries * sizeof(uint64_t), &memory->keys, error);
  if (status == SATTN_OK) status = sattn_buffer_create(context, entries * sizeof(uint32_t), &memory->tokens, error);
  for (int64_t row = 0; status == SATTN_OK && row < permutation->count; row += params.rows) {
    sattn_cl_chain chain;
    sattn_draw_describe(permutation, key, row, &params);
    status = sattn_cl_chain_begin(&chain, context, &submission, NULL, error);
    if (status == SATTN_OK) status = draw_rows(permutation, kernels, memory, &params, &chain, error);
    status = sattn_cl_chain_end(&chain, status, error);
  }
  return status == SATTN_OK ? sattn_cl_queue_finish(context, submission.queue, error) : status;
}

sattn_status sattn_cl_draw_orders(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *error) {
  sattn_context *context = permutation->context;
  draw_kernels kernels = {NULL, NULL, NULL};
  draw_memory memory = {NULL, NULL};
  sattn_status status = open_kernels(context, &kernels, error);
  if (status == SATTN_OK) status = draw_all(permutation, key, &kernels, &memory, error);
  sattn_buffer_destroy(&memory.keys);
  sattn_buffer_destroy(&memory.tokens);
  release(context, &kernels);
  return status;
}
