#include "cl_permute.h"

#include <string.h>

#include "cl_program.h"
#include "dispatch.h"

static bool per_head(const sattn_problem *problem) {
  return problem->uses_sa && (problem->sharing == SATTN_PER_HEAD || problem->sharing == SATTN_PER_BATCH_AND_HEAD);
}

static bool per_batch(const sattn_problem *problem) {
  return problem->uses_sa && (problem->sharing == SATTN_PER_BATCH || problem->sharing == SATTN_PER_BATCH_AND_HEAD);
}

static int32_t blocks_of(int64_t count) {
  return (int32_t)((count + SATTN_CL_BLOCK - 1) / SATTN_CL_BLOCK);
}

/* UNION's second pass compares slots of the first pass's order, so its lists are as many. */
static bool as_many_as_orders(const sattn_problem *problem, bool identity) {
  return !identity || problem->mode == SATTN_UNION;
}

static int64_t take(int64_t *end, int64_t entries) {
  int64_t at = *end;
  *end += (entries + 15) / 16 * 16;
  return at;
}

sattn_cl_lists sattn_cl_lists_carve(const sattn_problem *problem, const sattn_sizes *sizes, bool identity, uint64_t *end) {
  sattn_cl_lists lists;
  memset(&lists, 0, sizeof lists);
  bool orders = as_many_as_orders(problem, identity);
  lists.identity = identity;
  lists.per_batch = problem->has_lengths || problem->has_query_start || (orders && per_batch(problem));
  lists.heads = orders && per_head(problem) ? problem->kv_heads : 1;
  /* Both bands of UNION are under one softmax, so its second pass alone shows the sinks. */
  bool shows_sinks = problem->mode != SATTN_UNION || identity;
  lists.sinks = !shows_sinks ? 0 : problem->sink_tokens < sizes->keys ? problem->sink_tokens : (int32_t)sizes->keys;
  lists.blocks = blocks_of(sizes->keys);
  lists.tiles = blocks_of(sizes->queries);
  lists.sink_blocks = blocks_of(lists.sinks);

  int64_t used = 0, keys = (int64_t)lists.blocks * SATTN_CL_BLOCK, queries = (int64_t)lists.tiles * SATTN_CL_BLOCK;
  int64_t sinks = (int64_t)lists.sink_blocks * SATTN_CL_BLOCK;
  bool other = problem->mode == SATTN_UNION && identity;
  sattn_list_layout *layout = &lists.layout;
  int64_t *const key_arrays[] = {&layout->key_position, &layout->key_slot}, *const query_arrays[] = {&layout->query_position,
                                                                                                     &layout->query_row,
                                                                                                     &layout->query_slot};
  for (size_t i = 0; i < 2; ++i) *key_arrays[i] = take(&used, keys);
  for (size_t i = 0; i < 3; ++i) *query_arrays[i] = take(&used, queries);
  layout->block_first = take(&used, lists.blocks);
  layout->block_last = take(&used, lists.blocks);
  layout->sink_position = take(&used, sinks);
  layout->sink_slot = take(&used, sinks);
  layout->key_other = take(&used, other ? keys : 0);
  layout->query_other = take(&used, other ? queries : 0);
  layout->sink_other = take(&used, other ? sinks : 0);
  layout->slot_of = take(&used, sizes->keys);
  layout->counts = take(&used, 2);
  layout->stride = used;

  uint64_t count = (uint64_t)(lists.per_batch ? sizes->batch : 1) * (uint64_t)lists.heads;
  int64_t start = (int64_t)(sattn_carve(end, count, (uint64_t)used, sizeof(int32_t)) / sizeof(int32_t));
  int64_t *const arrays[] = {&layout->key_position, &layout->key_slot,      &layout->key_other,      &layout->block_first,
                             &layout->block_last,   &layout->query_row,     &layout->query_position, &layout->query_slot,
                             &layout->query_other,  &layout->sink_position, &layout->sink_slot,      &layout->sink_other,
                             &layout->slot_of,      &layout->counts};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) *arrays[i] += start;
  return lists;
}

/* ---- life ---- */

void sattn_cl_permute_destroy(sattn_context *context, sattn_cl_permute *permute) {
  sattn_cl_kernel_release(context, &permute->lists);
  sattn_cl_kernel_release(context, &permute->sort);
  sattn_cl_kernel_release(context, &permute->cross);
}

