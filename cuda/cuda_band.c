#include "cuda_band.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda_buffer.h"
#include "cuda_program.h"
#include "kernel_args.h"
#include "trace.h"

#define LOG2_E 1.4426950408889634

/* Token and slot numbers are compared as differences of twice this. */
#define MAX_TOKENS (1 << 29)

/* Few queries over many keys: this many keys at least, and rows of that many tokens at most, are shared out over several thread blocks. */
#define SPLIT_KEYS        512
#define MAX_SPLITS        64
#define MAX_SPLIT_QUERIES 8

typedef struct band_layout {
  sattn_permute_layout permute;
  uint64_t partial, partial_lse, first;
} band_layout;

bool sattn_cuda_band_supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t shared_bytes,
                              char *reason) {
  const int d = problem->head_dim;
  if (problem->mode == SATTN_MOBA) {
    snprintf(reason, SATTN_REASON_BYTES, "mode moba");
  } else if (d != 64 && d != 80 && d != 96 && d != 128 && d != 256) {
    snprintf(reason, SATTN_REASON_BYTES, "head_dim %d is none of 64, 80, 96, 128, 256", d);
  } else if (problem->wrap && (problem->has_lengths || problem->sink_tokens > 0 || problem->order_length > 0)) {
    snprintf(reason, SATTN_REASON_BYTES, "wrap together with %s",
             problem->has_lengths       ? "lengths"
             : problem->sink_tokens > 0 ? "sink_tokens"
                                        : "order_length");
  } else if (maxima->keys > MAX_TOKENS || problem->order_length > MAX_TOKENS) {
    snprintf(reason, SATTN_REASON_BYTES, "more than %d tokens", MAX_TOKENS);
  } else if (shared_bytes > context->device.local_memory_bytes) {
    snprintf(reason, SATTN_REASON_BYTES, "a thread block needs %lu bytes of shared memory, the device has %llu",
             (unsigned long)shared_bytes, (unsigned long long)context->device.local_memory_bytes);
  } else {
    return true;
  }
  return false;
}

/* ---- sizes ---- */

/* Heads of a group that share a tile, so that groups of any size fit. */
static int32_t pack_of(const sattn_problem *problem, int32_t rows) {
  int32_t chunks = (problem->group + rows - 1) / rows;
  return (problem->group + chunks - 1) / chunks;
}

static int32_t tile_tokens_of(const sattn_problem *problem, int32_t rows) {
  return rows / pack_of(problem, rows);
}

/* Keys that a row of FULL or SLIDING_WINDOW can see at most, for all rows of a tile together. */
static int64_t most_keys(const sattn_problem *problem, const sattn_sizes *sizes) {
  if (problem->mode == SATTN_FULL) return sizes->keys;
  int64_t band = (int64_t)problem->left_swa + problem->right_swa + MAX_SPLIT_QUERIES + problem->sink_tokens;
  return band < sizes->keys ? band : sizes->keys;
}

/* Never falls as sizes grow, and depends neither on the batch nor on lengths. */
static int32_t most_splits(const sattn_problem *problem, const sattn_sizes *sizes) {
  if (problem->mode != SATTN_FULL && problem->mode != SATTN_SLIDING_WINDOW) return 1;
  int64_t splits = most_keys(problem, sizes) / SPLIT_KEYS;
  if (splits > MAX_SPLITS) splits = MAX_SPLITS;
  return splits < 1 ? 1 : (int32_t)splits;
}

static int32_t splits_of(const sattn_problem *problem, const sattn_sizes *sizes) {
  return sizes->queries <= MAX_SPLIT_QUERIES ? most_splits(problem, sizes) : 1;
}

