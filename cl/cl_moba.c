#include "cl_moba.h"

#include <string.h>

#include "cl_permute.h"
#include "cl_program.h"
#include "dispatch.h"

sattn_cl_moba_lists sattn_cl_moba_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_cl_moba_lists lists;
  memset(&lists, 0, sizeof lists);
  lists.rounds = problem->topk - 1;
  if (lists.rounds == 0) return lists;
  sattn_moba_params *p = &lists.params;
  p->heads = problem->heads;
  p->queries = (int32_t)sizes->queries;
  p->keys = (int32_t)sizes->keys;
  p->tiles = (int32_t)((sizes->queries + SATTN_CL_BLOCK - 1) / SATTN_CL_BLOCK);
  p->block = problem->block;
  p->blocks = (int32_t)((sizes->keys + problem->block - 1) / problem->block);
  p->rounds = lists.rounds;
  int64_t entries = (int64_t)p->tiles * SATTN_CL_BLOCK;
  uint64_t rows = (uint64_t)sizes->batch * (uint64_t)problem->heads;
  p->round_stride = 3 * entries;
  p->stride = lists.rounds * p->round_stride;
  p->query_position = (int64_t)(sattn_carve(end, rows, (uint64_t)p->stride, sizeof(int32_t)) / sizeof(int32_t));
  p->query_row = p->query_position + entries;
  p->query_slot = p->query_row + entries;
  uint64_t counts = (uint64_t)lists.rounds * (uint64_t)(p->blocks + 1);
  p->begin = (int64_t)(sattn_carve(end, rows, counts, sizeof(int32_t)) / sizeof(int32_t));
  return lists;
}

static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_moba_params *params, const sattn_buffer *selected,
                         const sattn_forward_args *args, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, selected);
  sattn_cl_bind_buffer(&binder, args ? args->lengths.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->query_start.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->workspace : NULL);
  return sattn_cl_bind_status(&binder, error);
}

sattn_status sattn_cl_moba_prepare(sattn_context *context, cl_kernel *out_kernel, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "moba_lists.cl", NULL};
  sattn_cl_program *program = NULL;
  sattn_moba_params none;
  memset(&none, 0, sizeof none);
  const size_t local[3] = {1, 1, 1};
  sattn_status status = sattn_cl_program_get(context, sources, "", &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "moba_lists", out_kernel, error);
  if (status == SATTN_OK) status = bind(context, *out_kernel, &none, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, *out_kernel, 3, local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

sattn_status sattn_cl_moba_enqueue(cl_kernel kernel, const sattn_plan *plan, const sattn_forward_args *args,
                                   const sattn_cl_moba_lists *lists, const sattn_cl_selected *selected, sattn_cl_chain *chain,
                                   sattn_error *error) {
  if (lists->rounds == 0) return SATTN_OK;
  sattn_moba_params params = lists->params;
  params.batch = args->sizes.batch;
  params.lengths = args->lengths.offset;
  params.query_start = args->query_start.offset;
  params.selected = selected->offset;
  params.selected_stride = selected->places;
  params.places = (int32_t)selected->places;
  const size_t local[3] = {1, 1, 1};
  const size_t global[3] = {sattn_cl_axis(params.rounds, 1), sattn_cl_axis(params.heads, 1), sattn_cl_axis(params.batch, 1)};
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_PERMUTE, error);
  if (status == SATTN_OK) status = bind(plan->context, kernel, &params, selected->buffer, args, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, kernel, 3, global, local, error);
  return status;
}

int64_t sattn_cl_moba_queries(const sattn_cl_moba_lists *lists, int round, sattn_list_layout *layout) {
  int64_t at = round * lists->params.round_stride;
  layout->query_position = lists->params.query_position + at;
  layout->query_row = lists->params.query_row + at;
  layout->query_slot = lists->params.query_slot + at;
  return lists->params.stride;
}