static sattn_status bind_lists(const sattn_context *context, cl_kernel kernel, const sattn_permute_params *params,
                               const sattn_buffer *order, const sattn_forward_args *args, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, order);
  sattn_cl_bind_buffer(&binder, args ? args->lengths.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->query_start.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->workspace : NULL);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status bind_in_place(const sattn_context *context, cl_kernel kernel, const sattn_permute_params *params,
                                  const sattn_buffer *workspace, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, workspace);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status launch_empty(sattn_context *context, const sattn_cl_permute *permute, sattn_error *error) {
  const size_t local[2] = {1, 1};
  sattn_permute_params none;
  memset(&none, 0, sizeof none);
  sattn_status status = bind_lists(context, permute->lists, &none, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, permute->lists, 1, local, error);
  if (status == SATTN_OK) status = bind_in_place(context, permute->sort, &none, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, permute->sort, 2, local, error);
  if (status == SATTN_OK) status = bind_in_place(context, permute->cross, &none, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, permute->cross, 2, local, error);
  return status;
}

sattn_status sattn_cl_permute_prepare(sattn_context *context, sattn_cl_permute *out_permute, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "permute.cl", NULL};
  sattn_cl_program *program = NULL;
  sattn_cl_permute permute = {NULL, NULL, NULL};
  sattn_status status = sattn_cl_program_get(context, sources, "", &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "permute_lists", &permute.lists, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "permute_sort", &permute.sort, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "permute_cross", &permute.cross, error);
  if (status == SATTN_OK) status = launch_empty(context, &permute, error);
  if (status != SATTN_OK) {
    sattn_cl_permute_destroy(context, &permute);
    return status;
  }
  sattn_cl_program_launched(context, program);
  *out_permute = permute;
  return SATTN_OK;
}

/* ---- execution ---- */

static sattn_permute_params describe(const sattn_problem *problem, const sattn_forward_args *args, const sattn_cl_lists *lists,
                                     const sattn_cl_lists *other) {
  sattn_permute_params params;
  memset(&params, 0, sizeof params);
  params.list = lists->layout;
  if (other) params.other = other->layout;
  params.lengths = args->lengths.offset;
  params.query_start = args->query_start.offset;
  params.lists = (lists->per_batch ? args->sizes.batch : 1) * lists->heads;
  params.keys = (int32_t)args->sizes.keys;
  params.queries = (int32_t)args->sizes.queries;
  params.length = lists->identity ? params.keys : (int32_t)args->permutation->length;
  /* Orders are numbered as lists are: batch outer, head inner, along the axes that they are shared out over. */
  params.orders = lists->identity ? 1 : (int32_t)args->permutation->count;
  params.lists_per_batch = lists->heads;
  params.key_blocks = lists->blocks;
  params.tiles = lists->tiles;
  params.sink_blocks = lists->sink_blocks;
  params.sink_tokens = lists->sinks;
  params.block = problem->mode == SATTN_MOBA ? problem->block : 0;
  params.flags = (lists->identity ? SATTN_LIST_IDENTITY : 0) | (problem->has_lengths ? SATTN_LIST_LENGTHS : 0) |
                 (problem->has_query_start ? SATTN_LIST_QUERY_START : 0) | (other ? SATTN_LIST_OTHER : 0);
  if (!lists->identity && problem->causal) params.flags |= SATTN_LIST_SORT;
  if (!lists->identity && problem->order_length) params.flags |= SATTN_LIST_SLOT_GAPS;
  return params;
}

sattn_status sattn_cl_permute_enqueue(const sattn_cl_permute *permute, const sattn_plan *plan, const sattn_forward_args *args,
                                      const sattn_cl_lists *lists, const sattn_cl_lists *other, sattn_cl_chain *chain, sattn_error *error) {
  const size_t local[2] = {1, 1};
  const sattn_permute_params params = describe(&plan->problem, args, lists, other);
  const size_t list_grid = sattn_cl_axis(params.lists, 1);
  const size_t sort_grid[2] = {sattn_cl_axis((int64_t)params.key_blocks + params.tiles, 1), list_grid};
  const size_t cross_grid[2] = {sattn_cl_axis((int64_t)params.key_blocks + params.tiles + params.sink_blocks, 1), list_grid};
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_PERMUTE, error);
  const sattn_buffer *order = lists->identity ? NULL : args->permutation->device_order;
  if (status == SATTN_OK) status = bind_lists(plan->context, permute->lists, &params, order, args, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, permute->lists, 1, &list_grid, local, error);
  if (status == SATTN_OK) status = bind_in_place(plan->context, permute->sort, &params, args->workspace, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, permute->sort, 2, sort_grid, local, error);
  if (params.sink_blocks || other) {
    if (status == SATTN_OK) status = bind_in_place(plan->context, permute->cross, &params, args->workspace, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, permute->cross, 2, cross_grid, local, error);
  }
  return status;
}