static band_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, int32_t rows, uint64_t *end) {
  band_layout layout;
  memset(&layout, 0, sizeof layout);
  uint64_t results = (uint64_t)sizes->batch * (uint64_t)problem->heads * (uint64_t)sizes->queries, d = (uint64_t)problem->head_dim;
  if (problem->uses_sa) layout.permute = sattn_cuda_permute_carve(problem, sizes, tile_tokens_of(problem, rows), end);
  if (problem->mode == SATTN_UNION) {
    layout.partial = sattn_carve(end, results, d, sizeof(float));
    layout.partial_lse = sattn_carve(end, results, 1, sizeof(float));
  }
  int32_t splits = most_splits(problem, sizes);
  if (splits > 1) {
    uint64_t queries = (uint64_t)(sizes->queries < MAX_SPLIT_QUERIES ? sizes->queries : MAX_SPLIT_QUERIES);
    uint64_t split_rows = (uint64_t)sizes->batch * (uint64_t)problem->heads * queries;
    layout.partial = sattn_carve(end, split_rows, (uint64_t)splits * d, sizeof(float));
    layout.partial_lse = sattn_carve(end, split_rows, (uint64_t)splits, sizeof(float));
  }
  if (problem->mode == SATTN_GATED) layout.first = sattn_carve(end, results, d, sattn_dtype_size(problem->dtype));
  return layout;
}

uint64_t sattn_cuda_band_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, int32_t rows) {
  uint64_t end = 0, general = sattn_cuda_attend_general.common.workspace(context, problem, maxima);
  carve(problem, maxima, rows, &end);
  return end > general ? end : general;
}

/* ---- life ---- */

void sattn_cuda_band_destroy(sattn_context *context, void *opaque) {
  sattn_cuda_band_state *state = opaque;
  sattn_cuda_attend_close(&sattn_cuda_attend_general, context, state->general);
}

static sattn_status prepare_join(const sattn_plan *plan, sattn_cuda_band_state *state, sattn_error *error) {
  sattn_cuda_program *program = NULL;
  char name[32];
  snprintf(name, sizeof name, "join_splits_%s", sattn_dtype_name(plan->problem.dtype));
  sattn_status status = sattn_cuda_program_get(plan->context, "join_splits", &program, error);
  return status == SATTN_OK ? sattn_cuda_kernel_get(plan->context, program, name, 0, &state->join, error) : status;
}

