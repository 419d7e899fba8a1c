#include "cl_pack.h"

#include <stdio.h>
#include <string.h>

#include "cl_program.h"
#include "dispatch.h"
#include "kernel_args.h"

/* Looking for the blocks that a band reaches costs each block a look at every query: worth it where tiles are few. */
#define BLOCKS_PER_TILE 8

sattn_cl_packed sattn_cl_pack_carve(const sattn_problem *problem, const sattn_sizes *sizes, sattn_cl_pack_form form, int32_t blocks,
                                    uint64_t *end) {
  sattn_cl_packed packed;
  bool in_tiles = form == SATTN_CL_PACK_AMX;
  int32_t width = in_tiles ? (problem->head_dim + 31) / 32 * 32 : problem->head_dim;
  uint64_t element = in_tiles ? sizeof(uint16_t) : sizeof(float);
  int64_t marks = in_tiles ? ((int64_t)blocks * 2 + 31) / 32 * 32 : 0; /* whole cache lines, so that tiles stay aligned */
  packed.head = (int64_t)blocks * SATTN_CL_BLOCK * width + marks;
  uint64_t heads = (uint64_t)sizes->batch * (uint64_t)problem->kv_heads;
  packed.key = (int64_t)(sattn_carve(end, heads, (uint64_t)packed.head, element) / element);
  packed.value = (int64_t)(sattn_carve(end, heads, (uint64_t)packed.head, element) / element);
  return packed;
}

static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_pack_params *params, const sattn_forward_args *args,
                         sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, args ? args->key.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->value.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->workspace : NULL);
  sattn_cl_bind_buffer(&binder, args ? args->workspace : NULL);
  return sattn_cl_bind_status(&binder, error);
}

sattn_status sattn_cl_pack_prepare(const sattn_plan *plan, sattn_cl_pack_form form, cl_kernel *out_kernel, sattn_error *error) {
  static const char *const rows[] = {"kernel_params.h", "elements_wide.cl", "pack_rows.cl", "pack.cl", "pack_grid.cl", NULL};
  static const char *const tiles[] = {
      "kernel_params.h", "elements_wide.cl", "pack_rows.cl", "attend_amx_layout.cl", "attend_amx_pack.cl", "pack_grid.cl", NULL};
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  cl_kernel kernel = NULL;
  char options[64];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d", (int)plan->problem.head_dim, (int)plan->problem.dtype);
  sattn_status status = sattn_cl_program_get(context, form == SATTN_CL_PACK_AMX ? tiles : rows, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "pack_tiles", &kernel, error);
  sattn_pack_params none;
  memset(&none, 0, sizeof none);
  const size_t local[3] = {1, 1, 1};
  if (status == SATTN_OK) status = bind(context, kernel, &none, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, kernel, 3, local, error);
  if (status != SATTN_OK) {
    sattn_cl_kernel_release(context, &kernel);
    return status;
  }
  sattn_cl_program_launched(context, program);
  *out_kernel = kernel;
  return SATTN_OK;
}

sattn_status sattn_cl_pack_enqueue(cl_kernel kernel, const sattn_plan *plan, const sattn_forward_args *args, const sattn_cl_lists *lists,
                                   const sattn_cl_packed *packed, bool sinks, int32_t left, int32_t right, sattn_cl_chain *chain,
                                   sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  sattn_pack_params params;
  memset(&params, 0, sizeof params);
  params.list = lists->layout;
  params.key = sattn_kernel_place(&args->key);
  params.value = sattn_kernel_place(&args->value);
  params.packed_key = packed->key;
  params.packed_value = packed->value;
  params.packed_head = packed->head;
  params.batch = args->sizes.batch;
  params.blocks = sinks ? lists->sink_blocks : lists->blocks;
  params.kv_heads = problem->kv_heads;
  bool heads_together = lists->heads == 1 && args->key.stride_head <= args->key.stride_token;
  params.heads_at_once = heads_together ? problem->kv_heads : 1;
  params.lists_per_batch = lists->per_batch ? lists->heads : 0;
  params.list_heads = lists->heads;
  params.sinks = sinks;
  params.tiles = (int64_t)lists->tiles * BLOCKS_PER_TILE <= lists->blocks ? lists->tiles : 0;
  params.left = left;
  params.right = right;
  const size_t local[3] = {1, 1, 1};
  const size_t global[3] = {sattn_cl_axis(params.blocks, 1), sattn_cl_axis(heads_together ? 1 : problem->kv_heads, 1),
                            sattn_cl_axis(params.batch, 1)};
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_PACK, error);
  if (status == SATTN_OK) status = bind(plan->context, kernel, &params, args, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, kernel, 3, global, local, error);
  return status;
}
