/* The reference backend: one device, the host itself. Buffers are host memory, calls run to their end before they return, and every event
 * is {NULL}: complete already. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "reference_attend.h"
#include "reference_gate.h"
#include "reference_merge.h"
#include "reference_rows.h"

/* ---- device and context ---- */

static sattn_status probe(sattn_error *error) {
  (void)error;
  return SATTN_OK;
}

static uint32_t device_count(void) {
  return 1;
}

static uint64_t host_memory(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static sattn_status device_info(uint32_t index, sattn_device_info *out_info, sattn_error *error) {
  if (index != 0) {
    return sattn_fail(error, SATTN_UNAVAILABLE, "index", "index is %" PRIu32 ", the reference backend has 1 device", index);
  }
  out_info->backend = SATTN_BACKEND_REFERENCE;
  out_info->index = 0;
  snprintf(out_info->id, sizeof out_info->id, "reference:0");
  snprintf(out_info->name, sizeof out_info->name, "host processor, one thread");
  snprintf(out_info->driver, sizeof out_info->driver, "plain C in double precision");
  out_info->type = SATTN_DEVICE_CPU;
  out_info->compute_units = 1;
  out_info->memory_bytes = host_memory();
  out_info->max_allocation_bytes = out_info->memory_bytes;
  out_info->local_memory_bytes = 0;
  out_info->max_work_group = 1;
  out_info->vector_width = 1;
  out_info->compute_capability = 0;
  out_info->has_fp16 = 0;
  out_info->has_fp64 = 1;
  out_info->has_subgroups = 0;
  out_info->shares_host_memory = 1;
  return SATTN_OK;
}

static sattn_status context_create(sattn_context *context, uint32_t index, const void *imported, sattn_error *error) {
  (void)imported;
  sattn_device_info_init(&context->device);
  return device_info(index, &context->device, error);
}

static void context_destroy(sattn_context *context) {
  (void)context;
}

/* ---- buffers ---- */

static sattn_status buffer_create(sattn_buffer *buffer, sattn_error *error) {
  /* The system promises more memory than there is and kills processes later, so the size is checked here. */
  uint64_t allowed = buffer->context->device.max_allocation_bytes;
  void *memory = NULL;
  if ((allowed > 0 && buffer->bytes > allowed) || buffer->bytes > SIZE_MAX ||
      posix_memalign(&memory, 64, buffer->bytes > 0 ? (size_t)buffer->bytes : 1) != 0) {
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, "bytes", "bytes is %" PRIu64 ", the host has %" PRIu64, buffer->bytes, allowed);
  }
  buffer->impl = memory;
  return SATTN_OK;
}

static sattn_status buffer_wrap_host(sattn_buffer *buffer, void *memory, sattn_error *error) {
  (void)error;
  buffer->impl = memory;
  return SATTN_OK;
}

static void buffer_destroy(sattn_buffer *buffer) {
  if (buffer->owned) free(buffer->impl);
  buffer->impl = NULL;
}

static sattn_status buffer_write(sattn_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes, sattn_error *error) {
  (void)error;
  if (bytes > 0) memcpy((unsigned char *)buffer->impl + offset, source, (size_t)bytes);
  return SATTN_OK;
}

static sattn_status buffer_read(sattn_buffer *buffer, uint64_t offset, void *target, uint64_t bytes, sattn_error *error) {
  (void)error;
  if (bytes > 0) memcpy(target, (const unsigned char *)buffer->impl + offset, (size_t)bytes);
  return SATTN_OK;
}

/* ---- plans ---- */

static sattn_status plan_query(sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, uint32_t passes,
                               sattn_plan_info *info, sattn_error *error) {
  sattn_plan_info answer = {0};
  uint64_t allowed = context->device.max_allocation_bytes;
  sattn_status status = SATTN_OK;
  if (passes & SATTN_PASS_FORWARD) {
    answer.forward_path = SATTN_PATH_GENERAL;
    snprintf(answer.forward_kernel, sizeof answer.forward_kernel, "reference_attend");
    status = sattn_reference_workspace(problem, maxima, SATTN_PASS_FORWARD, allowed, &answer.forward_workspace, error);
    if (status != SATTN_OK) return status;
  }
  if (passes & SATTN_PASS_BACKWARD) {
    answer.backward_path = SATTN_PATH_GENERAL;
    snprintf(answer.backward_kernel, sizeof answer.backward_kernel, "reference_attend_grad");
    status = sattn_reference_workspace(problem, maxima, SATTN_PASS_BACKWARD, allowed, &answer.backward_workspace, error);
    if (status != SATTN_OK) return status;
  }
  snprintf(answer.reason, sizeof answer.reason, "the reference backend has one plain kernel for each pass");
  answer.struct_size = info->struct_size;
  *info = answer;
  return SATTN_OK;
}

static sattn_status plan_prepare(sattn_plan *plan, sattn_error *error) {
  (void)error;
  plan->impl = NULL;
  return SATTN_OK;
}

static void plan_destroy(sattn_plan *plan) {
  (void)plan;
}

static sattn_status rows_prepare(sattn_context *context, sattn_error *error) {
  (void)context;
  (void)error;
  return SATTN_OK;
}

/* ---- events ---- */

static sattn_status event_wait(sattn_context *context, sattn_event event, sattn_error *error) {
  (void)context;
  (void)event;
  (void)error;
  return SATTN_OK;
}

static void event_release(sattn_context *context, sattn_event *event) {
  (void)context;
  event->native = NULL;
}

static sattn_status queue_finish(sattn_context *context, sattn_queue queue, sattn_error *error) {
  (void)context;
  (void)queue;
  (void)error;
  return SATTN_OK;
}

const sattn_backend_ops sattn_reference_backend = {
    .interface_version = SATTN_BACKEND_INTERFACE_VERSION,
    .backend = SATTN_BACKEND_REFERENCE,
    .probe = probe,
    .device_count = device_count,
    .device_info = device_info,
    .context_create = context_create,
    .context_destroy = context_destroy,
    .buffer_create = buffer_create,
    .buffer_wrap_host = buffer_wrap_host,
    .buffer_destroy = buffer_destroy,
    .buffer_write = buffer_write,
    .buffer_read = buffer_read,
    .plan_query = plan_query,
    .plan_prepare = plan_prepare,
    .plan_destroy = plan_destroy,
    .forward = sattn_reference_forward,
    .backward = sattn_reference_backward,
    .rows_prepare = rows_prepare,
    .move_rows = sattn_reference_move_rows,
    .merge = sattn_reference_merge,
    .gate_prepare = sattn_reference_gate_prepare,
    .gate_destroy = sattn_reference_gate_destroy,
    .gate_run = sattn_reference_gate_run,
    .event_wait = event_wait,
    .event_release = event_release,
    .queue_finish = queue_finish,
};
