/* The tuned path of CPUs: lists, packed tiles, one work-item per tile of 64 queries (kernels/attend_cpu.cl).
 *
 *     FULL, SLIDING_WINDOW   identity lists  -> pack -> attend
 *     STOCHASTIC             permuted lists  -> pack -> attend
 *     MOBA                   selection -> own block into fp32 rows of the workspace, then the other blocks round by round, each pass from
 *                            the rows of the last
 *     UNION, GATED           permuted lists  -> pack -> attend into fp32 rows of the workspace
 *                            identity lists  -> pack -> attend, starting from (UNION) or mixing with (GATED) those rows
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_attend_cpu.h"
#include "cl_moba.h"
#include "cl_pack.h"
#include "cl_program.h"
#include "cl_select.h"
#include "kernel_args.h"

#define TILES_PER_STRIP 8
#define MOST_SLOTS      (1 << 30)
#define MOST_BLOCKS     SATTN_CL_SELECT_WIDE_MOST /* that a query of MOBA selects: a pass each */
#define LOG2_E          1.4426950408889634f

/* PASS of kernels/attend_cpu_rows.cl. */
enum { PASS_PLAIN = 0, PASS_FIRST_UNION = 1, PASS_UNION = 2, PASS_FIRST_GATED = 3, PASS_GATED = 4, PASS_MIDDLE = 5 };

/* Which kernel does a pass: the first, the last of several, those between. */
enum { KERNEL_FIRST, KERNEL_LAST, KERNEL_MIDDLE, KERNELS };

typedef struct cpu_state {
  sattn_cl_permute permute;
  cl_kernel pack;
  cl_kernel attend[KERNELS];
  sattn_cl_select select; /* MOBA */
  cl_kernel moba;
} cpu_state;

typedef struct cpu_layout {
  sattn_cl_lists lists[2]; /* by pass; MOBA has one for all */
  sattn_select_layout select;
  sattn_cl_moba_lists moba;
  sattn_cl_packed packed; /* passes take turns */
  sattn_cl_packed sinks;  /* sink rows are the same in both */
  int64_t partial, partial_lse;
} cpu_layout;

int sattn_cl_cpu_passes(const sattn_problem *problem) {
  if (problem->mode == SATTN_MOBA) return problem->topk;
  return problem->mode == SATTN_UNION || problem->mode == SATTN_GATED ? 2 : 1;
}

bool sattn_cl_cpu_pass_is_identity(const sattn_problem *problem, int pass) {
  return pass == 1 || !problem->uses_sa;
}

static int pass_kind(const sattn_problem *problem, int pass) {
  if (problem->mode == SATTN_UNION) return pass == 0 ? PASS_FIRST_UNION : PASS_UNION;
  if (problem->mode == SATTN_GATED) return pass == 0 ? PASS_FIRST_GATED : PASS_GATED;
  if (problem->mode == SATTN_MOBA && problem->topk > 1) {
    return pass == 0 ? PASS_FIRST_UNION : pass == problem->topk - 1 ? PASS_UNION : PASS_MIDDLE;
  }
  return PASS_PLAIN;
}

static int kernel_of(const sattn_problem *problem, int pass) {
  return pass == 0 ? KERNEL_FIRST : pass == sattn_cl_cpu_passes(problem) - 1 ? KERNEL_LAST : KERNEL_MIDDLE;
}

static const sattn_cl_lists *lists_of(const sattn_problem *problem, const cpu_layout *layout, int pass) {
  return &layout->lists[problem->mode == SATTN_MOBA ? 0 : pass];
}

bool sattn_cl_cpu_has_query_lists(const sattn_problem *problem, int pass) {
  return problem->mode == SATTN_MOBA && pass > 0;
}

static int32_t side_of(int32_t side, int64_t slots) {
  return side < slots ? side : (int32_t)slots;
}

void sattn_cl_cpu_sides(const sattn_problem *problem, bool identity, int64_t keys, int32_t *out_left, int32_t *out_right) {
  int64_t slots = problem->order_length > keys ? problem->order_length : keys;
  bool unbounded = problem->mode == SATTN_FULL;
  if (problem->mode == SATTN_MOBA) {
    *out_left = 0;
    *out_right = side_of(problem->block, keys) - 1;
    return;
  }
  *out_left = unbounded ? INT32_MAX : side_of(identity ? problem->left_swa : problem->left_sa, slots);
  *out_right = unbounded ? INT32_MAX : side_of(identity ? problem->right_swa : problem->right_sa, slots);
}

int sattn_cl_cpu_columns(int32_t head_dim) {
  return head_dim == 80 ? 5 : head_dim == 96 ? 3 : 4;
}

/* Query heads of a group that share a tile, and with it masks and the traffic of K and V. A tile's rows should stay in the second-level
 * cache, which bounds them for long rows. */
