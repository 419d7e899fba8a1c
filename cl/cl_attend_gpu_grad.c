/* Gradients of the family for devices with real local memory: dQ by tiles of queries, then dK and dV by tiles of keys (kernels/
 * attend_gpu_grad.cl).
 *
 *     FULL, SLIDING_WINDOW   tiles of positions
 *     STOCHASTIC             tiles of slots
 *     UNION, GATED           tiles of slots into fp32 rows, then tiles of positions on top of them
 */
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_attend_gpu.h"
#include "cl_program.h"
#include "cl_slots.h"
#include "kernel_args.h"

/* As in kernels/attend_gpu_grad.cl. */
enum { FLAG_BY_SLOT = 1, FLAG_SINKS = 2, FLAG_TAKES_PARTIAL = 4, FLAG_GIVES_PARTIAL = 8, FLAG_EXCLUDES_SLOTS = 16, FLAG_GATED = 32 };

#define ITEMS 128

/* Rows that stay and that pass, so that a group's local memory stays below 32 KiB, which every GPU has. */
typedef struct tile_shape {
  int32_t rows, block;
} tile_shape;

typedef struct gpu_grad_state {
  sattn_cl_slots slots;
  cl_kernel query, key_value, sinks; /* sinks: NULL without sink logits */
} gpu_grad_state;

typedef struct gpu_grad_layout {
  sattn_slots_layout slots;
  uint64_t deltas[2]; /* by branch */
  uint64_t partial_query, partial_key, partial_value;
} gpu_grad_layout;

/* One pass's kernels are bound to these. */
typedef struct grad_pass {
  sattn_gpu_grad_params params;
  const sattn_backward_args *args;
  const sattn_buffer *out, *lse, *grad_lse, *gate, *grad_gate; /* of its branch */
  const sattn_buffer *order;
} grad_pass;

/* ---- choice ---- */

static tile_shape shape_of(const sattn_problem *problem) {
  tile_shape wide = {32, 16}, middle = {16, 16}, narrow = {16, 8}, narrowest = {8, 4};
  return problem->head_dim <= 64 ? wide : problem->head_dim <= 96 ? middle : problem->head_dim <= 128 ? narrow : narrowest;
}

static uint64_t local_bytes(const sattn_problem *problem) {
  tile_shape shape = shape_of(problem);
  int64_t stride = problem->head_dim | 1;
  int64_t words = 2 * (int64_t)(shape.rows + shape.block) * stride + 2 * shape.rows * shape.block + ITEMS;
  return (uint64_t)(words + 2 * shape.rows + 4 * shape.block) * 4;
}

static int pass_count(const sattn_problem *problem) {
  return problem->mode == SATTN_UNION || problem->mode == SATTN_GATED ? 2 : 1;
}

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  (void)maxima;
  return sattn_cl_gpu_supports(context, problem, ITEMS, local_bytes(problem), reason);
}

static gpu_grad_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  gpu_grad_layout layout;
  memset(&layout, 0, sizeof layout);
  uint64_t queries = (uint64_t)(sizes->batch * problem->heads * sizes->queries);
  uint64_t keys = (uint64_t)(sizes->batch * problem->kv_heads * sizes->keys), row = (uint64_t)problem->head_dim * sizeof(float);
  if (problem->uses_sa) layout.slots = sattn_slots_carve(problem, sizes, end);
  layout.deltas[0] = sattn_carve(end, queries, 1, sizeof(float));
  layout.deltas[1] = problem->mode == SATTN_GATED ? sattn_carve(end, queries, 1, sizeof(float)) : layout.deltas[0];
  if (pass_count(problem) == 1) return layout;
  layout.partial_query = sattn_carve(end, queries, 1, row);
  layout.partial_key = sattn_carve(end, keys, 1, row);
  layout.partial_value = sattn_carve(end, keys, 1, row);
  return layout;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  carve(problem, maxima, &end);
  return end;
}

