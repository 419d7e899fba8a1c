#include "cuda_band_grad.h"

#include <stdio.h>
#include <string.h>

#include "cuda_band.h"
#include "cuda_buffer.h"
#include "cuda_program.h"
#include "kernel_args.h"
#include "kernels/grad_params.h"
#include "trace.h"

#define LOG2_E     1.4426950408889634
#define GROUP_ROWS 16 /* that a warp of grad_rows takes */

/* Byte offsets in the workspace. O(n_q + n_k). */
typedef struct grad_layout {
  sattn_permute_layout permute;
  uint64_t key_ranges, row_stats, deltas;
  uint64_t partial_query, partial_key, partial_value;
} grad_layout;

/* ---- sizes ---- */

/* Heads of a group that share a tile of queries. */
static int32_t pack_of(const sattn_problem *problem, int32_t rows) {
  int32_t chunks = (problem->group + rows - 1) / rows;
  return (problem->group + chunks - 1) / chunks;
}

static int64_t tiles_of(int64_t count, int64_t rows) {
  return (count + rows - 1) / rows;
}

/* As many permutations as there can be. */
static uint64_t list_rows(const sattn_problem *problem, const sattn_sizes *sizes) {
  return (uint64_t)sizes->batch * (uint64_t)problem->kv_heads;
}

static grad_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, int32_t query_rows, int32_t key_rows, uint64_t *end) {
  grad_layout layout;
  memset(&layout, 0, sizeof layout);
  uint64_t queries = (uint64_t)sizes->batch * (uint64_t)problem->heads * (uint64_t)sizes->queries;
  uint64_t keys = (uint64_t)sizes->batch * (uint64_t)problem->kv_heads * (uint64_t)sizes->keys;
  uint64_t branches = problem->mode == SATTN_GATED ? 2 : 1, width = (uint64_t)problem->head_dim * sizeof(float);
  layout.row_stats = sattn_carve(end, queries, branches, sizeof(sattn_cuda_grad_row));
  layout.deltas = sattn_carve(end, queries, branches, sizeof(float));
  if (problem->uses_sa) {
    layout.permute = sattn_cuda_permute_carve(problem, sizes, query_rows / pack_of(problem, query_rows), end);
    layout.key_ranges = sattn_carve(end, list_rows(problem, sizes), (uint64_t)tiles_of(sizes->keys, key_rows) * 2, sizeof(uint32_t));
  }
  if (problem->mode == SATTN_UNION || problem->mode == SATTN_GATED) {
    layout.partial_query = sattn_carve(end, queries, 1, width);
    layout.partial_key = sattn_carve(end, keys, 1, width);
    layout.partial_value = sattn_carve(end, keys, 1, width);
  }
  return layout;
}

uint64_t sattn_cuda_band_grad_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima,
                                        int32_t query_rows, int32_t key_rows) {
  uint64_t end = 0, general = sattn_cuda_attend_general_grad.common.workspace(context, problem, maxima);
  carve(problem, maxima, query_rows, key_rows, &end);
  return end > general ? end : general;
}

/* ---- life ---- */

void sattn_cuda_band_grad_destroy(sattn_context *context, void *opaque) {
  sattn_cuda_grad_state *state = opaque;
  sattn_cuda_attend_close(&sattn_cuda_attend_general_grad, context, state->general);
}

static sattn_status get_kernel(const sattn_plan *plan, const char *file, const char *name, uint32_t shared_bytes,
                               sattn_cu_function *out_kernel, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  sattn_status status = sattn_cuda_program_get(plan->context, file, &program, error);
  return status == SATTN_OK ? sattn_cuda_kernel_get(plan->context, program, name, shared_bytes, out_kernel, error) : status;
}

