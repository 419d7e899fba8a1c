#include "cl_pack_grad.h"

#include <stdio.h>
#include <string.h>

#include "cl_pack.h"
#include "cl_program.h"
#include "dispatch.h"
#include "kernel_args.h"

#define LN_2 0.693147180559945309f

/* ---- where blocks lie ---- */

void sattn_cl_pack_grad_carve_sums(const sattn_problem *problem, const sattn_sizes *sizes, int32_t blocks, sattn_grad_blocks *at,
                                   uint64_t *end) {
  const sattn_cl_packed sums = sattn_cl_pack_carve(problem, sizes, SATTN_CL_PACK_ROWS, blocks, end);
  at->grad_key = sums.key;
  at->grad_value = sums.value;
  at->head = sums.head;
  uint64_t heads = (uint64_t)sizes->batch * (uint64_t)problem->kv_heads;
  at->state = (int64_t)(sattn_carve(end, heads, (uint64_t)blocks, sizeof(int32_t)) / sizeof(int32_t));
  at->state_head = blocks;
}

void sattn_cl_pack_grad_carve_keys(const sattn_problem *problem, const sattn_sizes *sizes, int32_t blocks, sattn_grad_blocks *at,
                                   uint64_t *end) {
  const sattn_cl_packed packed = sattn_cl_pack_carve(problem, sizes, SATTN_CL_PACK_ROWS, blocks, end);
  uint64_t heads = (uint64_t)sizes->batch * (uint64_t)problem->kv_heads;
  at->key = packed.key;
  at->value = packed.value;
  at->head = packed.head;
  at->key_row = (int64_t)(sattn_carve(end, heads, (uint64_t)packed.head, sizeof(float)) / sizeof(float));
}

/* ---- arguments ---- */

static sattn_status bind_pack(const sattn_context *context, cl_kernel kernel, const sattn_pack_grad_params *params,
                              const sattn_backward_args *args, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, args->key.buffer);
  sattn_cl_bind_buffer(&binder, args->value.buffer);
  sattn_cl_bind_buffer(&binder, args->workspace);
  sattn_cl_bind_buffer(&binder, args->workspace);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status bind_unpack(const sattn_context *context, cl_kernel kernel, const sattn_pack_grad_params *params,
                                const sattn_backward_args *args, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, args->workspace);
  sattn_cl_bind_buffer(&binder, args->workspace);
  sattn_cl_bind_buffer(&binder, args->grad_key.buffer);
  sattn_cl_bind_buffer(&binder, args->grad_value.buffer);
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status bind_sums(const sattn_context *context, cl_kernel kernel, const sattn_sum_sinks_params *params,
                              const sattn_backward_args *args, const sattn_saved *saved, bool gated, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, gated ? saved->lse_sa.buffer : saved->lse.buffer);
  sattn_cl_bind_buffer(&binder, gated ? saved->lse_swa.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args->sink_logits.buffer);
  sattn_cl_bind_buffer(&binder, args->workspace);
  sattn_cl_bind_buffer(&binder, args->grad_sink_logits.buffer);
  return sattn_cl_bind_status(&binder, error);
}

/* ---- life ---- */

void sattn_cl_pack_grad_destroy(sattn_context *context, sattn_cl_pack_grad *pack) {
  sattn_cl_kernel_release(context, &pack->pack);
  sattn_cl_kernel_release(context, &pack->unpack);
  sattn_cl_kernel_release(context, &pack->sum_sinks);
}

static sattn_status launch_empty(sattn_context *context, const sattn_cl_pack_grad *pack, sattn_error *error) {
  static const sattn_backward_args no_args;
  static const sattn_saved no_saved;
  const size_t local[3] = {1, 1, 1};
  sattn_pack_grad_params none;
  sattn_sum_sinks_params no_sums;
  memset(&none, 0, sizeof none);
  memset(&no_sums, 0, sizeof no_sums);
  sattn_status status = bind_pack(context, pack->pack, &none, &no_args, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, pack->pack, 3, local, error);
  if (status == SATTN_OK) status = bind_unpack(context, pack->unpack, &none, &no_args, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, pack->unpack, 3, local, error);
  if (status == SATTN_OK) status = bind_sums(context, pack->sum_sinks, &no_sums, &no_args, &no_saved, false, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, pack->sum_sinks, 1, local, error);
  return status;
}

sattn_status sattn_cl_pack_grad_prepare(const sattn_plan *plan, sattn_cl_pack_grad *out_pack, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements_wide.cl", "pack_rows.cl", "attend_cpu_grad_pack.cl", NULL};
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  sattn_cl_pack_grad pack = {NULL, NULL, NULL};
  char options[64];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d", (int)plan->problem.head_dim, (int)plan->problem.dtype);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "pack_grad", &pack.pack, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "unpack_grad", &pack.unpack, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "sum_sinks", &pack.sum_sinks, error);
  if (status == SATTN_OK) status = launch_empty(context, &pack, error);
  if (status != SATTN_OK) {
    sattn_cl_pack_grad_destroy(context, &pack);
    return status;
  }
  sattn_cl_program_launched(context, program);
  *out_pack = pack;
  return SATTN_OK;
}

