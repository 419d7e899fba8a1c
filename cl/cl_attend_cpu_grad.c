/* Gradients on CPUs: lists and packed blocks as forward, one pass over strips of tiles (kernels/attend_cpu_grad.cl).
 *
 *     FULL, SLIDING_WINDOW   identity lists  -> pack -> strips            -> unpack dK, dV
 *     STOCHASTIC             permuted lists  -> pack -> strips            -> unpack dK, dV
 *     UNION, GATED           permuted lists  -> pack -> strips into fp32 rows of dQ and sums of the second pass
 *                            identity lists  -> pack -> strips on top     -> unpack dK, dV
 *     MOBA                   identity lists  -> pack -> strips over own blocks into fp32 rows of dQ
 *                            lists of queries by block, one after the other: strips on top     -> unpack dK, dV
 */
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_attend_cpu.h"
#include "cl_moba.h"
#include "cl_pack_grad.h"
#include "cl_program.h"
#include "kernel_args.h"

#define LOG2_E       1.4426950408889634f
#define ITEMS_WANTED 32 /* of a batch entry in each launch, where rounds can give them */
#define MOST_ROUNDS  8

/* PASS of kernels/attend_cpu_rows.cl. */
enum { PASS_PLAIN = 0, PASS_GATED = 4 };

typedef struct cpu_grad_state {
  sattn_cl_permute permute;
  sattn_cl_pack_grad pack;
  cl_kernel attend[2], sinks[2]; /* of the first pass and those after it; NULL where there is one pass */
  cl_kernel moba;
} cpu_grad_state;

typedef struct cpu_grad_layout {
  sattn_cl_lists lists[2];     /* by pass; MOBA has one for all */
  sattn_grad_blocks blocks[2]; /* sums by pass, one for all in MOBA; in keys and values passes take turns */
  sattn_cl_moba_lists moba;
  sattn_grad_blocks sinks; /* the same in both */
  int64_t partial;         /* fp32 rows of dQ */
  int64_t deltas[2];       /* -1: not wanted */
} cpu_grad_layout;

/* ---- choice ---- */

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  return sattn_cl_attend_cpu.common.supports(context, problem, maxima, reason);
}

/* Lists and blocks: of a pass, or of all. */
static int lists_of(const sattn_problem *problem, int pass) {
  return problem->mode == SATTN_MOBA ? 0 : pass;
}

static int kernel_of(int pass) {
  return pass > 0;
}

static cpu_grad_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  cpu_grad_layout layout;
  memset(&layout, 0, sizeof layout);
  int passes = sattn_cl_cpu_passes(problem), last = lists_of(problem, passes - 1);
  uint64_t rows = (uint64_t)sizes->batch * (uint64_t)problem->heads * (uint64_t)sizes->queries;
  for (int pass = 0; pass <= last; ++pass) {
    layout.lists[pass] = sattn_cl_lists_carve(problem, sizes, sattn_cl_cpu_pass_is_identity(problem, pass), end);
    if (pass == 0) sattn_cl_pack_grad_carve_keys(problem, sizes, layout.lists[0].blocks, &layout.blocks[0], end);
    if (pass == 1) layout.blocks[1] = layout.blocks[0];
    sattn_cl_pack_grad_carve_sums(problem, sizes, layout.lists[pass].blocks, &layout.blocks[pass], end);
    bool wanted = problem->has_sink_logits && (pass == 0 || problem->mode == SATTN_GATED);
    layout.deltas[pass] = wanted ? (int64_t)(sattn_carve(end, rows, 1, sizeof(float)) / sizeof(float)) : -1;
  }
  sattn_cl_pack_grad_carve_keys(problem, sizes, layout.lists[last].sink_blocks, &layout.sinks, end);
  sattn_cl_pack_grad_carve_sums(problem, sizes, layout.lists[last].sink_blocks, &layout.sinks, end);
  /* Rounds may be chosen at some sizes and not at larger ones; the workspace must not be short at either. */
  if (passes > 1 || problem->kv_heads * 2 <= ITEMS_WANTED)
    layout.partial = (int64_t)(sattn_carve(end, rows, (uint64_t)problem->head_dim, sizeof(float)) / sizeof(float));
  if (problem->mode == SATTN_MOBA) layout.moba = sattn_cl_moba_carve(problem, sizes, end);
  return layout;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  carve(problem, maxima, &end);
  return end;
}

