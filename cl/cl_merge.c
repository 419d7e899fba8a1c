#include <stdio.h>
#include <string.h>

#include "cl_event.h"
#include "cl_program.h"
#include "cl_rows.h"
#include "kernel_args.h"

static sattn_status bind_merge(const sattn_context *context, cl_kernel kernel, const sattn_merge_params *params,
                               const sattn_merge_args *args, sattn_error *error) {
  static const sattn_merge_args no_args;
  if (!args) args = &no_args;
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, args->out_a.buffer);
  sattn_cl_bind_buffer(&binder, args->lse_a.buffer);
  sattn_cl_bind_buffer(&binder, args->out_b.buffer);
  sattn_cl_bind_buffer(&binder, args->lse_b.buffer);
  sattn_cl_bind_buffer(&binder, args->out.buffer);
  sattn_cl_bind_buffer(&binder, args->lse.buffer);
  return sattn_cl_bind_status(&binder, error);
}

sattn_status sattn_cl_merge_prepare(sattn_context *context, sattn_cl_rows *rows, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements.cl", "merge.cl", NULL};
  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  sattn_merge_params none;
  memset(&none, 0, sizeof none);
  sattn_status status = SATTN_OK;
  for (int i = 0; status == SATTN_OK && i < SATTN_CL_DTYPES; ++i) {
    sattn_cl_program *program = NULL;
    char options[32];
    snprintf(options, sizeof options, "-DDTYPE=%d", i + 1);
    status = sattn_cl_program_get(context, sources, options, &program, error);
    if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "merge_rows", &rows->merge[i], error);
    if (status == SATTN_OK) status = bind_merge(context, rows->merge[i], &none, NULL, error);
    if (status == SATTN_OK) status = sattn_cl_launch_once(context, rows->merge[i], 3, local, error);
    if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  }
  return status;
}

sattn_status sattn_cl_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission, sattn_error *error) {
  sattn_status status = sattn_cl_rows_prepare(context, error);
  if (status != SATTN_OK) return status;
  sattn_cl_rows *rows = sattn_cl_of(context)->rows;
  sattn_merge_params params;
  sattn_merge_describe(args, &params);

  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  const size_t global[3] = {sattn_cl_axis(args->queries, local[0]), sattn_cl_axis(args->heads, 1), sattn_cl_axis(args->batch, 1)};
  cl_kernel kernel = rows->merge[args->dtype - 1];
  sattn_cl_chain chain;
  status = sattn_cl_chain_begin(&chain, context, submission, NULL, error);
  if (status == SATTN_OK) {
    pthread_mutex_lock(&rows->lock);
    status = bind_merge(context, kernel, &params, args, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(&chain, kernel, 3, global, local, error);
    pthread_mutex_unlock(&rows->lock);
  }
  return sattn_cl_chain_end(&chain, status, error);
}
