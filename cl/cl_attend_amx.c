/* The bf16 path of CPUs with AMX: the lists of the CPU kernels, K and V packed in tiles, one work-item per tile of 64 queries
 * (kernels/attend_amx.cl).
 *
 *     FULL, SLIDING_WINDOW   identity lists  -> pack -> attend
 *     STOCHASTIC             permuted lists  -> pack -> attend
 */
#include <stdio.h>
#include <string.h>

#include "cl_amx.h"
#include "cl_attend.h"
#include "cl_attend_cpu.h"
#include "cl_pack.h"
#include "cl_program.h"

typedef struct amx_state {
  sattn_cl_permute permute;
  cl_kernel pack;
  cl_kernel attend;
} amx_state;

typedef struct amx_layout {
  sattn_cl_lists lists;
  sattn_cl_packed packed, sinks;
} amx_layout;

/* ---- choice ---- */

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  int32_t d = problem->head_dim;
  if (problem->dtype != SATTN_BF16) {
    snprintf(reason, SATTN_REASON_BYTES, "dtype is not bf16");
  } else if (sattn_cl_amx_refusal(context)) {
    snprintf(reason, SATTN_REASON_BYTES, "%s", sattn_cl_amx_refusal(context));
  } else if (problem->mode != SATTN_FULL && problem->mode != SATTN_SLIDING_WINDOW && problem->mode != SATTN_STOCHASTIC) {
    snprintf(reason, SATTN_REASON_BYTES, "mode is none of full, swa, sa");
  } else if (d % 16 != 0 || d > 128) {
    snprintf(reason, SATTN_REASON_BYTES, "head_dim %d is no multiple of 16 up to 128", (int)d);
  } else if (problem->wrap) {
    snprintf(reason, SATTN_REASON_BYTES, "wrap makes a band that is no interval of slots");
  } else if (maxima->keys > INT32_MAX - 2 * SATTN_CL_BLOCK) {
    snprintf(reason, SATTN_REASON_BYTES, "more than 2^31 - 129 keys");
  } else {
    return true;
  }
  return false;
}

static amx_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  amx_layout layout;
  memset(&layout, 0, sizeof layout);
  layout.lists = sattn_cl_lists_carve(problem, sizes, !problem->uses_sa, end);
  layout.packed = sattn_cl_pack_carve(problem, sizes, SATTN_CL_PACK_AMX, layout.lists.blocks, end);
  layout.sinks = sattn_cl_pack_carve(problem, sizes, SATTN_CL_PACK_AMX, layout.lists.sink_blocks, end);
  return layout;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  carve(problem, maxima, &end);
  return end;
}

/* ---- arguments ---- */

static sattn_attend_cpu_params describe(const sattn_problem *problem, const sattn_forward_args *args, const amx_layout *layout) {
  sattn_attend_cpu_params params = sattn_cl_cpu_describe(problem, args, &layout->lists, &layout->packed, &layout->sinks);
  params.lse = args->lse.offset;
  return params;
}

static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_attend_cpu_params *params,
                         const sattn_forward_args *args, sattn_error *error) {
  const sattn_buffer *buffers[] = {args->query.buffer, args->workspace,  args->workspace,
                                   args->out.buffer,   args->lse.buffer, args->sink_logits.buffer};
  return sattn_cl_bind_all(context, kernel, params, sizeof *params, buffers, sizeof buffers / sizeof buffers[0], error);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  amx_state *state = opaque;
  sattn_cl_permute_destroy(context, &state->permute);
  sattn_cl_kernel_release(context, &state->pack);
  sattn_cl_kernel_release(context, &state->attend);
}

static sattn_status prepare_attend(const sattn_plan *plan, cl_kernel *kernel, sattn_error *error) {
  static const char *const sources[] = {
      "kernel_params.h",    "elements_wide.cl", "pack_rows.cl",       "attend_amx_layout.cl", "attend_cpu_common.cl",
      "attend_cpu_grid.cl", "amx.cl",           "attend_amx_tile.cl", "attend_amx.cl",        NULL};
  static const sattn_forward_args no_args;
  const sattn_problem *problem = &plan->problem;
  char options[256];
  snprintf(options, sizeof options,
           "-DHEAD_DIM=%d -DDTYPE=%d -DCAUSAL=%d -DSLOT_SORTED=%d -DSOFTCAP=%d -DOTHER=0 -DHEADS_PER_TILE=1 -DSATTN_BF16_PAIRS=%d",
           (int)problem->head_dim, (int)problem->dtype, problem->causal, !problem->causal || !problem->uses_sa, problem->softcap > 0.0f,
           sattn_cl_of(plan->context)->amx.has_pairs);
  sattn_cl_program *program = NULL;
  sattn_status status = sattn_cl_program_get(plan->context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(plan->context, program, "attend_amx", kernel, error);
  sattn_attend_cpu_params none;
  memset(&none, 0, sizeof none);
  const size_t local = 1;
  if (status == SATTN_OK) status = bind(plan->context, *kernel, &none, &no_args, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(plan->context, *kernel, 1, &local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(plan->context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  amx_state *state = opaque;
  sattn_status status = sattn_cl_permute_prepare(plan->context, &state->permute, error);
  if (status == SATTN_OK) status = sattn_cl_pack_prepare(plan, SATTN_CL_PACK_AMX, &state->pack, error);
  if (status == SATTN_OK) status = prepare_attend(plan, &state->attend, error);
  return status;
}

/* ---- execution ---- */

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  amx_state *state = opaque;
  uint64_t end = (uint64_t)args->workspace_offset;
  const amx_layout layout = carve(&plan->problem, &args->sizes, &end);
  const sattn_attend_cpu_params params = describe(&plan->problem, args, &layout);
  sattn_status status = sattn_cl_permute_enqueue(&state->permute, plan, args, &layout.lists, NULL, chain, error);
  if (status == SATTN_OK) {
    status = sattn_cl_pack_enqueue(state->pack, plan, args, &layout.lists, &layout.packed, false, params.left, params.right, chain, error);
  }
  if (status == SATTN_OK && layout.lists.sink_blocks) {
    status = sattn_cl_pack_enqueue(state->pack, plan, args, &layout.lists, &layout.sinks, true, 0, 0, chain, error);
  }
  const size_t local = 1, global = sattn_cl_axis(params.batch * params.heads * params.tiles, local);
  if (status == SATTN_OK) status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = bind(plan->context, state->attend, &params, args, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, state->attend, 1, &global, &local, error);
  return status;
}

const sattn_cl_attend sattn_cl_attend_amx = {
    .common =
        {
            .name = "attend_amx",
            .family = SATTN_KERNELS_CPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_FORWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(amx_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_forward = enqueue,
};
