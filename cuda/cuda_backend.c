/* The table of the CUDA backend. */
#include "backend.h"
#include "cuda_buffer.h"
#include "cuda_context.h"
#include "cuda_device.h"
#include "cuda_draw.h"
#include "cuda_event.h"
#include "cuda_gate.h"
#include "cuda_plan.h"
#include "cuda_program.h"
#include "cuda_rows.h"

/* A driver without kernels to run on it is no backend. */
static sattn_status probe(sattn_error *error) {
  sattn_status status = sattn_cuda_images_check(error);
  return status == SATTN_OK ? sattn_cuda_probe(error) : status;
}

static uint32_t device_count(void) {
  return sattn_cuda_images_check(NULL) == SATTN_OK ? sattn_cuda_device_count() : 0;
}

const sattn_backend_ops sattn_cuda_backend = {
    .interface_version = SATTN_BACKEND_INTERFACE_VERSION,
    .backend = SATTN_BACKEND_CUDA,
    .probe = probe,
    .device_count = device_count,
    .device_info = sattn_cuda_device_info,
    .context_create = sattn_cuda_context_create,
    .context_destroy = sattn_cuda_context_destroy,
    .buffer_create = sattn_cuda_buffer_create,
    .buffer_wrap_host = sattn_cuda_buffer_wrap_host,
    .buffer_destroy = sattn_cuda_buffer_destroy,
    .buffer_write = sattn_cuda_buffer_write,
    .buffer_read = sattn_cuda_buffer_read,
    .plan_query = sattn_cuda_plan_query,
    .plan_prepare = sattn_cuda_plan_prepare,
    .plan_destroy = sattn_cuda_plan_destroy,
    .forward = sattn_cuda_forward,
    .backward = sattn_cuda_backward,
    .draw_orders = sattn_cuda_draw_orders,
    .rows_prepare = sattn_cuda_rows_prepare,
    .move_rows = sattn_cuda_move_rows,
    .merge = sattn_cuda_merge,
    .gate_prepare = sattn_cuda_gate_prepare,
    .gate_destroy = sattn_cuda_gate_destroy,
    .gate_run = sattn_cuda_gate_run,
    .event_wait = sattn_cuda_event_wait,
    .event_release = sattn_cuda_event_release,
    .queue_finish = sattn_cuda_queue_finish,
};