sattn_status sattn_cuda_band_prepare(const sattn_plan *plan, const sattn_cuda_band_kernel *kernel, void *opaque, sattn_error *error) {
  sattn_cuda_band_state *state = opaque;
  state->kernel = *kernel;
  sattn_cuda_program *program = NULL;
  sattn_status status = sattn_cuda_program_get(plan->context, kernel->program, &program, error);
  if (status == SATTN_OK) {
    status = sattn_cuda_kernel_get(plan->context, program, kernel->name, kernel->shared_bytes, &state->attend, error);
  }
  if (status == SATTN_OK && most_splits(&plan->problem, &plan->maxima) > 1) status = prepare_join(plan, state, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cuda_permute_prepare(plan->context, &state->permute, error);
  if (status == SATTN_OK) status = sattn_cuda_attend_open(&sattn_cuda_attend_general, plan, &state->general, error);
  return status;
}

/* ---- alignment ---- */

bool sattn_cuda_band_rows_aligned(const sattn_tensor *tensor, int32_t heads, uint64_t width) {
  uint64_t bits = sattn_cuda_address(tensor->buffer, 0) + (uint64_t)tensor->offset * width;
  if (heads > 1) bits |= (uint64_t)tensor->stride_head * width;
  return ((bits | (uint64_t)tensor->stride_batch * width | (uint64_t)tensor->stride_token * width) & 15) == 0;
}

bool sattn_cuda_band_array_aligned(const sattn_array *array, uint64_t width) {
  return ((sattn_cuda_address(array->buffer, 0) + (uint64_t)array->offset * width) & 15) == 0;
}

/* The first array whose rows do not start at multiples of 16 bytes; NULL: all do. */
static const char *misaligned(const sattn_problem *problem, const sattn_forward_args *args) {
  uint64_t width = sattn_dtype_size(problem->dtype);
  if (!sattn_cuda_band_rows_aligned(&args->query, problem->heads, width)) return "query";
  if (!sattn_cuda_band_rows_aligned(&args->key, problem->kv_heads, width)) return "key";
  if (!sattn_cuda_band_rows_aligned(&args->value, problem->kv_heads, width)) return "value";
  if (!sattn_cuda_band_rows_aligned(&args->out, problem->heads, width)) return "out";
  if (problem->mode == SATTN_GATED && args->saved) {
    if (!sattn_cuda_band_array_aligned(&args->saved->y_sa, width)) return "saved.y_sa";
    if (!sattn_cuda_band_array_aligned(&args->saved->y_swa, width)) return "saved.y_swa";
  }
  return NULL;
}

/* Why the call cannot take the fast kernels after all; false: it can. */
static bool is_hindered(const sattn_problem *problem, const sattn_forward_args *args, char *reason) {
  const char *name = misaligned(problem, args);
  if (name) {
    snprintf(reason, SATTN_REASON_BYTES, "rows of %s do not start at multiples of 16 bytes", name);
  } else if (sattn_cuda_permute_wraps(problem, &args->sizes) && args->sizes.queries != args->sizes.keys) {
    snprintf(reason, SATTN_REASON_BYTES, "wrap with fewer queries than keys");
  } else {
    return false;
  }
  return true;
}

/* ---- passes ---- */

static void *address(const sattn_buffer *buffer, int64_t index, uint64_t width) {
  return (void *)(uintptr_t)(buffer ? sattn_cuda_address(buffer, 0) + (uint64_t)index * width : 0);
}

static void *array_address(const sattn_array *array, uint64_t width) {
  return address(array->buffer, array->offset, width);
}

static void describe_scale(const sattn_problem *problem, sattn_cuda_band *band) {
  double scale = fabs((double)problem->scale);
  band->scale = problem->scale;
  band->negative = problem->scale < 0;
  band->scale_log2 = (float)(scale * LOG2_E);
  if (!(problem->softcap > 0)) return;
  band->scale_log2 = 1.0f;
  band->cap_in = (float)(scale / (double)problem->softcap);
  band->cap_out = (float)((double)problem->softcap * LOG2_E);
}

static void describe_call(const sattn_cuda_band_state *state, const sattn_problem *problem, const sattn_forward_args *args,
                          sattn_cuda_band *band) {
  memset(band, 0, sizeof *band);
  band->query = sattn_kernel_place(&args->query);
  band->key = sattn_kernel_place(&args->key);
  band->value = sattn_kernel_place(&args->value);
  band->query_rows = address(args->query.buffer, 0, 1);
  band->key_rows = address(args->key.buffer, 0, 1);
  band->value_rows = address(args->value.buffer, 0, 1);
  band->lengths = array_address(&args->lengths, sizeof(int32_t));
  band->query_start = array_address(&args->query_start, sizeof(int32_t));
  band->sink_logits = array_address(&args->sink_logits, sizeof(float));
  band->batch = args->sizes.batch;
  band->queries = (int32_t)args->sizes.queries;
  band->keys = (int32_t)args->sizes.keys;
  band->heads = problem->heads;
  band->group = problem->group;
  band->pack = pack_of(problem, state->kernel.rows);
  band->head_chunks = (problem->group + band->pack - 1) / band->pack;
  band->tile_tokens = tile_tokens_of(problem, state->kernel.rows);
  band->tiles = (band->queries + band->tile_tokens - 1) / band->tile_tokens;
  band->splits = 1;
  band->causal = problem->causal;
  band->sinks = problem->sink_tokens < band->keys ? problem->sink_tokens : band->keys;
  band->visit_sinks = 1;
  band->gate_dtype = (int32_t)problem->gate_dtype;
  describe_scale(problem, band);
}

int32_t sattn_cuda_band_side(int32_t distance, int32_t most) {
  return distance < most ? distance : most;
}

void sattn_cuda_band_use_positions(const sattn_problem *problem, sattn_cuda_band *band) {
  bool full = problem->mode == SATTN_FULL;
  band->left = full ? band->keys : sattn_cuda_band_side(problem->left_swa, band->keys);
  band->right = full ? band->keys : sattn_cuda_band_side(problem->right_swa, band->keys);
  band->key_list = band->query_list = NULL;
  band->ranges = NULL;
}

static void write_out(const sattn_forward_args *args, sattn_cuda_band *band) {
  band->out = sattn_kernel_place(&args->out);
  band->out_rows = address(args->out.buffer, 0, 1);
  band->lse = array_address(&args->lse, sizeof(float));
  band->finish = SATTN_BAND_OUT;
}

typedef struct band_call {
  const sattn_plan *plan;
  const sattn_cuda_band_state *state;
  const sattn_forward_args *args;
  sattn_cuda_chain *chain;
  sattn_cu_pointer workspace;
  band_layout layout;
  sattn_cuda_band band;
} band_call;

static sattn_status run_pass(band_call *call, sattn_error *error) {
  sattn_cuda_band *band = &call->band;
  uint64_t kv_heads = (uint64_t)(band->heads / band->group);
  sattn_cuda_grid grid = {(uint64_t)band->batch * kv_heads * (uint64_t)band->head_chunks * (uint64_t)band->tiles * (uint64_t)band->splits,
                          SATTN_BAND_THREADS, call->state->kernel.shared_bytes};
  sattn_status status = sattn_cuda_chain_stage(call->chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(call->chain, call->state->attend, &grid, band, error);
  return status;
}

static void use_partial(band_call *call) {
  call->band.partial = (float *)(uintptr_t)(call->workspace + call->layout.partial);
  call->band.partial_lse = (float *)(uintptr_t)(call->workspace + call->layout.partial_lse);
  call->band.finish = SATTN_BAND_PARTIAL;
}

static sattn_status run_positions(band_call *call, sattn_error *error) {
  const sattn_problem *problem = &call->plan->problem;
  sattn_cuda_band *band = &call->band;
  sattn_cuda_band_use_positions(problem, band);
  write_out(call->args, band);
  band->splits = splits_of(problem, &call->args->sizes);
  if (band->splits == 1) return run_pass(call, error);
  use_partial(call);
  sattn_cuda_join join;
  memset(&join, 0, sizeof join);
  join.out = band->out;
  join.partial = band->partial;
  join.partial_lse = band->partial_lse;
  join.out_rows = band->out_rows;
  join.lse = band->lse;
  join.batch = band->batch;
  join.queries = band->queries;
  join.heads = band->heads;
  join.head_dim = problem->head_dim;
  join.splits = band->splits;
  uint64_t rows = (uint64_t)band->batch * (uint64_t)band->heads * (uint64_t)band->queries, at_once = SATTN_BAND_THREADS / 32;
  sattn_cuda_grid grid = {(rows + at_once - 1) / at_once, SATTN_BAND_THREADS, 0};
  sattn_status status = run_pass(call, error);
  if (status == SATTN_OK) status = sattn_cuda_chain_launch(call->chain, call->state->join, &grid, &join, error);
  return status;
}

static sattn_status use_slots(band_call *call, sattn_error *error) {
  const sattn_problem *problem = &call->plan->problem;
  sattn_cuda_band *band = &call->band;
  int32_t slots = (int32_t)call->args->permutation->length;
  bool all = problem->wrap && !sattn_cuda_permute_wraps(problem, &call->args->sizes);
  band->left = all ? slots : sattn_cuda_band_side(problem->left_sa, slots);
  band->right = all ? slots : sattn_cuda_band_side(problem->right_sa, slots);
  return sattn_cuda_permute_enqueue(&call->state->permute, problem, &call->args->sizes, call->args->permutation, call->workspace,
                                    &call->layout.permute, band, call->chain, error);
}

static sattn_status run_union(band_call *call, sattn_error *error) {
  const sattn_problem *problem = &call->plan->problem;
  sattn_cuda_band *band = &call->band;
  sattn_cuda_band_use_positions(problem, band);
  use_partial(call);
  sattn_status status = run_pass(call, error);
  if (status != SATTN_OK) return status;
  band->exclude = 1;
  band->exclude_left = band->left;
  band->exclude_right = band->right;
  band->visit_sinks = 0;
  band->start = SATTN_BAND_CONTINUED;
  write_out(call->args, band);
  status = use_slots(call, error);
  return status == SATTN_OK ? run_pass(call, error) : status;
}

static sattn_status run_gated(band_call *call, sattn_error *error) {
  const sattn_problem *problem = &call->plan->problem;
  const sattn_forward_args *args = call->args;
  sattn_cuda_band *band = &call->band;
  uint64_t width = sattn_dtype_size(problem->dtype);
  void *first = (void *)(uintptr_t)(call->workspace + call->layout.first);
  if (args->saved) first = array_address(&args->saved->y_sa, width);
  band->out.stride_head = problem->head_dim;
  band->out.stride_token = band->out.stride_head * problem->heads;
  band->out.stride_batch = band->out.stride_token * band->queries;
  band->out_rows = first;
  band->lse = array_address(&args->lse_sa, sizeof(float));
  sattn_status status = use_slots(call, error);
  if (status == SATTN_OK) status = run_pass(call, error);
  if (status != SATTN_OK) return status;
  sattn_cuda_band_use_positions(problem, band);
  write_out(args, band);
  band->lse = array_address(&args->lse_swa, sizeof(float));
  band->finish = SATTN_BAND_GATED;
  band->first = first;
  band->second = args->saved ? array_address(&args->saved->y_swa, width) : NULL;
  band->gate_first = sattn_kernel_place(&args->gate_sa);
  band->gate_second = sattn_kernel_place(&args->gate_swa);
  band->first_logits = address(args->gate_sa.buffer, 0, 1);
  band->second_logits = address(args->gate_swa.buffer, 0, 1);
  band->gate_first_step = problem->gate_sa_shape == SATTN_GATE_PER_ELEMENT;
  band->gate_second_step = problem->gate_swa_shape == SATTN_GATE_PER_ELEMENT;
  return run_pass(call, error);
}

sattn_status sattn_cuda_band_enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cuda_chain *chain,
                                     sattn_error *error) {
  sattn_cuda_band_state *state = opaque;
  char reason[SATTN_REASON_BYTES];
  if (is_hindered(&plan->problem, args, reason)) {
    sattn_trace(plan->context->trace, SATTN_TRACE_DISPATCH, "attend_general instead of %s: %s", state->kernel.name, reason);
    return sattn_cuda_attend_general.enqueue_forward(plan, state->general, args, chain, error);
  }
  band_call call;
  memset(&call, 0, sizeof call);
  call.plan = plan;
  call.state = state;
  call.args = args;
  call.chain = chain;
  call.workspace = sattn_cuda_address(args->workspace, 0);
  uint64_t end = (uint64_t)args->workspace_offset;
  call.layout = carve(&plan->problem, &args->sizes, state->kernel.rows, &end);
  describe_call(state, &plan->problem, args, &call.band);
  if (plan->problem.mode == SATTN_UNION) return run_union(&call, error);
  if (plan->problem.mode == SATTN_GATED) return run_gated(&call, error);
  if (!plan->problem.uses_sa) return run_positions(&call, error);
  write_out(args, &call.band);
  sattn_status status = use_slots(&call, error);
  return status == SATTN_OK ? run_pass(&call, error) : status;
}