static int heads_per_tile(const sattn_problem *problem, int pass) {
  if (sattn_cl_cpu_has_query_lists(problem, pass)) return 1;
  int most = problem->head_dim > 128 ? 2 : 4;
  if (problem->group % 4 == 0 && most == 4) return 4;
  return problem->group % 2 == 0 ? 2 : 1;
}

/* ---- choice ---- */

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  (void)context;
  int32_t d = problem->head_dim;
  if (problem->mode == SATTN_MOBA && problem->sink_tokens > 0) {
    snprintf(reason, SATTN_REASON_BYTES, "sink tokens in mode moba");
  } else if (problem->mode == SATTN_MOBA && (problem->topk > MOST_BLOCKS || maxima->keys >= MOST_SLOTS)) {
    snprintf(reason, SATTN_REASON_BYTES, "mode moba with topk beyond %d or 2^30 keys", MOST_BLOCKS);
  } else if (d != 64 && d != 80 && d != 96 && d != 128 && d != 256) {
    snprintf(reason, SATTN_REASON_BYTES, "head_dim %d is none of 64, 80, 96, 128, 256", (int)d);
  } else if (problem->wrap) {
    snprintf(reason, SATTN_REASON_BYTES, "wrap makes a band that is no interval of slots");
  } else if (problem->mode == SATTN_GATED &&
             (problem->gate_sa_shape == SATTN_GATE_PER_ELEMENT || problem->gate_swa_shape == SATTN_GATE_PER_ELEMENT)) {
    snprintf(reason, SATTN_REASON_BYTES, "gates per element");
  } else if (maxima->keys > INT32_MAX - 2 * SATTN_CL_BLOCK) {
    snprintf(reason, SATTN_REASON_BYTES, "more than 2^31 - 129 keys");
  } else {
    return true;
  }
  return false;
}

static cpu_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  cpu_layout layout;
  memset(&layout, 0, sizeof layout);
  int passes = sattn_cl_cpu_passes(problem);
  for (int pass = 0; pass < (problem->mode == SATTN_MOBA ? 1 : passes); ++pass) {
    layout.lists[pass] = sattn_cl_lists_carve(problem, sizes, sattn_cl_cpu_pass_is_identity(problem, pass), end);
  }
  layout.packed = sattn_cl_pack_carve(problem, sizes, SATTN_CL_PACK_ROWS, layout.lists[0].blocks, end);
  layout.sinks = sattn_cl_pack_carve(problem, sizes, SATTN_CL_PACK_ROWS, lists_of(problem, &layout, passes - 1)->sink_blocks, end);
  if (problem->mode == SATTN_MOBA) {
    layout.select = sattn_select_carve(problem, sizes, end);
    layout.moba = sattn_cl_moba_carve(problem, sizes, end);
  }
  if (passes > 1) {
    uint64_t rows = (uint64_t)sizes->batch * (uint64_t)problem->heads * (uint64_t)sizes->queries;
    layout.partial = (int64_t)(sattn_carve(end, rows, (uint64_t)problem->head_dim, sizeof(float)) / sizeof(float));
    layout.partial_lse = (int64_t)(sattn_carve(end, rows, 1, sizeof(float)) / sizeof(float));
  }
  return layout;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  carve(problem, maxima, &end);
  return end;
}

/* ---- arguments ---- */

/* A saved branch: [B, n_q, H, d], contiguous. */
static sattn_kernel_tensor place_of_branch(const sattn_problem *problem, const sattn_sizes *sizes, int64_t offset) {
  int64_t token = (int64_t)problem->heads * problem->head_dim;
  sattn_kernel_tensor place = {offset, sizes->queries * token, token, problem->head_dim};
  return place;
}

/* What a pass writes and reads besides Q, K, V. */
typedef struct pass_arrays {
  sattn_array lse;
  sattn_array branch;
  sattn_tensor gate_own, gate_first;
} pass_arrays;

static pass_arrays arrays_of(const sattn_problem *problem, const sattn_forward_args *args, int pass) {
  pass_arrays arrays;
  memset(&arrays, 0, sizeof arrays);
  arrays.lse = args->lse;
  if (problem->mode != SATTN_GATED) return arrays;
  arrays.lse = pass == 0 ? args->lse_sa : args->lse_swa;
  arrays.gate_own = args->gate_swa;
  arrays.gate_first = args->gate_sa;
  if (args->saved) arrays.branch = pass == 0 ? args->saved->y_sa : args->saved->y_swa;
  return arrays;
}