/* ---- execution ---- */

/* What packing and unpacking have in common. `token`, `head` are strides of the caller's arrays. */
static sattn_pack_grad_params describe(const sattn_problem *problem, const sattn_sizes *sizes, const sattn_cl_lists *lists,
                                       const sattn_tensor *key, const sattn_tensor *value) {
  sattn_pack_grad_params params;
  memset(&params, 0, sizeof params);
  params.list = lists->layout;
  params.key = sattn_kernel_place(key);
  params.value = sattn_kernel_place(value);
  params.batch = sizes->batch;
  params.count = lists->blocks;
  params.kv_heads = problem->kv_heads;
  bool heads_together = lists->heads == 1 && key->stride_head <= key->stride_token;
  params.heads_at_once = heads_together ? problem->kv_heads : 1;
  params.lists_per_batch = lists->per_batch ? lists->heads : 0;
  params.list_heads = lists->heads;
  params.keys = (int32_t)sizes->keys;
  /* fp32 queries are multiplied by scale * log2(e) when they are read, and so enter dK; half types are not. */
  params.key_factor = problem->dtype == SATTN_FP32 ? LN_2 : problem->scale;
  return params;
}

static sattn_status launch(cl_kernel kernel, const sattn_pack_grad_params *params, sattn_cl_chain *chain, sattn_error *error) {
  const size_t local[3] = {1, 1, 1};
  const size_t global[3] = {sattn_cl_axis(params->count, 1), sattn_cl_axis(params->kv_heads / params->heads_at_once, 1),
                            sattn_cl_axis(params->batch, 1)};
  return sattn_cl_chain_launch(chain, kernel, 3, global, local, error);
}

sattn_status sattn_cl_pack_grad_enqueue(const sattn_cl_pack_grad *pack, const sattn_plan *plan, const sattn_backward_args *args,
                                        const sattn_cl_lists *lists, const sattn_grad_blocks *blocks, int32_t flags, sattn_cl_chain *chain,
                                        sattn_error *error) {
  sattn_pack_grad_params params = describe(&plan->problem, &args->saved->sizes, lists, &args->key, &args->value);
  params.blocks = *blocks;
  params.sinks = *blocks;
  params.flags = flags;
  if (flags & SATTN_PACK_GRAD_SINKS) params.count = lists->sink_blocks;
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_PACK, error);
  if (status == SATTN_OK) status = bind_pack(plan->context, pack->pack, &params, args, error);
  if (status == SATTN_OK) status = launch(pack->pack, &params, chain, error);
  return status;
}

sattn_status sattn_cl_unpack_enqueue(const sattn_cl_pack_grad *pack, const sattn_plan *plan, const sattn_backward_args *args,
                                     const sattn_cl_unpack *unpack, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_sizes *sizes = &args->saved->sizes;
  sattn_pack_grad_params params = describe(&plan->problem, sizes, unpack->lists, &args->grad_key, &args->grad_value);
  params.blocks = *unpack->blocks;
  if (unpack->sinks) {
    params.sinks = *unpack->sinks;
    params.flags |= SATTN_PACK_GRAD_SINKS;
  }
  if (unpack->carry) {
    params.carry_key = unpack->carry->grad_key;
    params.carry_value = unpack->carry->grad_value;
    params.carry_head = unpack->carry->head;
    params.flags |= SATTN_PACK_GRAD_CARRY;
  }
  if (sizes->queries == 0) params.flags = SATTN_PACK_GRAD_ZERO;
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_PACK, error);
  if (status == SATTN_OK) status = bind_unpack(plan->context, pack->unpack, &params, args, error);
  if (status == SATTN_OK) status = launch(pack->unpack, &params, chain, error);
  return status;
}

sattn_status sattn_cl_sum_sinks_enqueue(const sattn_cl_pack_grad *pack, const sattn_plan *plan, const sattn_backward_args *args,
                                        const int64_t *deltas, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  const sattn_saved *saved = args->saved;
  bool gated = problem->mode == SATTN_GATED;
  sattn_sum_sinks_params params;
  memset(&params, 0, sizeof params);
  params.lse[0] = gated ? saved->lse_sa.offset : saved->lse.offset;
  params.lse[1] = saved->lse_swa.offset;
  params.deltas[0] = deltas[0];
  params.deltas[1] = deltas[1];
  params.sink_logits = args->sink_logits.offset;
  params.grad_sink_logits = args->grad_sink_logits.offset;
  params.batch = saved->sizes.batch;
  params.heads = problem->heads;
  params.queries = (int32_t)saved->sizes.queries;
  params.branches = gated ? 2 : 1;
  const size_t local = 1, global = sattn_cl_axis(problem->heads, local);
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_OTHER, error);
  if (status == SATTN_OK) status = bind_sums(plan->context, pack->sum_sinks, &params, args, saved, gated, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, pack->sum_sinks, 1, &global, &local, error);
  return status;
}