/* ---- arguments ---- */

/* Strips that a launch takes whose first is `first`. */
static int32_t strips_of(const sattn_attend_cpu_grad_params *params, int32_t first) {
  int32_t strips = (params->tiles + params->strip - 1) / params->strip;
  return (strips - first + params->strip_step - 1) / params->strip_step;
}

/* What a pass reads and writes besides Q, dO, dQ. */
typedef struct pass_arrays {
  sattn_tensor out; /* O, or the branch's */
  sattn_array lse, grad_lse;
  sattn_tensor gate, grad_gate;
} pass_arrays;

static void arrays_of(const sattn_problem *problem, const sattn_backward_args *args, int pass, pass_arrays *arrays) {
  const sattn_saved *saved = args->saved;
  memset(arrays, 0, sizeof *arrays);
  arrays->out = saved->out;
  arrays->lse = saved->lse;
  arrays->grad_lse = args->grad_lse;
  if (problem->mode != SATTN_GATED) return;
  /* A saved branch is contiguous. */
  const sattn_array *branch = pass == 0 ? &saved->y_sa : &saved->y_swa;
  arrays->out.buffer = branch->buffer;
  arrays->out.offset = branch->offset;
  arrays->out.stride_head = problem->head_dim;
  arrays->out.stride_token = (int64_t)problem->heads * problem->head_dim;
  arrays->out.stride_batch = saved->sizes.queries * arrays->out.stride_token;
  arrays->lse = pass == 0 ? saved->lse_sa : saved->lse_swa;
  arrays->grad_lse = pass == 0 ? args->grad_lse_sa : args->grad_lse_swa;
  arrays->gate = pass == 0 ? args->gate_sa : args->gate_swa;
  arrays->grad_gate = pass == 0 ? args->grad_gate_sa : args->grad_gate_swa;
}

/* Strips of tiles whose bands stay a block apart if every other strip is left out; or, where these are too few to keep processors busy or
 * `anywhere` says that bands may lie anywhere, as many strips as rounds. Depends on shapes only, as results do. */
static void choose_strips(const sattn_problem *problem, bool anywhere, sattn_attend_cpu_grad_params *params) {
  int32_t rounds = ITEMS_WANTED / problem->kv_heads;
  if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
  if (rounds > params->tiles) rounds = params->tiles;
  int64_t reach = (int64_t)params->left + params->right;
  /* A query may be the last of its block or the first. */
  if (problem->mode == SATTN_MOBA) reach *= 2;
  int64_t strip = anywhere ? params->tiles : (reach + 2 * SATTN_CL_BLOCK - 1) / SATTN_CL_BLOCK;
  params->strip = strip < params->tiles ? (int32_t)strip : params->tiles;
  params->rounds = 1;
  params->strip_step = 2;
  if (rounds < 2 || strips_of(params, 0) * 2 > rounds) return;
  params->strip = (params->tiles + rounds - 1) / rounds;
  params->strip_step = 1;
  params->rounds = strips_of(params, 0);
}