sattn_attend_cpu_params sattn_cl_cpu_describe(const sattn_problem *problem, const sattn_forward_args *args, const sattn_cl_lists *lists,
                                              const sattn_cl_packed *packed, const sattn_cl_packed *sinks) {
  sattn_attend_cpu_params params;
  memset(&params, 0, sizeof params);
  params.list = lists->layout;
  params.query = sattn_kernel_place(&args->query);
  params.out = sattn_kernel_place(&args->out);
  params.sink_logits = args->sink_logits.offset;
  params.packed_key = packed->key;
  params.packed_value = packed->value;
  params.packed_head = packed->head;
  params.sink_key = sinks->key;
  params.sink_value = sinks->value;
  params.sink_head = sinks->head;
  params.batch = args->sizes.batch;
  params.heads = problem->heads;
  params.group = problem->group;
  params.queries = (int32_t)args->sizes.queries;
  params.tiles = lists->tiles;
  params.strip = TILES_PER_STRIP;
  params.lists_per_batch = lists->per_batch ? lists->heads : 0;
  params.list_heads = lists->heads;
  sattn_cl_cpu_sides(problem, lists->identity, args->sizes.keys, &params.left, &params.right);
  params.scale = problem->scale * LOG2_E;
  params.softcap = problem->softcap * LOG2_E;
  return params;
}

static sattn_attend_cpu_params describe(const sattn_problem *problem, const sattn_forward_args *args, const cpu_layout *layout, int pass) {
  const pass_arrays arrays = arrays_of(problem, args, pass);
  sattn_attend_cpu_params params = sattn_cl_cpu_describe(problem, args, lists_of(problem, layout, pass), &layout->packed, &layout->sinks);
  if (sattn_cl_cpu_has_query_lists(problem, pass)) params.query_stride = sattn_cl_moba_queries(&layout->moba, pass - 1, &params.list);
  params.branch = place_of_branch(problem, &args->sizes, arrays.branch.offset);
  params.gate_own = sattn_kernel_place(&arrays.gate_own);
  params.gate_first = sattn_kernel_place(&arrays.gate_first);
  params.lse = arrays.lse.offset;
  params.partial = layout->partial;
  params.partial_lse = layout->partial_lse;
  params.gate_dtype = (int32_t)problem->gate_dtype;
  params.other_left = problem->left_sa;
  params.other_right = problem->right_sa;
  return params;
}

static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_attend_cpu_params *params,
                         const sattn_forward_args *args, const pass_arrays *arrays, sattn_error *error) {
  const sattn_buffer *buffers[] = {args->query.buffer,        args->workspace,         args->workspace,       args->out.buffer,
                                   arrays->lse.buffer,        args->workspace,         arrays->branch.buffer, arrays->gate_own.buffer,
                                   arrays->gate_first.buffer, args->sink_logits.buffer};
  return sattn_cl_bind_all(context, kernel, params, sizeof *params, buffers, sizeof buffers / sizeof buffers[0], error);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  cpu_state *state = opaque;
  sattn_cl_permute_destroy(context, &state->permute);
  sattn_cl_kernel_release(context, &state->pack);
  for (int kernel = 0; kernel < KERNELS; ++kernel) sattn_cl_kernel_release(context, &state->attend[kernel]);
  sattn_cl_select_destroy(context, &state->select);
  sattn_cl_kernel_release(context, &state->moba);
}

