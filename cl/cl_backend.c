/* The table of the OpenCL backend. */
#include "backend.h"
#include "cl_buffer.h"
#include "cl_context.h"
#include "cl_device.h"
#include "cl_draw.h"
#include "cl_event.h"
#include "cl_gate.h"
#include "cl_plan.h"
#include "cl_rows.h"

const sattn_backend_ops sattn_opencl_backend = {
    .interface_version = SATTN_BACKEND_INTERFACE_VERSION,
    .backend = SATTN_BACKEND_OPENCL,
    .probe = sattn_cl_probe,
    .device_count = sattn_cl_device_count,
    .device_info = sattn_cl_device_info,
    .context_create = sattn_cl_context_create,
    .context_destroy = sattn_cl_context_destroy,
    .buffer_create = sattn_cl_buffer_create,
    .buffer_wrap_host = sattn_cl_buffer_wrap_host,
    .buffer_destroy = sattn_cl_buffer_destroy,
    .buffer_write = sattn_cl_buffer_write,
    .buffer_read = sattn_cl_buffer_read,
    .plan_query = sattn_cl_plan_query,
    .plan_prepare = sattn_cl_plan_prepare,
    .plan_destroy = sattn_cl_plan_destroy,
    .forward = sattn_cl_forward,
    .backward = sattn_cl_backward,
    .draw_orders = sattn_cl_draw_orders,
    .rows_prepare = sattn_cl_rows_prepare,
    .move_rows = sattn_cl_move_rows,
    .merge = sattn_cl_merge,
    .gate_prepare = sattn_cl_gate_prepare,
    .gate_destroy = sattn_cl_gate_destroy,
    .gate_run = sattn_cl_gate_run,
    .event_wait = sattn_cl_event_wait,
    .event_release = sattn_cl_event_release,
    .queue_finish = sattn_cl_queue_finish,
};