/* ---- arguments ---- */

static sattn_status bind_query(const sattn_context *context, cl_kernel kernel, const grad_pass *pass, sattn_error *error) {
  const sattn_backward_args *args = pass->args;
  const sattn_buffer *buffers[] = {args->query.buffer,
                                   args->key.buffer,
                                   args->value.buffer,
                                   pass->out,
                                   args->grad_out.buffer,
                                   pass->lse,
                                   pass->grad_lse,
                                   pass->order,
                                   args->workspace, /* slots */
                                   args->lengths.buffer,
                                   args->query_start.buffer,
                                   pass->gate,
                                   args->workspace, /* deltas */
                                   args->workspace, /* partial */
                                   args->grad_query.buffer,
                                   pass->grad_gate};
  return sattn_cl_bind_all(context, kernel, &pass->params, sizeof pass->params, buffers, sizeof buffers / sizeof buffers[0], error);
}

static sattn_status bind_key_value(const sattn_context *context, cl_kernel kernel, const grad_pass *pass, sattn_error *error) {
  const sattn_backward_args *args = pass->args;
  const sattn_buffer *buffers[] = {args->query.buffer,    args->key.buffer,         args->value.buffer, args->grad_out.buffer, pass->lse,
                                   pass->order,           args->workspace,                                               /* slots */
                                   args->lengths.buffer,  args->query_start.buffer, pass->gate,         args->workspace, /* deltas */
                                   args->workspace,                                                                      /* partial */
                                   args->grad_key.buffer, args->grad_value.buffer};
  return sattn_cl_bind_all(context, kernel, &pass->params, sizeof pass->params, buffers, sizeof buffers / sizeof buffers[0], error);
}

static sattn_status bind_sinks(const sattn_context *context, cl_kernel kernel, const sattn_sum_sinks_params *params,
                               const sattn_backward_args *args, bool gated, sattn_error *error) {
  const sattn_saved *saved = args->saved;
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, gated ? saved->lse_sa.buffer : saved->lse.buffer);
  sattn_cl_bind_buffer(&binder, gated ? saved->lse_swa.buffer : NULL);
  sattn_cl_bind_buffer(&binder, args->sink_logits.buffer);
  sattn_cl_bind_buffer(&binder, args->workspace); /* deltas */
  sattn_cl_bind_buffer(&binder, args->grad_sink_logits.buffer);
  return sattn_cl_bind_status(&binder, error);
}

static void describe_problem(const sattn_problem *problem, sattn_gpu_grad_params *params) {
  /* FULL is a band of positions without ends. */
  bool full = problem->mode == SATTN_FULL;
  params->heads = problem->heads;
  params->kv_heads = problem->kv_heads;
  params->group = problem->group;
  params->causal = problem->causal;
  params->left_sa = problem->left_sa;
  params->right_sa = problem->right_sa;
  params->left_swa = full ? INT32_MAX : problem->left_swa;
  params->right_swa = full ? INT32_MAX : problem->right_swa;
  params->sink_tokens = problem->sink_tokens;
  params->gate_dtype = (int32_t)problem->gate_dtype;
  params->scale = problem->scale;
  params->softcap = problem->softcap;
}

/* What is the same in both passes; slots and order are zero. */
static void describe(const sattn_problem *problem, const sattn_backward_args *args, const gpu_grad_layout *layout,
                     sattn_gpu_grad_params *params) {
  const sattn_sizes *sizes = &args->saved->sizes;
  memset(params, 0, sizeof *params);
  describe_problem(problem, params);
  params->batch = sizes->batch;
  params->queries = (int32_t)sizes->queries;
  params->keys = (int32_t)sizes->keys;
  params->query = sattn_kernel_place(&args->query);
  params->key = sattn_kernel_place(&args->key);
  params->value = sattn_kernel_place(&args->value);
  params->grad_out = sattn_kernel_place(&args->grad_out);
  params->grad_query = sattn_kernel_place(&args->grad_query);
  params->grad_key = sattn_kernel_place(&args->grad_key);
  params->grad_value = sattn_kernel_place(&args->grad_value);
  params->lengths = args->lengths.offset;
  params->query_start = args->query_start.offset;
  params->partial_query = (int64_t)(layout->partial_query / sizeof(float));
  params->partial_key = (int64_t)(layout->partial_key / sizeof(float));
  params->partial_value = (int64_t)(layout->partial_value / sizeof(float));
}

