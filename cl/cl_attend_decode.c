/* Few queries against many keys on CPUs: reads keys and values once, in place, chunk by chunk (kernels/attend_decode.cl). Packing, which
 * pays when 64 queries share a tile, would write and read again everything that is read here once. */
#include <stdio.h>
#include <string.h>

#include "cl_attend.h"
#include "cl_program.h"
#include "kernel_args.h"

#define CHUNK        256 /* as in attend_decode.cl */
#define MOST_QUERIES 8

typedef struct decode_state {
  cl_kernel attend, join;
} decode_state;

static bool supports(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  (void)context;
  if (problem->mode != SATTN_FULL && problem->mode != SATTN_SLIDING_WINDOW) {
    snprintf(reason, SATTN_REASON_BYTES, "decoding is for modes full and sliding_window");
  } else if (problem->head_dim % 16 != 0 || problem->head_dim > 256) {
    snprintf(reason, SATTN_REASON_BYTES, "head_dim %d is no multiple of 16 up to 256", (int)problem->head_dim);
  } else if (maxima->queries > MOST_QUERIES) {
    snprintf(reason, SATTN_REASON_BYTES, "more than %d queries", MOST_QUERIES);
  } else if (maxima->keys > INT32_MAX - CHUNK) {
    snprintf(reason, SATTN_REASON_BYTES, "more than 2^31 - %d keys", CHUNK + 1);
  } else {
    return true;
  }
  return false;
}

static sattn_decode_params carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_decode_params params;
  memset(&params, 0, sizeof params);
  params.chunks = (int32_t)((sizes->keys + CHUNK - 1) / CHUNK);
  uint64_t rows = (uint64_t)sizes->batch * (uint64_t)problem->heads * (uint64_t)sizes->queries, chunks = (uint64_t)params.chunks;
  params.partial = (int64_t)(sattn_carve(end, rows, chunks * (uint64_t)problem->head_dim, sizeof(float)) / sizeof(float));
  params.maxima = (int64_t)(sattn_carve(end, rows, chunks, sizeof(float)) / sizeof(float));
  params.sums = (int64_t)(sattn_carve(end, rows, chunks, sizeof(float)) / sizeof(float));
  return params;
}

static uint64_t workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  carve(problem, maxima, &end);
  return end;
}

/* ---- arguments ---- */

static sattn_status bind(const sattn_context *context, const decode_state *state, const sattn_general_params *params,
                         const sattn_decode_params *decode, const sattn_forward_args *args, sattn_error *error) {
  const sattn_buffer *attend[] = {args->query.buffer,   args->key.buffer,         args->value.buffer,
                                  args->lengths.buffer, args->query_start.buffer, args->workspace};
  const sattn_buffer *join[] = {args->workspace,          args->lengths.buffer, args->query_start.buffer,
                                args->sink_logits.buffer, args->out.buffer,     args->lse.buffer};
  sattn_cl_binder binder = sattn_cl_bind(context, state->attend);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_value(&binder, decode, sizeof *decode);
  sattn_cl_bind_buffers(&binder, attend, sizeof attend / sizeof attend[0]);
  sattn_status status = sattn_cl_bind_status(&binder, error);
  if (status != SATTN_OK) return status;
  binder = sattn_cl_bind(context, state->join);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_value(&binder, decode, sizeof *decode);
  sattn_cl_bind_buffers(&binder, join, sizeof join / sizeof join[0]);
  return sattn_cl_bind_status(&binder, error);
}

/* ---- life ---- */

static void destroy(sattn_context *context, void *opaque) {
  decode_state *state = opaque;
  sattn_cl_kernel_release(context, &state->attend);
  sattn_cl_kernel_release(context, &state->join);
}

static sattn_status prepare_kernels(const sattn_plan *plan, decode_state *state, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "elements_wide.cl", "pack_rows.cl", "attend_decode.cl", NULL};
  static const sattn_forward_args no_args;
  sattn_context *context = plan->context;
  sattn_cl_program *program = NULL;
  char options[64];
  snprintf(options, sizeof options, "-DHEAD_DIM=%d -DDTYPE=%d", (int)plan->problem.head_dim, (int)plan->problem.dtype);
  sattn_status status = sattn_cl_program_get(context, sources, options, &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "attend_decode", &state->attend, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "join_decode", &state->join, error);
  sattn_general_params none;
  sattn_decode_params nothing;
  memset(&none, 0, sizeof none);
  memset(&nothing, 0, sizeof nothing);
  const size_t local[3] = {1, 1, 1};
  if (status == SATTN_OK) status = bind(context, state, &none, &nothing, &no_args, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->attend, 2, local, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, state->join, 3, local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  return status;
}

static sattn_status prepare(const sattn_plan *plan, void *opaque, sattn_error *error) {
  return prepare_kernels(plan, opaque, error);
}

/* ---- execution ---- */

static sattn_status enqueue(const sattn_plan *plan, void *opaque, const sattn_forward_args *args, sattn_cl_chain *chain,
                            sattn_error *error) {
  const decode_state *state = opaque;
  const sattn_problem *problem = &plan->problem;
  uint64_t end = (uint64_t)args->workspace_offset;
  const sattn_decode_params decode = carve(problem, &args->sizes, &end);
  sattn_general_params params;
  sattn_general_describe(problem, args, &params);
  const size_t local[3] = {1, 1, 1};
  const size_t chunks[2] = {sattn_cl_axis(decode.chunks, 1), sattn_cl_axis(args->sizes.batch, 1)};
  const size_t rows[3] = {sattn_cl_axis(args->sizes.queries, 1), sattn_cl_axis(problem->heads, 1), sattn_cl_axis(args->sizes.batch, 1)};
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_ATTEND, error);
  if (status == SATTN_OK) status = bind(plan->context, state, &params, &decode, args, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, state->attend, 2, chunks, local, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, state->join, 3, rows, local, error);
  return status;
}

const sattn_cl_attend sattn_cl_attend_decode = {
    .common =
        {
            .name = "attend_decode",
            .family = SATTN_KERNELS_CPU,
            .path = SATTN_PATH_FAST,
            .pass = SATTN_PASS_FORWARD,
            /* Which would show where exact zeros are due, such as with one key. */
            .apart = "its scores are summed in another order than those of the gradients",
            .supports = supports,
            .workspace = workspace,
        },
    .state_bytes = sizeof(decode_state),
    .prepare = prepare,
    .destroy = destroy,
    .enqueue_forward = enqueue,
};