static sattn_status prepare_kernels(const sattn_plan *plan, sattn_cuda_grad_state *state, sattn_error *error) {
  const sattn_cuda_grad_kernels *k = &state->kernels;
  char rows[32];
  snprintf(rows, sizeof rows, "grad_rows_%s", sattn_dtype_name(plan->problem.dtype));
  sattn_status status = get_kernel(plan, "grad_rows", rows, 0, &state->rows, error);
  if (status == SATTN_OK) status = get_kernel(plan, k->program, k->query, k->query_shared, &state->query, error);
  if (status == SATTN_OK) status = get_kernel(plan, k->program, k->key, k->key_shared, &state->key, error);
  if (status == SATTN_OK && k->value[0]) status = get_kernel(plan, k->program, k->value, k->key_shared, &state->value, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = get_kernel(plan, "grad_ranges", "grad_ranges", 0, &state->ranges, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cuda_permute_prepare(plan->context, &state->permute, error);
  if (status == SATTN_OK && plan->problem.has_sink_logits) {
    status = get_kernel(plan, "grad_sinks", "grad_sinks", 0, &state->sinks, error);
  }
  return status == SATTN_OK ? sattn_cuda_attend_open(&sattn_cuda_attend_general_grad, plan, &state->general, error) : status;
}

sattn_status sattn_cuda_band_grad_prepare(const sattn_plan *plan, const sattn_cuda_grad_kernels *kernels, void *opaque,
                                          sattn_error *error) {
  sattn_cuda_grad_state *state = opaque;
  state->kernels = *kernels;
  return prepare_kernels(plan, state, error);
}

/* ---- alignment ---- */

/* The first array whose rows do not start at multiples of 16 bytes; NULL: all do. */
static const char *misaligned(const sattn_problem *problem, const sattn_backward_args *args) {
  const uint64_t width = sizeof(uint16_t);
  bool gated = problem->mode == SATTN_GATED;
  if (!sattn_cuda_band_rows_aligned(&args->query, problem->heads, width)) return "query";
  if (!sattn_cuda_band_rows_aligned(&args->key, problem->kv_heads, width)) return "key";
  if (!sattn_cuda_band_rows_aligned(&args->value, problem->kv_heads, width)) return "value";
  if (!sattn_cuda_band_rows_aligned(&args->grad_out, problem->heads, width)) return "grad_out";
  if (!sattn_cuda_band_rows_aligned(&args->grad_query, problem->heads, width)) return "grad_query";
  if (!sattn_cuda_band_rows_aligned(&args->grad_key, problem->kv_heads, width)) return "grad_key";
  if (!sattn_cuda_band_rows_aligned(&args->grad_value, problem->kv_heads, width)) return "grad_value";
  if (!gated && !sattn_cuda_band_rows_aligned(&args->saved->out, problem->heads, width)) return "saved.out";
  if (gated && !sattn_cuda_band_array_aligned(&args->saved->y_sa, width)) return "saved.y_sa";
  if (gated && !sattn_cuda_band_array_aligned(&args->saved->y_swa, width)) return "saved.y_swa";
  return NULL;
}

/* ---- arguments ---- */

typedef struct grad_call {
  const sattn_plan *plan;
  const sattn_cuda_grad_state *state;
  const sattn_backward_args *args;
  sattn_cuda_chain *chain;
  sattn_cu_pointer workspace;
  grad_layout layout;
  sattn_cuda_grad_rows rows;
  sattn_cuda_band_grad pass;
} grad_call;

static void *address(const sattn_buffer *buffer, int64_t index, uint64_t width) {
  return (void *)(uintptr_t)(buffer ? sattn_cuda_address(buffer, 0) + (uint64_t)index * width : 0);
}

static void *place_at(const grad_call *call, uint64_t offset) {
  return (void *)(uintptr_t)(call->workspace + offset);
}

/* Delta, dg and dsink are computed from the struct that the general kernels have. */
static void describe_rows(grad_call *call) {
  const sattn_problem *problem = &call->plan->problem;
  const sattn_backward_args *args = call->args;
  const sattn_saved *saved = args->saved;
  bool gated = problem->mode == SATTN_GATED;
  sattn_cuda_general_grad *general = &call->rows.general;
  sattn_grad_layout layout;
  memset(&layout, 0, sizeof layout);
  layout.deltas = call->layout.deltas;
  sattn_grad_describe(problem, args, &layout, &general->params);
  general->grad_out = address(args->grad_out.buffer, 0, 1);
  general->lse_0 = address(gated ? saved->lse_sa.buffer : saved->lse.buffer, 0, 1);
  general->lse_1 = address(saved->lse_swa.buffer, 0, 1);
  general->grad_lse_0 = address(gated ? args->grad_lse_sa.buffer : args->grad_lse.buffer, 0, 1);
  general->grad_lse_1 = address(args->grad_lse_swa.buffer, 0, 1);
  general->gate_sa = address(args->gate_sa.buffer, 0, 1);
  general->gate_swa = address(args->gate_swa.buffer, 0, 1);
  general->y_sa = address(saved->y_sa.buffer, 0, 1);
  general->y_swa = address(saved->y_swa.buffer, 0, 1);
  general->lengths = address(args->lengths.buffer, 0, 1);
  general->query_start = address(args->query_start.buffer, 0, 1);
  general->sink_logits = address(args->sink_logits.buffer, 0, 1);
  general->grad_gate_sa = address(args->grad_gate_sa.buffer, 0, 1);
  general->grad_gate_swa = address(args->grad_gate_swa.buffer, 0, 1);
  general->grad_sink_logits = address(args->grad_sink_logits.buffer, 0, 1);
  general->deltas = place_at(call, 0);
  general->head_dim = problem->head_dim;
  call->rows.out = sattn_kernel_place(&saved->out);
  call->rows.out_rows = address(saved->out.buffer, 0, 1);
  call->rows.row_stats = place_at(call, call->layout.row_stats);
}

static void describe_scale(const sattn_problem *problem, sattn_cuda_band *band) {
  double scale = (double)problem->scale;
  band->scale = problem->scale;
  band->scale_log2 = (float)(scale * LOG2_E);
  if (!(problem->softcap > 0)) return;
  band->scale_log2 = 1.0f;
  band->cap_in = (float)(scale / (double)problem->softcap);
  band->cap_out = (float)((double)problem->softcap * LOG2_E);
}

static void describe_sizes(const grad_call *call, sattn_cuda_band *band) {
  const sattn_problem *problem = &call->plan->problem;
  const sattn_sizes *sizes = &call->args->saved->sizes;
  int32_t rows = call->state->kernels.query_rows;
  band->batch = sizes->batch;
  band->queries = (int32_t)sizes->queries;
  band->keys = band->list_keys = (int32_t)sizes->keys;
  band->heads = problem->heads;
  band->group = problem->group;
  band->pack = pack_of(problem, rows);
  band->head_chunks = (problem->group + band->pack - 1) / band->pack;
  band->tile_tokens = rows / band->pack;
  band->tiles = (int32_t)tiles_of(band->queries, band->tile_tokens);
  band->splits = 1;
  band->causal = problem->causal;
  band->sinks = problem->sink_tokens < band->keys ? problem->sink_tokens : band->keys;
  band->visit_sinks = 1;
  describe_scale(problem, band);
}

static void describe_pass(grad_call *call) {
  const sattn_backward_args *args = call->args;
  sattn_cuda_band_grad *pass = &call->pass;
  sattn_cuda_band *band = &pass->band;
  describe_sizes(call, band);
  band->query = sattn_kernel_place(&args->query);
  band->key = sattn_kernel_place(&args->key);
  band->value = sattn_kernel_place(&args->value);
  band->query_rows = address(args->query.buffer, 0, 1);
  band->key_rows = address(args->key.buffer, 0, 1);
  band->value_rows = address(args->value.buffer, 0, 1);
  band->lengths = address(args->lengths.buffer, args->lengths.offset, sizeof(int32_t));
  band->query_start = address(args->query_start.buffer, args->query_start.offset, sizeof(int32_t));
  pass->grad_out = sattn_kernel_place(&args->grad_out);
  pass->grad_query = sattn_kernel_place(&args->grad_query);
  pass->grad_key = sattn_kernel_place(&args->grad_key);
  pass->grad_value = sattn_kernel_place(&args->grad_value);
  pass->grad_out_rows = address(args->grad_out.buffer, 0, 1);
  pass->grad_query_rows = address(args->grad_query.buffer, 0, 1);
  pass->grad_key_rows = address(args->grad_key.buffer, 0, 1);
  pass->grad_value_rows = address(args->grad_value.buffer, 0, 1);
  pass->row_stats = place_at(call, call->layout.row_stats);
  pass->partial_query = place_at(call, call->layout.partial_query);
  pass->partial_key = place_at(call, call->layout.partial_key);
  pass->partial_value = place_at(call, call->layout.partial_value);
  int32_t rows = call->state->kernels.key_rows;
  pass->key_sink_tiles = (int32_t)tiles_of(band->sinks, rows);
  pass->key_tiles = pass->key_sink_tiles + (int32_t)tiles_of(band->keys - band->sinks, rows);
}

/* ---- stages ---- */

static sattn_status run_rows(grad_call *call, sattn_error *error) {
  const sattn_cuda_band *band = &call->pass.band;
  uint64_t rows = (uint64_t)band->batch * (uint64_t)band->heads * (uint64_t)band->queries;
  uint64_t at_once = SATTN_GENERAL_THREADS / 32 * GROUP_ROWS;
  sattn_cuda_grid grid = {(rows + at_once - 1) / at_once, SATTN_GENERAL_THREADS, 0};
  sattn_status status = sattn_cuda_chain_stage(call->chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(call->chain, call->state->rows, &grid, &call->rows, error);
  if (status != SATTN_OK || !call->plan->problem.has_sink_logits) return status;
  sattn_cuda_grid heads = {((uint64_t)band->heads + SATTN_GENERAL_THREADS / 32 - 1) / (SATTN_GENERAL_THREADS / 32), SATTN_GENERAL_THREADS,
                           0};
  return sattn_cuda_chain_launch(call->chain, call->state->sinks, &heads, &call->rows.general, error);
}

static sattn_status run_pass(grad_call *call, sattn_error *error) {
  const sattn_cuda_band *band = &call->pass.band;
  const sattn_cuda_grad_kernels *kernels = &call->state->kernels;
  uint64_t lists = (uint64_t)band->batch * (uint64_t)(band->heads / band->group);
  sattn_cuda_grid queries = {lists * (uint64_t)band->head_chunks * (uint64_t)band->tiles, SATTN_BAND_THREADS, kernels->query_shared};
  sattn_cuda_grid keys = {lists * (uint64_t)call->pass.key_tiles, SATTN_BAND_THREADS, kernels->key_shared};
  sattn_status status = sattn_cuda_chain_stage(call->chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(call->chain, call->state->query, &queries, &call->pass, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(call->chain, call->state->key, &keys, &call->pass, error);
  if (status != SATTN_OK || !call->state->value) return status;
  return sattn_cuda_chain_launch(call->chain, call->state->value, &keys, &call->pass, error);
}

static sattn_status run_ranges(grad_call *call, sattn_error *error) {
  const sattn_cuda_band *band = &call->pass.band;
  int64_t kv_heads = band->heads / band->group;
  sattn_cuda_grad_ranges ranges;
  memset(&ranges, 0, sizeof ranges);
  ranges.key_list = band->key_list;
  ranges.query_list = band->query_list;
  ranges.key_ranges = place_at(call, call->layout.key_ranges);
  ranges.lengths = band->lengths;
  ranges.query_start = band->query_start;
  ranges.head_rows = band->list_head ? kv_heads : 1;
  ranges.rows = ranges.head_rows * (band->list_batch ? band->batch : 1);
  ranges.keys = band->keys;
  ranges.queries = band->queries;
  ranges.list_keys = band->list_keys;
  ranges.sinks = band->sinks;
  ranges.left = band->left;
  ranges.right = band->right;
  ranges.key_rows = call->state->kernels.key_rows;
  ranges.key_tiles = call->pass.key_tiles - call->pass.key_sink_tiles;
  ranges.tile_tokens = band->tile_tokens;
  call->pass.key_ranges = ranges.key_ranges;
  uint64_t warps = (uint64_t)ranges.rows * (uint64_t)ranges.key_tiles, at_once = SATTN_BAND_THREADS / 32;
  sattn_cuda_grid grid = {(warps + at_once - 1) / at_once, SATTN_BAND_THREADS, 0};
  return sattn_cuda_chain_launch(call->chain, call->state->ranges, &grid, &ranges, error);
}

static sattn_status use_slots(grad_call *call, sattn_error *error) {
  const sattn_problem *problem = &call->plan->problem;
  const sattn_saved *saved = call->args->saved;
  sattn_cuda_band *band = &call->pass.band;
  int32_t slots = (int32_t)saved->permutation->length;
  band->left = sattn_cuda_band_side(problem->left_sa, slots);
  band->right = sattn_cuda_band_side(problem->right_sa, slots);
  sattn_status status = sattn_cuda_permute_enqueue(&call->state->permute, problem, &saved->sizes, saved->permutation, call->workspace,
                                                   &call->layout.permute, band, call->chain, error);
  return status == SATTN_OK ? run_ranges(call, error) : status;
}

/* ---- modes ---- */

static sattn_status run_union(grad_call *call, sattn_error *error) {
  sattn_cuda_band *band = &call->pass.band;
  sattn_cuda_band_use_positions(&call->plan->problem, band);
  band->finish = SATTN_BAND_PARTIAL;
  sattn_status status = run_pass(call, error);
  if (status != SATTN_OK) return status;
  band->exclude = 1;
  band->exclude_left = band->left;
  band->exclude_right = band->right;
  band->visit_sinks = 0;
  band->start = SATTN_BAND_CONTINUED;
  band->finish = SATTN_BAND_OUT;
  status = use_slots(call, error);
  return status == SATTN_OK ? run_pass(call, error) : status;
}

static sattn_status run_gated(grad_call *call, sattn_error *error) {
  sattn_cuda_band *band = &call->pass.band;
  band->finish = SATTN_BAND_PARTIAL;
  sattn_status status = use_slots(call, error);
  if (status == SATTN_OK) status = run_pass(call, error);
  if (status != SATTN_OK) return status;
  sattn_cuda_band_use_positions(&call->plan->problem, band);
  call->pass.row_stats += band->batch * band->heads * band->queries;
  band->start = SATTN_BAND_CONTINUED;
  band->finish = SATTN_BAND_OUT;
  return run_pass(call, error);
}

sattn_status sattn_cuda_band_grad_enqueue(const sattn_plan *plan, void *opaque, const sattn_backward_args *args, sattn_cuda_chain *chain,
                                          sattn_error *error) {
  const sattn_cuda_grad_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  /* Without queries there may be no inputs at all; dK, dV and dsink are zeros then. */
  if (args->saved->sizes.queries == 0) return sattn_cuda_attend_general_grad.enqueue_backward(plan, state->general, args, chain, error);
  const char *name = misaligned(problem, args);
  if (name) {
    sattn_trace(plan->context->trace, SATTN_TRACE_DISPATCH,
                "attend_general_grad instead of %s: rows of %s do not start at multiples of 16 bytes", state->kernels.program, name);
    return sattn_cuda_attend_general_grad.enqueue_backward(plan, state->general, args, chain, error);
  }
  grad_call call;
  memset(&call, 0, sizeof call);
  call.plan = plan;
  call.state = state;
  call.args = args;
  call.chain = chain;
  call.workspace = sattn_cuda_address(args->workspace, 0);
  uint64_t end = (uint64_t)args->workspace_offset;
  call.layout = carve(problem, &args->saved->sizes, state->kernels.query_rows, state->kernels.key_rows, &end);
  describe_rows(&call);
  describe_pass(&call);
  sattn_status status = run_rows(&call, error);
  if (status != SATTN_OK) return status;
  if (problem->mode == SATTN_UNION) return run_union(&call, error);
  if (problem->mode == SATTN_GATED) return run_gated(&call, error);
  if (problem->uses_sa) {
    status = use_slots(&call, error);
  } else {
    sattn_cuda_band_use_positions(problem, &call.pass.band);
  }
  return status == SATTN_OK ? run_pass(&call, error) : status;
}