static void describe(const sattn_problem *problem, const sattn_backward_args *args, const cpu_grad_layout *layout, int pass,
                     const pass_arrays *arrays, sattn_attend_cpu_grad_params *params) {
  const int own = lists_of(problem, pass);
  const sattn_cl_lists *lists = &layout->lists[own];
  memset(params, 0, sizeof *params);
  params->list = lists->layout;
  if (sattn_cl_cpu_has_query_lists(problem, pass)) params->query_stride = sattn_cl_moba_queries(&layout->moba, pass - 1, &params->list);
  params->query = sattn_kernel_place(&args->query);
  params->out = sattn_kernel_place(&arrays->out);
  params->grad_out = sattn_kernel_place(&args->grad_out);
  params->grad_query = sattn_kernel_place(&args->grad_query);
  params->gate = sattn_kernel_place(&arrays->gate);
  params->grad_gate = sattn_kernel_place(&arrays->grad_gate);
  params->blocks = layout->blocks[own];
  params->sinks = layout->sinks;
  params->lse = arrays->lse.offset;
  params->grad_lse = arrays->grad_lse.offset;
  params->deltas = pass == own ? layout->deltas[pass] : -1;
  params->partial = layout->partial;
  params->batch = args->saved->sizes.batch;
  params->heads = problem->heads;
  params->group = problem->group;
  params->queries = (int32_t)args->saved->sizes.queries;
  params->tiles = lists->tiles;
  params->lists_per_batch = lists->per_batch ? lists->heads : 0;
  params->list_heads = lists->heads;
  params->gate_dtype = (int32_t)problem->gate_dtype;
  params->sink_blocks = lists->sink_blocks;
  sattn_cl_cpu_sides(problem, lists->identity, args->saved->sizes.keys, &params->left, &params->right);
  params->other_left = problem->left_sa;
  params->other_right = problem->right_sa;
  choose_strips(problem, sattn_cl_cpu_has_query_lists(problem, pass), params);
  params->scale = problem->scale * LOG2_E;
  params->softcap = problem->softcap * LOG2_E;
  params->grad_scale = problem->scale;
}

static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_attend_cpu_grad_params *params,
                         const sattn_backward_args *args, const pass_arrays *arrays, sattn_error *error) {
  const sattn_buffer *buffers[] = {args->query.buffer,      arrays->out.buffer,      args->grad_out.buffer, arrays->lse.buffer,
                                   arrays->grad_lse.buffer, arrays->gate.buffer,     args->workspace,       args->workspace,
                                   args->grad_query.buffer, arrays->grad_gate.buffer};
  return sattn_cl_bind_all(context, kernel, params, sizeof *params, buffers, sizeof buffers / sizeof buffers[0], error);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  cpu_grad_state *state = opaque;
  sattn_cl_permute_destroy(context, &state->permute);
  sattn_cl_pack_grad_destroy(context, &state->pack);
  for (int pass = 0; pass < 2; ++pass) {
    sattn_cl_kernel_release(context, &state->attend[pass]);
    sattn_cl_kernel_release(context, &state->sinks[pass]);
  }
  sattn_cl_kernel_release(context, &state->moba);
}

static sattn_status launch_empty(sattn_context *context, cl_kernel kernel, sattn_error *error) {
  static const sattn_backward_args no_args;
  static const pass_arrays no_arrays;
  sattn_attend_cpu_grad_params none;
  memset(&none, 0, sizeof none);
  const size_t local = 1;
  sattn_status status = bind(context, kernel, &none, &no_args, &no_arrays, error);
  return status == SATTN_OK ? sattn_cl_launch_once(context, kernel, 1, &local, error) : status;
}

static bool shows_sinks(const sattn_problem *problem, int pass) {
  return problem->sink_tokens > 0 && (problem->mode != SATTN_UNION || pass == 1);
}

