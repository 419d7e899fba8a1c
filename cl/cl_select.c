#include "cl_select.h"

#include <stdio.h>
#include <string.h>

#define WIDE_QUERIES 16 /* SOME_QUERIES of kernels/select_wide.cl */

void sattn_cl_select_destroy(sattn_context *context, sattn_cl_select *select) {
  sattn_cl_kernel_release(context, &select->means);
  sattn_cl_kernel_release(context, &select->choose);
}

static sattn_status bind_means(const sattn_context *context, cl_kernel kernel, const sattn_general_params *params, const sattn_buffer *key,
                               const sattn_buffer *lengths, const sattn_buffer *workspace, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, key);
  sattn_cl_bind_buffer(&binder, lengths);
  sattn_cl_bind_buffer(&binder, workspace);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status bind_choose(const sattn_context *context, cl_kernel kernel, const sattn_general_params *params,
                                const sattn_forward_args *args, const sattn_buffer *selected, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, args ? args->query.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->workspace : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->lengths.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->query_start.buffer : NULL);
  sattn_cl_bind_buffer(&binder, selected);
  sattn_cl_bind_buffer(&binder, args ? args->workspace : NULL);
  return sattn_cl_bind_status(&binder, error);
}

sattn_status sattn_cl_select_prepare(const sattn_plan *plan, bool wide, sattn_cl_select *out_select, sattn_error *error) {
  static const char *const plain_sources[] = {"kernel_params.h", "elements.cl", "select.cl", NULL};
  static const char *const wide_sources[] = {"kernel_params.h", "elements.cl", "elements_wide.cl", "pack_rows.cl", "select.cl",
                                             "select_wide.cl",  NULL};
  const char *const *sources = wide ? wide_sources : plain_sources;
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  sattn_cl_select select = {NULL, NULL, wide ? WIDE_QUERIES : 1};
  char options[64];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d", (int)plan->problem.head_dim, (int)plan->problem.dtype);
  sattn_general_params none;
  memset(&none, 0, sizeof none);
  const size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "block_means", &select.means, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, wide ? "select_wide" : "select_blocks", &select.choose, error);
  if (status == SATTN_OK) status = bind_means(context, select.means, &none, NULL, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, select.means, 3, local, error);
  if (status == SATTN_OK) status = bind_choose(context, select.choose, &none, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, select.choose, 3, local, error);
  if (status != SATTN_OK) {
    sattn_cl_select_destroy(context, &select);
    return status;
  }
  sattn_cl_program_launched(context, program);
  *out_select = select;
  return SATTN_OK;
}

sattn_status sattn_cl_select_enqueue(sattn_cl_select *select, const sattn_plan *plan, const sattn_forward_args *args,
                                     const sattn_select_layout *layout, sattn_general_params *params, sattn_cl_chain *chain,
                                     const sattn_buffer **out_selected, sattn_error *error) {
  const sattn_buffer *selected = args->saved ? args->saved->selected.buffer : args->workspace;
  sattn_select_describe(&plan->problem, args, layout, params);

  const size_t local[3] = {sattn_cl_plain_group(plan->context), 1, 1};
  size_t global[3] = {sattn_cl_axis(layout->blocks, local[0]), sattn_cl_axis(plan->problem.kv_heads, 1),
                      sattn_cl_axis(args->sizes.batch, 1)};
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_OTHER, error);
  if (status == SATTN_OK) {
    status = bind_means(plan->context, select->means, params, args->key.buffer, args->lengths.buffer, args->workspace, error);
  }
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, select->means, 3, global, local, error);
  global[0] = sattn_cl_axis((args->sizes.queries + select->queries_at_once - 1) / select->queries_at_once, local[0]);
  global[1] = sattn_cl_axis(plan->problem.heads, 1);
  if (status == SATTN_OK) status = bind_choose(plan->context, select->choose, params, args, selected, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, select->choose, 3, global, local, error);
  *out_selected = selected;
  return status;
}