static sattn_status prepare_pass(const sattn_plan *plan, int pass, cl_kernel *kernel, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h",    "elements_wide.cl",   "attend_cpu_common.cl",
                                        "attend_cpu_tile.cl", "attend_cpu_rows.cl", "attend_cpu_blocks.cl",
                                        "attend_cpu_grid.cl", "attend_cpu.cl",      NULL};
  static const sattn_forward_args no_args;
  static const pass_arrays no_arrays;
  const sattn_problem *problem = &plan->problem;
  int kind = pass_kind(problem, pass);
  char options[256];
  snprintf(options, sizeof options,
           "-DHEAD_DIM=%d -DDTYPE=%d -DCAUSAL=%d -DSLOT_SORTED=%d -DOTHER=%d -DSOFTCAP=%d -DPASS=%d -DQUERY_LISTS=%d "
           "-DHEADS_PER_TILE=%d -DCOLUMNS=%d",
           (int)problem->head_dim, (int)problem->dtype, problem->causal, !problem->causal || sattn_cl_cpu_pass_is_identity(problem, pass),
           kind == PASS_UNION && problem->mode == SATTN_UNION, problem->softcap > 0.0f, kind, sattn_cl_cpu_has_query_lists(problem, pass),
           heads_per_tile(problem, pass), sattn_cl_cpu_columns(problem->head_dim));
  sattn_cl_program *program = NULL;
  sattn_status status = sattn_cl_program_get(plan->context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(plan->context, program, "attend_cpu", kernel, error);
  sattn_attend_cpu_params none;
  memset(&none, 0, sizeof none);
  const size_t local = 1;
  if (status == SATTN_OK) status = bind(plan->context, *kernel, &none, &no_args, &no_arrays, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(plan->context, *kernel, 1, &local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(plan->context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  cpu_state *state = opaque;
  sattn_status status = sattn_cl_permute_prepare(plan->context, &state->permute, error);
  if (status == SATTN_OK) status = sattn_cl_pack_prepare(plan, SATTN_CL_PACK_ROWS, &state->pack, error);
  for (int pass = 0; pass < sattn_cl_cpu_passes(&plan->problem) && status == SATTN_OK; ++pass) {
    cl_kernel *kernel = &state->attend[kernel_of(&plan->problem, pass)];
    if (!*kernel) status = prepare_pass(plan, pass, kernel, error);
  }
  if (status == SATTN_OK && plan->problem.mode == SATTN_MOBA) {
    status = sattn_cl_select_prepare(plan, true, &state->select, error);
    if (status == SATTN_OK) status = sattn_cl_moba_prepare(plan->context, &state->moba, error);
  }
  return status;
}

/* ---- execution ---- */

/* The lists and packed rows of a pass. MOBA's passes share those of the first; what differs are the lists of queries. */
static sattn_status enqueue_lists(const sattn_plan *plan, cpu_state *state, const sattn_forward_args *args, const cpu_layout *layout,
                                  int pass, const sattn_attend_cpu_params *params, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  const sattn_cl_lists *lists = &layout->lists[pass];
  const sattn_cl_lists *other = problem->mode == SATTN_UNION && pass == 1 ? &layout->lists[0] : NULL;
  bool moba = problem->mode == SATTN_MOBA;
  sattn_status status = sattn_cl_permute_enqueue(&state->permute, plan, args, lists, other, chain, error);
  if (status == SATTN_OK) {
    status = sattn_cl_pack_enqueue(state->pack, plan, args, lists, &layout->packed, false, moba ? INT32_MAX : params->left,
                                   moba ? INT32_MAX : params->right, chain, error);
  }
  if (status == SATTN_OK && lists->sink_blocks && pass == sattn_cl_cpu_passes(problem) - 1 - (problem->mode == SATTN_GATED)) {
    status = sattn_cl_pack_enqueue(state->pack, plan, args, lists, &layout->sinks, true, 0, 0, chain, error);
  }
  return status;
}

static sattn_status enqueue_pass(const sattn_plan *plan, cpu_state *state, const sattn_forward_args *args, const cpu_layout *layout,
                                 int pass, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  const sattn_attend_cpu_params params = describe(problem, args, layout, pass);
  const pass_arrays arrays = arrays_of(problem, args, pass);
  const cl_kernel kernel = state->attend[kernel_of(problem, pass)];
  sattn_status status = SATTN_OK;
  if (!sattn_cl_cpu_has_query_lists(problem, pass)) status = enqueue_lists(plan, state, args, layout, pass, &params, chain, error);
  const size_t local = 1;
  const size_t global = sattn_cl_axis(params.batch * (problem->heads / heads_per_tile(problem, pass)) * params.tiles, local);
  if (status == SATTN_OK) status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = bind(plan->context, kernel, &params, args, &arrays, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, kernel, 1, &global, &local, error);
  return status;
}

static sattn_status enqueue_selection(const sattn_plan *plan, cpu_state *state, const sattn_forward_args *args, const cpu_layout *layout,
                                      sattn_cl_chain *chain, sattn_error *error) {
  sattn_general_params params;
  const sattn_buffer *buffer = NULL;
  sattn_general_describe(&plan->problem, args, &params);
  sattn_status status = sattn_cl_select_enqueue(&state->select, plan, args, &layout->select, &params, chain, &buffer, error);
  if (status != SATTN_OK) return status;
  const sattn_cl_selected selected = {buffer, params.selected, params.selected_stride};
  return sattn_cl_moba_enqueue(state->moba, plan, args, &layout->moba, &selected, chain, error);
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  uint64_t end = (uint64_t)args->workspace_offset;
  const cpu_layout layout = carve(&plan->problem, &args->sizes, &end);
  sattn_status status = SATTN_OK;
  if (plan->problem.mode == SATTN_MOBA) status = enqueue_selection(plan, opaque, args, &layout, chain, error);
  for (int pass = 0; pass < sattn_cl_cpu_passes(&plan->problem) && status == SATTN_OK; ++pass) {
    status = enqueue_pass(plan, opaque, args, &layout, pass, chain, error);
  }
  return status;
}

const sattn_cl_attend sattn_cl_attend_cpu = {
    .common =
        {
            .name = "attend_cpu",
            .family = SATTN_KERNELS_CPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_FORWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(cpu_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_forward = enqueue,
};