static sattn_status prepare_pass(const sattn_plan *plan, cpu_grad_state *state, int pass, sattn_error *error) {
  static const char *const sources[] = {
      "kernel_params.h",      "elements_wide.cl",        "attend_cpu_common.cl",    "attend_cpu_tile.cl", "attend_cpu_rows.cl",
      "attend_cpu_blocks.cl", "attend_cpu_grad_tile.cl", "attend_cpu_grad_rows.cl", "attend_cpu_grad.cl", NULL};
  const sattn_problem *problem = &plan->problem;
  bool identity = sattn_cl_cpu_pass_is_identity(problem, pass);
  char options[256];
  snprintf(options, sizeof options,
           "-DHEAD_DIM=%d -DDTYPE=%d -DCAUSAL=%d -DSLOT_SORTED=%d -DOTHER=%d -DSOFTCAP=%d -DCAP_SLOPES=SOFTCAP -DPASS=%d -DQUERY_LISTS=%d "
           "-DHEADS_PER_TILE=1 -DCOLUMNS=%d",
           (int)problem->head_dim, (int)problem->dtype, problem->causal, !problem->causal || identity,
           problem->mode == SATTN_UNION && pass == 1, problem->softcap > 0.0f, problem->mode == SATTN_GATED ? PASS_GATED : PASS_PLAIN,
           sattn_cl_cpu_has_query_lists(problem, pass), sattn_cl_cpu_columns(problem->head_dim));
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_cpu_grad", &state->attend[kernel_of(pass)], error);
  if (status == SATTN_OK) status = launch_empty(context, state->attend[kernel_of(pass)], error);
  if (shows_sinks(problem, pass)) {
    if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_cpu_grad_sinks", &state->sinks[pass], error);
    if (status == SATTN_OK) status = launch_empty(context, state->sinks[pass], error);
  }
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  cpu_grad_state *state = opaque;
  sattn_status status = sattn_cl_permute_prepare(plan->context, &state->permute, error);
  if (status == SATTN_OK) status = sattn_cl_pack_grad_prepare(plan, &state->pack, error);
  for (int pass = 0; pass < sattn_cl_cpu_passes(&plan->problem) && status == SATTN_OK; ++pass) {
    if (!state->attend[kernel_of(pass)]) status = prepare_pass(plan, state, pass, error);
  }
  if (status == SATTN_OK && plan->problem.mode == SATTN_MOBA) status = sattn_cl_moba_prepare(plan->context, &state->moba, error);
  return status;
}

/* ---- execution ---- */

/* The part of a forward call that lists are made from. */
static sattn_forward_args forward_of(const sattn_backward_args *args) {
  sattn_forward_args forward;
  sattn_forward_args_init(&forward);
  forward.sizes = args->saved->sizes;
  forward.permutation = args->saved->permutation;
  forward.lengths = args->lengths;
  forward.query_start = args->query_start;
  forward.workspace = args->workspace;
  return forward;
}

static sattn_status enqueue_strips(const sattn_plan *plan, const cpu_grad_state *state, const sattn_backward_args *args,
                                   const cpu_grad_layout *layout, int pass, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  pass_arrays arrays;
  sattn_attend_cpu_grad_params params;
  arrays_of(problem, args, pass, &arrays);
  describe(problem, args, layout, pass, &arrays, &params);
  const size_t local = 1;
  int32_t launches = params.rounds > 1 ? params.rounds : strips_of(&params, 1) > 0 ? 2 : 1;
  const cl_kernel kernel = state->attend[kernel_of(pass)];
  bool last_pass = pass == sattn_cl_cpu_passes(problem) - 1;
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  for (int32_t launch = 0; launch < launches && status == SATTN_OK; ++launch) {
    if (params.rounds > 1) {
      params.round = launch;
    } else {
      params.first_strip = launch;
    }
    bool starts = pass == 0 && params.round == 0, ends = last_pass && params.round == params.rounds - 1;
    params.flags = (starts ? 0 : SATTN_GRAD_FROM_PARTIAL) | (ends ? 0 : SATTN_GRAD_TO_PARTIAL);
    const size_t global = sattn_cl_axis(params.batch * strips_of(&params, params.first_strip) * problem->kv_heads, local);
    status = bind(plan->context, kernel, &params, args, &arrays, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, kernel, 1, &global, &local, error);
  }
  if (status == SATTN_OK && params.sink_blocks) {
    const size_t global = sattn_cl_axis(params.batch * params.sink_blocks * problem->kv_heads, local);
    status = bind(plan->context, state->sinks[pass], &params, args, &arrays, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, state->sinks[pass], 1, &global, &local, error);
  }
  return status;
}

