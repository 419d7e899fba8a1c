#include "cl_slots.h"

#include <string.h>

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
                                    const sattn_slots_layout *layout, sattn_cl_chain *chain, sattn_general_params *params,
                                    const sattn_buffer **out_order, sattn_error *error) {
  const sattn_buffer *order = permutation->device_order;
  sattn_slots_params own;
  sattn_slots_result result;
  sattn_slots_describe(&plan->problem, sizes, permutation, lengths, layout, &own, &result);
  params->order = result.order;
  params->slots = result.slots;
  params->order_length = result.order_length;
  *out_order = result.compacted ? workspace : order;

  const size_t local[3] = {sattn_cl_plain_group(plan->context), 1, 1};
  int64_t items = result.compacted ? own.chunks : own.order_length;
  const size_t global[3] = {sattn_cl_axis(items, local[0]), sattn_cl_axis(own.head_rows, 1), sattn_cl_axis(own.batch_rows, 1)};
  sattn_status status = sattn_cl_chain_stage(chain, SATTN_STAGE_PERMUTE, error);
  if (status != SATTN_OK) return status;
  if (!result.compacted) {
    status = bind_invert(plan->context, slots->invert, &own, order, workspace, error);
    return status == SATTN_OK ? sattn_cl_chain_launch(chain, slots->invert, 3, global, local, error) : status;
  }
  status = bind_compact(plan->context, slots->count, false, &own, order, lengths->buffer, workspace, error);
  if (status == SATTN_OK) status = sattn_cl_chain_launch(chain, slots->count, 3, global, local, error);
  if (status == SATTN_OK) status = bind_compact(plan->context, slots->write, true, &own, order, lengths->buffer, workspace, error);
  return status == SATTN_OK ? sattn_cl_chain_launch(chain, slots->write, 3, global, local, error) : status;
}