static void describe_branch(const sattn_problem *problem, int branch, const gpu_grad_layout *layout, grad_pass *pass) {
  const sattn_backward_args *args = pass->args;
  const sattn_saved *saved = args->saved;
  sattn_gpu_grad_params *params = &pass->params;
  bool gated = problem->mode == SATTN_GATED;
  const sattn_array *lse = !gated ? &saved->lse : branch ? &saved->lse_swa : &saved->lse_sa;
  const sattn_array *grad_lse = !gated ? &args->grad_lse : branch ? &args->grad_lse_swa : &args->grad_lse_sa;
  pass->lse = lse->buffer;
  pass->grad_lse = grad_lse->buffer;
  params->lse = lse->offset;
  params->grad_lse = grad_lse->offset;
  params->deltas = (int64_t)(layout->deltas[branch] / sizeof(float));
  pass->out = saved->out.buffer;
  params->out = sattn_kernel_place(&saved->out);
  if (!gated) return;
  const sattn_tensor *gate = branch ? &args->gate_swa : &args->gate_sa, *grad_gate = branch ? &args->grad_gate_swa : &args->grad_gate_sa;
  const sattn_array *y = branch ? &saved->y_swa : &saved->y_sa;
  int64_t token = (int64_t)problem->heads * problem->head_dim; /* a saved branch is contiguous */
  const sattn_kernel_tensor place = {y->offset, saved->sizes.queries * token, token, problem->head_dim};
  pass->out = y->buffer;
  pass->gate = gate->buffer;
  pass->grad_gate = grad_gate->buffer;
  params->out = place;
  params->gate = sattn_kernel_place(gate);
  params->grad_gate = sattn_kernel_place(grad_gate);
  params->gate_element = (branch ? problem->gate_swa_shape : problem->gate_sa_shape) == SATTN_GATE_PER_ELEMENT;
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  gpu_grad_state *state = opaque;
  sattn_cl_slots_destroy(context, &state->slots);
  sattn_cl_kernel_release(context, &state->query);
  sattn_cl_kernel_release(context, &state->key_value);
  sattn_cl_kernel_release(context, &state->sinks);
}

static sattn_status launch_empty(sattn_context *context, gpu_grad_state *state, sattn_error *error) {
  static const sattn_backward_args no_args;
  static const sattn_saved no_saved;
  sattn_backward_args args = no_args;
  sattn_sum_sinks_params no_sums;
  grad_pass none;
  memset(&none, 0, sizeof none);
  memset(&no_sums, 0, sizeof no_sums);
  args.saved = &no_saved;
  none.args = &args;
  const size_t local[3] = {ITEMS, 1, 1};
  sattn_status status = bind_query(context, state->query, &none, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->query, 3, local, error);
  if (status == SATTN_OK) status = bind_key_value(context, state->key_value, &none, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->key_value, 3, local, error);
  if (status == SATTN_OK) status = bind_sinks(context, state->sinks, &no_sums, &args, false, error);
  return status == SATTN_OK ? sattn_cl_launch_once(context, state->sinks, 1, local, error) : status;
}