/* Lists, packed blocks, and the sums of the first pass carried into those of the second. */
static sattn_status enqueue_blocks(const sattn_plan *plan, const cpu_grad_state *state, const sattn_backward_args *args,
                                   const cpu_grad_layout *layout, int pass, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  const sattn_cl_lists *lists = &layout->lists[pass];
  const sattn_cl_lists *other = problem->mode == SATTN_UNION && pass == 1 ? &layout->lists[0] : NULL;
  const sattn_forward_args forward = forward_of(args);
  sattn_status status = sattn_cl_permute_enqueue(&state->permute, plan, &forward, lists, other, chain, error);
  const int32_t clear = pass == 1 ? SATTN_PACK_GRAD_CLEAR : 0;
  if (status == SATTN_OK) status = sattn_cl_pack_grad_enqueue(&state->pack, plan, args, lists, &layout->blocks[pass], clear, chain, error);
  /* Sink rows are packed by the first pass that shows them. */
  if (status == SATTN_OK && lists->sink_blocks && (pass == 0 || problem->mode == SATTN_UNION)) {
    status = sattn_cl_pack_grad_enqueue(&state->pack, plan, args, lists, &layout->sinks, SATTN_PACK_GRAD_SINKS, chain, error);
  }
  if (status == SATTN_OK && pass == 1) {
    const sattn_cl_unpack carry = {&layout->lists[0], &layout->blocks[0], NULL, &layout->blocks[1]};
    status = sattn_cl_unpack_enqueue(&state->pack, plan, args, &carry, chain, error);
  }
  return status;
}

static sattn_status enqueue_pass(const sattn_plan *plan, const cpu_grad_state *state, const sattn_backward_args *args,
                                 const cpu_grad_layout *layout, int pass, sattn_cl_chain *chain, sattn_error *error) {
  sattn_status status = SATTN_OK;
  if (lists_of(&plan->problem, pass) == pass) status = enqueue_blocks(plan, state, args, layout, pass, chain, error);
  if (pass == 0 && plan->problem.mode == SATTN_MOBA && status == SATTN_OK) {
    const sattn_forward_args forward = forward_of(args);
    const sattn_cl_selected selected = {args->saved->selected.buffer, args->saved->selected.offset, plan->problem.topk};
    status = sattn_cl_moba_enqueue(state->moba, plan, &forward, &layout->moba, &selected, chain, error);
  }
  return status == SATTN_OK ? enqueue_strips(plan, state, args, layout, pass, chain, error) : status;
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_backward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  const cpu_grad_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  const sattn_sizes *sizes = &args->saved->sizes;
  uint64_t end = (uint64_t)args->workspace_offset;
  const cpu_grad_layout layout = carve(problem, sizes, &end);
  const int passes = sattn_cl_cpu_passes(problem), last = lists_of(problem, passes - 1);
  sattn_status status = SATTN_OK;
  /* Without queries there may be no permutation either; dK, dV and dsink are zeros then. */
  for (int pass = 0; pass < passes && sizes->queries > 0 && status == SATTN_OK; ++pass) {
    status = enqueue_pass(plan, state, args, &layout, pass, chain, error);
  }
  const sattn_grad_blocks *sinks = layout.lists[last].sink_blocks ? &layout.sinks : NULL;
  const sattn_cl_unpack unpack = {&layout.lists[last], &layout.blocks[last], sinks, NULL};
  if (status == SATTN_OK) status = sattn_cl_unpack_enqueue(&state->pack, plan, args, &unpack, chain, error);
  if (status == SATTN_OK && problem->has_sink_logits) {
    status = sattn_cl_sum_sinks_enqueue(&state->pack, plan, args, layout.deltas, chain, error);
  }
  return status;
}

const sattn_cl_attend sattn_cl_attend_cpu_grad = {
    .common =
        {
            .name = "attend_cpu_grad",
            .family = SATTN_KERNELS_CPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_BACKWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(cpu_grad_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_backward = enqueue,
};
