/* The family for devices with real local memory: a work-group per tile of queries (kernels/attend_gpu.cl, attend_gpu_tile.cl). */
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_attend_gpu.h"
#include "cl_program.h"
#include "cl_slots.h"
#include "kernel_args.h"

/* As in kernels/attend_gpu.cl. */
enum {
  FLAG_BY_SLOT = 1,
  FLAG_SINKS = 2,
  FLAG_TAKES_PARTIAL = 4,
  FLAG_GIVES_PARTIAL = 8,
  FLAG_EXCLUDES_SLOTS = 16,
  FLAG_GATED = 32,
  FLAG_SINK_LOGITS = 64
};

#define ITEMS 128

/* Rows and keys of a tile, so that a group's local memory stays below 32 KiB, which every GPU has. */
typedef struct tile_shape {
  int32_t rows, keys;
} tile_shape;

typedef struct gpu_state {
  sattn_cl_slots slots;
  cl_kernel attend;
} gpu_state;

typedef struct gpu_layout {
  sattn_slots_layout slots;
  uint64_t partial, partial_lse;
} gpu_layout;

static tile_shape shape_of(const sattn_problem *problem) {
  tile_shape wide = {32, 32}, middle = {32, 16}, narrow = {16, 8};
  return problem->head_dim <= 64 ? wide : problem->head_dim <= 128 ? middle : narrow;
}

static uint64_t local_bytes(const sattn_problem *problem) {
  tile_shape shape = shape_of(problem);
  int64_t floats = (int64_t)(shape.rows + shape.keys) * problem->head_dim + shape.rows * shape.keys + ITEMS;
  return (uint64_t)(floats + 2 * shape.rows + 2 * shape.keys) * 4;
}

static bool two_passes(const sattn_problem *problem) {
  return problem->mode == SATTN_UNION || problem->mode == SATTN_GATED;
}

bool sattn_cl_gpu_supports(const sattn_context *context, const sattn_problem *problem, uint32_t items, uint64_t local_bytes, char *reason) {
  const sattn_cl_context *cl = sattn_cl_of(context);
  cl_ulong local = 0;
  cl->api->clGetDeviceInfo(cl->device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
  if (problem->mode == SATTN_MOBA) {
    snprintf(reason, SATTN_REASON_BYTES, "mode moba selects per query, a tile shares its keys");
  } else if (problem->wrap) {
    snprintf(reason, SATTN_REASON_BYTES, "wrap makes two ranges of slots");
  } else if (context->device.max_work_group < items) {
    snprintf(reason, SATTN_REASON_BYTES, "work-groups of %u, %u needed", context->device.max_work_group, items);
  } else if (local < local_bytes) {
    snprintf(reason, SATTN_REASON_BYTES, "local memory of %llu bytes, %llu needed", (unsigned long long)local,
             (unsigned long long)local_bytes);
  } else {
    return true;
  }
  return false;
}

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  (void)maxima;
  return sattn_cl_gpu_supports(context, problem, ITEMS, local_bytes(problem), reason);
}

static gpu_layout carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  gpu_layout layout;
  memset(&layout, 0, sizeof layout);
  if (problem->uses_sa) layout.slots = sattn_slots_carve(problem, sizes, end);
  if (!two_passes(problem)) return layout;
  uint64_t rows = (uint64_t)(sizes->batch * problem->heads * sizes->queries);
  layout.partial = sattn_carve(end, rows, (uint64_t)problem->head_dim, sizeof(float));
  layout.partial_lse = sattn_carve(end, rows, 1, sizeof(float));
  return layout;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  carve(problem, maxima, &end);
  return end;
}

/* args NULL: every array is a NULL pointer, for the launch on an empty range. */
static sattn_status bind(const sattn_context *context, cl_kernel kernel, const sattn_general_params *params, const sattn_gpu_pass *pass,
                         const sattn_forward_args *args, const sattn_buffer *order, sattn_error *error) {
  static const sattn_forward_args no_args;
  if (!args) args = &no_args;
  const sattn_buffer *buffers[] = {args->query.buffer,
                                   args->key.buffer,
                                   args->value.buffer,
                                   args->out.buffer,
                                   args->lse.buffer,
                                   args->lse_sa.buffer,
                                   args->lse_swa.buffer,
                                   args->saved ? args->saved->y_sa.buffer : NULL,
                                   args->saved ? args->saved->y_swa.buffer : NULL,
                                   order,
                                   args->workspace, /* slots */
                                   args->lengths.buffer,
                                   args->query_start.buffer,
                                   args->sink_logits.buffer,
                                   args->gate_sa.buffer,
                                   args->gate_swa.buffer,
                                   args->workspace, /* partial */
                                   args->workspace};
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_value(&binder, pass, sizeof *pass);
  sattn_cl_bind_buffers(&binder, buffers, sizeof buffers / sizeof buffers[0]);
  return sattn_cl_bind_status(&binder, error);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  gpu_state *state = opaque;
  sattn_cl_slots_destroy(context, &state->slots);
  sattn_cl_kernel_release(context, &state->attend);
}

