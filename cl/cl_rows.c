#include "cl_rows.h"

#include <stdlib.h>
#include <string.h>

#include "cl_event.h"
#include "cl_program.h"
#include "kernel_args.h"

static sattn_status bind_move(const sattn_context *context, cl_kernel kernel, const sattn_rows_params *params, const sattn_buffer *order,
                              const sattn_buffer *source, const sattn_buffer *target, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, order);
  sattn_cl_bind_buffer(&binder, source);
  sattn_cl_bind_buffer(&binder, target);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status prepare_move(sattn_context *context, const char *options, cl_kernel *out_kernel, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "rows.cl", NULL};
  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  sattn_cl_program *program = NULL;
  sattn_rows_params none;
  memset(&none, 0, sizeof none);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "move_rows", out_kernel, error);
  if (status == SATTN_OK) status = bind_move(context, *out_kernel, &none, NULL, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, *out_kernel, 3, local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static void release(sattn_context *context, sattn_cl_rows *rows) {
  sattn_cl_kernel_release(context, &rows->move_32);
  sattn_cl_kernel_release(context, &rows->move_16);
  for (int i = 0; i < SATTN_CL_DTYPES; ++i) sattn_cl_kernel_release(context, &rows->merge[i]);
  pthread_mutex_destroy(&rows->lock);
  free(rows);
}

sattn_status sattn_cl_rows_prepare(sattn_context *context, sattn_error *error) {
  sattn_cl_context *cl = sattn_cl_of(context);
  pthread_mutex_lock(&cl->program_lock);
  bool ready = cl->rows != NULL;
  pthread_mutex_unlock(&cl->program_lock);
  if (ready) return SATTN_OK;

  sattn_cl_rows *rows = calloc(1, sizeof *rows);
  if (!rows) return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "no host memory for %zu bytes", sizeof *rows);
  pthread_mutex_init(&rows->lock, NULL);
  sattn_status status = prepare_move(context, "-DELEMENT=uint", &rows->move_32, error);
  if (status == SATTN_OK) status = prepare_move(context, "-DELEMENT=ushort", &rows->move_16, error);
  if (status == SATTN_OK) status = sattn_cl_merge_prepare(context, rows, error);

  sattn_cl_rows *unused = rows;
  if (status == SATTN_OK) {
    pthread_mutex_lock(&cl->program_lock);
    if (!cl->rows) { /* another thread may have been faster */
      cl->rows = rows;
      unused = NULL;
    }
    pthread_mutex_unlock(&cl->program_lock);
  }
  if (unused) release(context, unused);
  return status;
}

void sattn_cl_rows_destroy(sattn_context *context) {
  sattn_cl_context *cl = sattn_cl_of(context);
  if (cl->rows) release(context, cl->rows);
  cl->rows = NULL;
}

sattn_status sattn_cl_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                sattn_error *error) {
  sattn_status status = sattn_cl_rows_prepare(context, error);
  if (status != SATTN_OK) return status;
  sattn_cl_rows *rows = sattn_cl_of(context)->rows;
  sattn_rows_params params;
  sattn_rows_describe(args, inverse, &params);

  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  const size_t global[3] = {sattn_cl_axis(args->tokens, local[0]), sattn_cl_axis(args->heads, 1), sattn_cl_axis(args->batch, 1)};
  cl_kernel kernel = sattn_dtype_size(args->dtype) == 4 ? rows->move_32 : rows->move_16;
  sattn_cl_chain chain;
  status = sattn_cl_chain_begin(&chain, context, submission, NULL, error);
  if (status == SATTN_OK) {
    pthread_mutex_lock(&rows->lock);
    status = bind_move(context, kernel, &params, args->permutation->device_order, args->source.buffer, args->target.buffer, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(&chain, kernel, 3, global, local, error);
    pthread_mutex_unlock(&rows->lock);
  }
  return sattn_cl_chain_end(&chain, status, error);
}