static sattn_status prepare_kernels(const sattn_plan *plan, gpu_grad_state *state, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements.cl", "attend_gpu_grad.cl", "attend_gpu_grad_tile.cl", NULL};
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  tile_shape shape = shape_of(&plan->problem);
  char options[128];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d -DROWS=%d -DBLOCK=%d -DITEMS=%d", (int)plan->problem.head_dim,
           (int)plan->problem.dtype, (int)shape.rows, (int)shape.block, ITEMS);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_gpu_grad_query", &state->query, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_gpu_grad_key_value", &state->key_value, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_gpu_grad_sinks", &state->sinks, error);
  if (status == SATTN_OK) status = launch_empty(context, state, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  gpu_grad_state *state = opaque;
  sattn_status status = prepare_kernels(plan, state, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cl_slots_prepare(plan->context, &state->slots, error);
  return status;
}

/* ---- execution ---- */

/* The passes of a mode. Returns how many. */
static int list_passes(const sattn_problem *problem, int32_t flags[2]) {
  int32_t sinks = problem->sink_tokens > 0 ? FLAG_SINKS : 0;
  switch (problem->mode) {
    case SATTN_STOCHASTIC:
      flags[0] = FLAG_BY_SLOT | sinks;
      break;
    case SATTN_UNION:
      flags[0] = FLAG_BY_SLOT | sinks | FLAG_GIVES_PARTIAL;
      flags[1] = FLAG_TAKES_PARTIAL | FLAG_EXCLUDES_SLOTS;
      break;
    case SATTN_GATED:
      flags[0] = FLAG_BY_SLOT | sinks | FLAG_GATED | FLAG_GIVES_PARTIAL;
      flags[1] = sinks | FLAG_GATED | FLAG_TAKES_PARTIAL;
      break;
    default:
      flags[0] = sinks;
      break;
  }
  return pass_count(problem);
}

static int64_t tiles_of(int64_t rows, tile_shape shape) {
  return (rows + shape.rows - 1) / shape.rows;
}

/* Behind the tiles of slots come those of the `rows` positions, if rows that do not exist have something to be written. */
static void count_tiles(const sattn_problem *problem, grad_pass *pass, int64_t sink_tokens, int64_t rows, bool writes_absent) {
  tile_shape shape = shape_of(problem);
  sattn_gpu_grad_params *params = &pass->params;
  bool by_slot = params->flags & FLAG_BY_SLOT;
  params->sink_tiles = tiles_of(sink_tokens, shape);
  params->slot_tiles = by_slot ? tiles_of(params->order_length ? params->order_length : params->keys, shape) : 0;
  params->tiles =
      params->sink_tiles + params->slot_tiles + (!by_slot || (problem->has_lengths && writes_absent) ? tiles_of(rows, shape) : 0);
}

static sattn_status enqueue_query(const sattn_plan *plan, const gpu_grad_state *state, grad_pass *pass, sattn_cl_chain *chain,
                                  sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  const int32_t flags = pass->params.flags;
  count_tiles(problem, pass, 0, pass->params.queries, !(flags & FLAG_GIVES_PARTIAL) || (flags & FLAG_GATED));
  const size_t local[3] = {ITEMS, 1, 1};
  const size_t global[3] = {sattn_cl_axis(pass->params.tiles * ITEMS, ITEMS), sattn_cl_axis(problem->heads, 1),
                            sattn_cl_axis(pass->params.batch, 1)};
  sattn_status status = bind_query(plan->context, state->query, pass, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->query, 3, global, local, error) : status;
}

static sattn_status enqueue_key_value(const sattn_plan *plan, const gpu_grad_state *state, grad_pass *pass, sattn_cl_chain *chain,
                                      sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  const int32_t flags = pass->params.flags;
  const int64_t sinks = problem->sink_tokens < pass->params.keys ? problem->sink_tokens : pass->params.keys;
  count_tiles(problem, pass, flags & FLAG_SINKS ? sinks : 0, pass->params.keys, !(flags & FLAG_GIVES_PARTIAL));
  const size_t local[3] = {ITEMS, 1, 1};
  const size_t global[3] = {sattn_cl_axis(pass->params.tiles * ITEMS, ITEMS), sattn_cl_axis(problem->kv_heads, 1),
                            sattn_cl_axis(pass->params.batch, 1)};
  sattn_status status = bind_key_value(plan->context, state->key_value, pass, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->key_value, 3, global, local, error) : status;
}

static sattn_status enqueue_sinks(const sattn_plan *plan, const gpu_grad_state *state, const sattn_backward_args *args,
                                  const gpu_grad_layout *layout, sattn_cl_chain *chain, sattn_error *error) {
  const sattn_saved *saved = args->saved;
  bool gated = plan->problem.mode == SATTN_GATED;
  sattn_sum_sinks_params params;
  memset(&params, 0, sizeof params);
  params.lse[0] = gated ? saved->lse_sa.offset : saved->lse.offset;
  params.lse[1] = saved->lse_swa.offset;
  for (int branch = 0; branch < 2; ++branch) params.deltas[branch] = (int64_t)(layout->deltas[branch] / sizeof(float));
  params.sink_logits = args->sink_logits.offset;
  params.grad_sink_logits = args->grad_sink_logits.offset;
  params.batch = saved->sizes.batch;
  params.heads = plan->problem.heads;
  params.queries = (int32_t)saved->sizes.queries;
  params.branches = gated ? 2 : 1;
  const size_t local = ITEMS, global = sattn_cl_axis((int64_t)params.heads * ITEMS, ITEMS);
  sattn_status status = bind_sinks(plan->context, state->sinks, &params, args, gated, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->sinks, 1, &global, &local, error) : status;
}

/* Slots, for which the general kernels' description is filled and read back. */
static sattn_status enqueue_slots(const sattn_plan *plan, gpu_grad_state *state, const sattn_backward_args *args,
                                  const gpu_grad_layout *layout, grad_pass *pass, sattn_cl_chain *chain, sattn_error *error) {
  sattn_general_params slots;
  memset(&slots, 0, sizeof slots);
  sattn_status status = sattn_cl_slots_enqueue(&state->slots, plan, &args->saved->sizes, args->saved->permutation, &args->lengths,
                                               args->workspace, &layout->slots, chain, &slots, &pass->order, error);
  pass->params.order = slots.order;
  pass->params.slots = slots.slots;
  pass->params.order_length = slots.order_length;
  return status;
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_backward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  gpu_grad_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  uint64_t end = (uint64_t)args->workspace_offset;
  gpu_grad_layout layout = carve(problem, &args->saved->sizes, &end);
  int32_t flags[2] = {0, 0};
  int passes = list_passes(problem, flags);
  grad_pass pass[2];
  memset(pass, 0, sizeof pass);
  pass[0].args = args;
  describe(problem, args, &layout, &pass[0].params);
  bool has_queries = args->saved->sizes.queries > 0;
  sattn_status status = SATTN_OK;
  if (!has_queries) {
    /* There may be no permutation either. One pass over positions writes zeros. */
    passes = 1;
    flags[0] = 0;
  } else if (problem->uses_sa) {
    status = enqueue_slots(plan, state, args, &layout, &pass[0], chain, error);
  }
  pass[1] = pass[0];
  if (status == SATTN_OK) status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  for (int i = 0; i < passes && status == SATTN_OK; ++i) {
    pass[i].params.flags = flags[i];
    describe_branch(problem, problem->mode == SATTN_GATED ? i : 0, &layout, &pass[i]);
    if (has_queries) status = enqueue_query(plan, state, &pass[i], chain, error);
  }
  for (int i = 0; i < passes && status == SATTN_OK; ++i) status = enqueue_key_value(plan, state, &pass[i], chain, error);
  return status == SATTN_OK && problem->has_sink_logits ? enqueue_sinks(plan, state, args, &layout, chain, error) : status;
}

const sattn_cl_attend sattn_cl_attend_gpu_grad = {
    .common =
        {
            .name = "attend_gpu_grad",
            .family = SATTN_KERNELS_GPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_BACKWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(gpu_grad_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_backward = enqueue,
};
