#include "cl_slots.h"

#include <string.h>

/* One work-item compacts a chunk and adds up the counts of all chunks before it: at most this many. */
#define MAX_CHUNKS 1024
#define MIN_CHUNK  256

static bool shared_per_head(const sattn_problem *problem) {
  return problem->sharing == SATTN_PER_HEAD || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
}

static bool shared_per_batch(const sattn_problem *problem) {
  return problem->sharing == SATTN_PER_BATCH || problem->sharing == SATTN_PER_BATCH_AND_HEAD;
}

/* Lengths take tokens out of the order, unless slots are counted in a longer order that has gaps anyway. */
static bool compacts(const sattn_problem *problem) {
  return problem->has_lengths && problem->order_length == 0;
}

static int64_t head_rows(const sattn_problem *problem) {
  return shared_per_head(problem) ? problem->kv_heads : 1;
}

static int64_t batch_rows(const sattn_problem *problem, const sattn_sizes *sizes) {
  return compacts(problem) || shared_per_batch(problem) ? sizes->batch : 1;
}

static int64_t chunk_of(int64_t keys) {
  int64_t chunk = (keys + MAX_CHUNKS - 1) / MAX_CHUNKS;
  return chunk < MIN_CHUNK ? MIN_CHUNK : chunk;
}

sattn_cl_slots_layout sattn_cl_slots_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_cl_slots_layout layout = {0, 0, 0};
  uint64_t rows = (uint64_t)(batch_rows(problem, sizes) * head_rows(problem));
  layout.slots = sattn_carve(end, rows * (uint64_t)sizes->keys * sizeof(uint32_t));
  if (!compacts(problem)) return layout;
  layout.compact = sattn_carve(end, rows * (uint64_t)sizes->keys * sizeof(uint32_t));
  /* The number of chunks does not grow evenly with keys; this bound does, so a plan's maxima cover every smaller call. */
  int64_t most_chunks = (sizes->keys + MIN_CHUNK - 1) / MIN_CHUNK;
  if (most_chunks > MAX_CHUNKS) most_chunks = MAX_CHUNKS;
  layout.counts = sattn_carve(end, rows * (uint64_t)most_chunks * sizeof(uint32_t));
  return layout;
}

void sattn_cl_slots_destroy(sattn_context *context, sattn_cl_slots *slots) {
  sattn_cl_kernel_release(context, &slots->invert);
  sattn_cl_kernel_release(context, &slots->count);
  sattn_cl_kernel_release(context, &slots->write);
}

static sattn_status bind_invert(const sattn_context *context, cl_kernel kernel, const sattn_slots_params *params, const sattn_buffer *order,
                                const sattn_buffer *workspace, sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, order);
  sattn_cl_bind_buffer(&binder, workspace);
  return sattn_cl_bind_status(&binder, error);
}

/* The count kernel takes one array less than the write kernel. */
static sattn_status bind_compact(const sattn_context *context, cl_kernel kernel, bool writes, const sattn_slots_params *params,
                                 const sattn_buffer *order, const sattn_buffer *lengths, const sattn_buffer *workspace,
                                 sattn_error *error) {
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_value(&binder, params, sizeof *params);
  sattn_cl_bind_buffer(&binder, order);
  sattn_cl_bind_buffer(&binder, lengths);
  sattn_cl_bind_buffer(&binder, workspace);
  if (writes) {
    sattn_cl_bind_buffer(&binder, workspace);
    sattn_cl_bind_buffer(&binder, workspace);
  }
  return sattn_cl_bind_status(&binder, error);
}

static sattn_status launch_empty(sattn_context *context, sattn_cl_slots *slots, sattn_error *error) {
  sattn_slots_params none;
  memset(&none, 0, sizeof none);
  size_t local[3] = {sattn_cl_plain_group(context), 1, 1};
  sattn_status status = bind_invert(context, slots->invert, &none, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, slots->invert, 3, local, error);
  if (status == SATTN_OK) status = bind_compact(context, slots->count, false, &none, NULL, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, slots->count, 3, local, error);
  if (status == SATTN_OK) status = bind_compact(context, slots->write, true, &none, NULL, NULL, NULL, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, slots->write, 3, local, error);
  return status;
}

