#include "cuda_rows.h"

#include <stdio.h>
#include <string.h>

#include "cuda_buffer.h"
#include "cuda_event.h"
#include "cuda_program.h"
#include "kernel_args.h"
#include "kernels/general_params.h"

/* Modules and kernels are looked up at every call: the driver's tables make that cheap, and nothing has to be kept. */
static sattn_status find_kernel(sattn_context *context, const char *program_name, const char *kernel_name, sattn_cu_function *out_kernel,
                                sattn_error *error) {
  sattn_cuda_program *program = NULL;
  sattn_status status = sattn_cuda_program_get(context, program_name, &program, error);
  return status == SATTN_OK ? sattn_cuda_kernel_get(context, program, kernel_name, 0, out_kernel, error) : status;
}

sattn_status sattn_cuda_rows_prepare(sattn_context *context, sattn_error *error) {
  sattn_cu_function kernel = NULL;
  sattn_status status = sattn_cuda_enter(context, error);
  if (status != SATTN_OK) return status;
  status = find_kernel(context, "rows", "move_rows_32", &kernel, error);
  if (status == SATTN_OK) status = find_kernel(context, "merge", "merge_fp32", &kernel, error);
  return sattn_cuda_leave(context, status, error);
}

static void *address(const sattn_buffer *buffer) {
  return (void *)(uintptr_t)sattn_cuda_address(buffer, 0);
}

sattn_status sattn_cuda_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                  sattn_error *error) {
  sattn_cuda_rows_call call;
  memset(&call, 0, sizeof call);
  sattn_rows_describe(args, inverse, &call.params);
  call.source = address(args->source.buffer);
  call.target = address(args->target.buffer);
  call.order = address(args->permutation->device_order);
  uint64_t elements = (uint64_t)args->batch * (uint64_t)args->tokens * (uint64_t)args->heads * (uint64_t)args->head_dim;
  sattn_cuda_grid grid = {(elements + SATTN_SMALL_THREADS - 1) / SATTN_SMALL_THREADS, SATTN_SMALL_THREADS, 0};
  const char *name = sattn_dtype_size(args->dtype) == 4 ? "move_rows_32" : "move_rows_16";
  sattn_cu_function kernel = NULL;
  sattn_cuda_chain chain;
  sattn_status status = sattn_cuda_chain_begin(&chain, context, submission, NULL, error);
  if (status == SATTN_OK) status = find_kernel(context, "rows", name, &kernel, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(&chain, kernel, &grid, &call, error);
  return sattn_cuda_chain_end(&chain, status, error);
}

sattn_status sattn_cuda_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission,
                              sattn_error *error) {
  sattn_cuda_merge_call call;
  memset(&call, 0, sizeof call);
  sattn_merge_describe(args, &call.params);
  call.out_a = address(args->out_a.buffer);
  call.out_b = address(args->out_b.buffer);
  call.out = address(args->out.buffer);
  call.lse_a = address(args->lse_a.buffer);
  call.lse_b = address(args->lse_b.buffer);
  call.lse = address(args->lse.buffer);
  uint64_t rows = (uint64_t)args->batch * (uint64_t)args->queries * (uint64_t)args->heads;
  sattn_cuda_grid grid = {(rows + SATTN_SMALL_THREADS / 32 - 1) / (SATTN_SMALL_THREADS / 32), SATTN_SMALL_THREADS, 0};
  char name[32];
  snprintf(name, sizeof name, "merge_%s", sattn_dtype_name(args->dtype));
  sattn_cu_function kernel = NULL;
  sattn_cuda_chain chain;
  sattn_status status = sattn_cuda_chain_begin(&chain, context, submission, NULL, error);
  if (status == SATTN_OK) status = find_kernel(context, "merge", name, &kernel, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(&chain, kernel, &grid, &call, error);
  return sattn_cuda_chain_end(&chain, status, error);
}
