#include "cuda_draw.h"

#include <string.h>

#include "cuda_buffer.h"
#include "cuda_event.h"
#include "cuda_program.h"
#include "draw.h"
#include "kernels/draw_params.h"

typedef struct draw_kernels {
  sattn_cu_function keys, step, store;
} draw_kernels;

typedef struct draw_memory {
  sattn_buffer *keys, *tokens;
} draw_memory;

static sattn_status find_kernels(sattn_context *context, draw_kernels *kernels, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  sattn_status status = sattn_cuda_program_get(context, "draw", &program, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "draw_keys", 0, &kernels->keys, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "draw_step", 0, &kernels->step, error);
  if (status == SATTN_OK) status = sattn_cuda_kernel_get(context, program, "draw_store", 0, &kernels->store, error);
  return status;
}

static sattn_status launch(sattn_cuda_chain *chain, sattn_cu_function kernel, sattn_cuda_draw_call *call, int64_t items,
                           sattn_error *error) {
  uint64_t threads = (uint64_t)call->params.rows * (uint64_t)items;
  sattn_cuda_grid grid = {(threads + SATTN_DRAW_THREADS - 1) / SATTN_DRAW_THREADS, SATTN_DRAW_THREADS, 0};
  return sattn_cuda_chain_launch(chain, kernel, &grid, call, error);
}

static sattn_status draw_rows(const draw_kernels *kernels, sattn_cuda_draw_call *call, sattn_cuda_chain *chain, sattn_error *error) {
  sattn_status status = launch(chain, kernels->keys, call, call->params.padded, error);
  while (status == SATTN_OK && sattn_draw_next_step(&call->params)) {
    status = launch(chain, kernels->step, call, call->params.padded / 2, error);
  }
  return status == SATTN_OK ? launch(chain, kernels->store, call, call->params.length, error) : status;
}

static sattn_status draw_all(sattn_permutation *permutation, const sattn_permutation_key *key, draw_memory *memory, sattn_error *error) {
  sattn_context *context = permutation->context;
  sattn_submission submission;
  memset(&submission, 0, sizeof submission);
  sattn_cuda_draw_call call;
  memset(&call, 0, sizeof call);
  sattn_draw_describe(permutation, key, 0, &call.params);
  uint64_t entries = (uint64_t)call.params.rows * (uint64_t)call.params.padded;
  sattn_status status = sattn_buffer_create(context, entries * sizeof(uint64_t), &memory->keys, error);
  if (status == SATTN_OK) status = sattn_buffer_create(context, entries * sizeof(uint32_t), &memory->tokens, error);
  if (status != SATTN_OK) return status;
  call.keys = (uint64_t *)(uintptr_t)sattn_cuda_address(memory->keys, 0);
  call.tokens = (uint32_t *)(uintptr_t)sattn_cuda_address(memory->tokens, 0);
  call.order = (uint32_t *)(uintptr_t)sattn_cuda_address(permutation->device_order, 0);
  for (int64_t row = 0; status == SATTN_OK && row < permutation->count; row += call.params.rows) {
    draw_kernels kernels;
    sattn_cuda_chain chain;
    sattn_draw_describe(permutation, key, row, &call.params);
    status = sattn_cuda_chain_begin(&chain, context, &submission, NULL, error);
    if (status == SATTN_OK) status = find_kernels(context, &kernels, error);
    if (status == SATTN_OK) status = draw_rows(&kernels, &call, &chain, error);
    status = sattn_cuda_chain_end(&chain, status, error);
  }
  sattn_status finished = sattn_cuda_queue_finish(context, submission.queue, error); /* even after a failure: the memory is freed next */
  return status == SATTN_OK ? finished : status;
}

sattn_status sattn_cuda_draw_orders(sattn_permutation *permutation, const sattn_permutation_key *key, sattn_error *error) {
  draw_memory memory = {NULL, NULL};
  sattn_status status = draw_all(permutation, key, &memory, error);
  sattn_buffer_destroy(&memory.keys);
  sattn_buffer_destroy(&memory.tokens);
  return status;
}