sattn_status sattn_cl_slots_prepare(sattn_context *context, sattn_cl_slots *out_slots, sattn_error *error) {
  static const char *const sources[] = {"kernel_params.h", "slots.cl", NULL};
  sattn_cl_program *program = NULL;
  sattn_cl_slots slots = {NULL, NULL, NULL};
  sattn_status status = sattn_cl_program_get(context, sources, "", &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "slots_invert", &slots.invert, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "slots_count", &slots.count, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "slots_write", &slots.write, error);
  if (status == SATTN_OK) status = launch_empty(context, &slots, error);
  if (status != SATTN_OK) {
    sattn_cl_slots_destroy(context, &slots);
    return status;
  }
  sattn_cl_program_launched(context, program);
  *out_slots = slots;
  return SATTN_OK;
}

sattn_status sattn_cl_slots_enqueue(sattn_cl_slots *slots, const sattn_plan *plan, const sattn_sizes *sizes,
                                    const sattn_permutation *permutation, const sattn_array *lengths, const sattn_buffer *workspace,
                                    const sattn_cl_slots_layout *layout, sattn_cl_chain *chain, sattn_cl_slots_result *out_result,
                                    sattn_error *error) {
  const sattn_problem *problem = &plan->problem;
  sattn_slots_params params;
  memset(&params, 0, sizeof params);
  params.batch_rows = batch_rows(problem, sizes);
  params.head_rows = head_rows(problem);
  params.order_length = (int32_t)permutation->length;
  params.keys = (int32_t)sizes->keys;
  params.order.stride_head = shared_per_head(problem) ? permutation->length : 0;
  params.order.stride_batch = shared_per_batch(problem) ? params.head_rows * permutation->length : 0;
  params.chunk = (int32_t)chunk_of(sizes->keys);
  params.chunks = (int32_t)((sizes->keys + params.chunk - 1) / params.chunk);
  params.slots = (int64_t)(layout->slots / sizeof(uint32_t));
  params.compact = (int64_t)(layout->compact / sizeof(uint32_t));
  params.counts = (int64_t)(layout->counts / sizeof(uint32_t));
  params.lengths = lengths->offset;

  const size_t local[3] = {sattn_cl_plain_group(plan->context), 1, 1};
  int64_t items = compacts(problem) ? params.chunks : params.order_length;
  const size_t global[3] = {sattn_cl_axis(items, local[0]), sattn_cl_axis(params.head_rows, 1), sattn_cl_axis(params.batch_rows, 1)};
  sattn_cl_slots_result result = {permutation->device_order, params.order, {0, 0, 0}, params.order_length};
  result.slots.offset = params.slots;
  result.slots.stride_head = shared_per_head(problem) ? sizes->keys : 0;
  result.slots.stride_batch = params.batch_rows > 1 ? params.head_rows * sizes->keys : 0;
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_CL_STAGE_PERMUTE, error);
  if (compacts(problem)) {
    if (status == SATTN_OK) {
      status = bind_compact(plan->context, slots->count, false, &params, permutation->device_order, lengths->buffer, workspace, error);
    }
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, slots->count, 3, global, local, error);
    if (status == SATTN_OK) {
      status = bind_compact(plan->context, slots->write, true, &params, permutation->device_order, lengths->buffer, workspace, error);
    }
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, slots->write, 3, global, local, error);
    result.order_buffer = workspace;
    result.order = result.slots;
    result.order.offset = params.compact;
    result.order_length = 0;
  } else {
    if (status == SATTN_OK) status = bind_invert(plan->context, slots->invert, &params, permutation->device_order, workspace, error);
    if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, slots->invert, 3, global, local, error);
  }
  *out_result = result;
  return status;
}