static sattn_status prepare_attend(const sattn_plan *plan, gpu_state *state, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements.cl", "attend_gpu.cl", "attend_gpu_tile.cl", NULL};
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  tile_shape shape = shape_of(&plan->problem);
  char options[128];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d -DROWS=%d -DKEYS=%d -DITEMS=%d", (int)plan->problem.head_dim,
           (int)plan->problem.dtype, (int)shape.rows, (int)shape.keys, ITEMS);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_gpu", &state->attend, error);
  sattn_general_params none;
  sattn_gpu_pass no_pass;
  memset(&none, 0, sizeof none);
  memset(&no_pass, 0, sizeof no_pass);
  const size_t local[3] = {ITEMS, 1, 1};
  if (status == SATTN_OK) status = bind(context, state->attend, &none, &no_pass, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->attend, 3, local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  gpu_state *state = opaque;
  sattn_status status = prepare_attend(plan, state, error);
  if (status == SATTN_OK && plan->problem.uses_sa) status = sattn_cl_slots_prepare(plan->context, &state->slots, error);
  return status;
}

/* ---- execution ---- */

/* The passes of a mode: one over slots or positions, or slots first and positions second. Returns how many. */
static int list_passes(const sattn_problem *problem, int32_t flags[2]) {
  int32_t sinks = problem->sink_tokens > 0 ? FLAG_SINKS : 0;
  switch (problem->mode) {
    case SATTN_STOCHASTIC:
      flags[0] = FLAG_BY_SLOT | sinks | FLAG_SINK_LOGITS;
      return 1;
    case SATTN_UNION:
      flags[0] = FLAG_BY_SLOT | sinks | FLAG_GIVES_PARTIAL;
      flags[1] = FLAG_TAKES_PARTIAL | FLAG_EXCLUDES_SLOTS | FLAG_SINK_LOGITS;
      return 2;
    case SATTN_GATED:
      flags[0] = FLAG_BY_SLOT | sinks | FLAG_GIVES_PARTIAL | FLAG_GATED | FLAG_SINK_LOGITS;
      flags[1] = sinks | FLAG_GATED | FLAG_SINK_LOGITS;
      return 2;
    default:
      flags[0] = sinks | FLAG_SINK_LOGITS;
      return 1;
  }
}

/* FULL is a band of positions without ends. */
static void widen_full(const sattn_problem *problem, sattn_general_params *params) {
  if (problem->mode != SATTN_FULL) return;
  params->left_swa = INT32_MAX;
  params->right_swa = INT32_MAX;
}

static int64_t tiles_of(int64_t rows, tile_shape shape) {
  return (rows + shape.rows - 1) / shape.rows;
}

static sattn_status enqueue_pass(const sattn_plan *plan, gpu_state *state, const sattn_forward_args *args,
                                 const sattn_general_params *params, sattn_gpu_pass *pass, const sattn_buffer *order, sattn_cl_chain *chain,
                                 sattn_error *error) {
  tile_shape shape = shape_of(&plan->problem);
  int64_t query_tiles = tiles_of(args->sizes.queries, shape);
  pass->slot_tiles = tiles_of(params->order_length ? params->order_length : args->sizes.keys, shape);
  pass->tiles = query_tiles;
  if (pass->flags & FLAG_BY_SLOT) {
    bool has_empty = plan->problem.has_lengths && !(pass->flags & FLAG_GIVES_PARTIAL);
    pass->tiles = pass->slot_tiles + (has_empty ? query_tiles : 0);
  }
  const size_t local[3] = {ITEMS, 1, 1};
  const size_t global[3] = {sattn_cl_axis(pass->tiles * ITEMS, ITEMS), sattn_cl_axis(plan->problem.heads, 1),
                            sattn_cl_axis(args->sizes.batch, 1)};
  sattn_status status = bind(plan->context, state->attend, params, pass, args, order, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, state->attend, 3, global, local, error) : status;
}

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  gpu_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  uint64_t end = (uint64_t)args->workspace_offset;
  gpu_layout layout = carve(problem, &args->sizes, &end);
  sattn_general_params params;
  sattn_general_describe(problem, args, &params);
  widen_full(problem, &params);
  sattn_gpu_pass pass;
  memset(&pass, 0, sizeof pass);
  pass.partial = (int64_t)(layout.partial / sizeof(float));
  pass.partial_lse = (int64_t)(layout.partial_lse / sizeof(float));
  sattn_status status = SATTN_OK;
  const sattn_buffer *order = NULL;
  if (problem->uses_sa) {
    status = sattn_cl_slots_enqueue(&state->slots, plan, &args->sizes, args->permutation, &args->lengths, args->workspace, &layout.slots,
                                    chain, &params, &order, error);
    if (status != SATTN_OK) return status;
  }
  int32_t flags[2];
  int passes = list_passes(problem, flags);
  status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  for (int i = 0; status == SATTN_OK && i < passes; ++i) {
    pass.flags = flags[i];
    status = enqueue_pass(plan, state, args, &params, &pass, order, chain, error);
  }
  return status;
}

const sattn_cl_attend sattn_cl_attend_gpu = {
    .common =
        {
            .name = "attend_gpu",
            .family = SATTN_KERNELS_GPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_FORWARD,
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(gpu_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_forward = enqueue,
};
