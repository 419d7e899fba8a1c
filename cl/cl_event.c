#include "cl_event.h"

#include <string.h>

/* Forgets what the next command waits for. */
static void drop_waits(sattn_cl_chain *chain) {
  if (chain->owns_first) chain->cl->api->clReleaseEvent(chain->waits[0]);
  chain->owns_first = false;
  chain->wait_count = 0;
}

/* The event of a command just enqueued becomes what the next one waits for. */
static void advance(sattn_cl_chain *chain, cl_event done) {
  drop_waits(chain);
  chain->launched = true;
  if (!done) return;
  chain->waits[0] = done;
  chain->wait_count = 1;
  chain->owns_first = true;
}

static const cl_event *wait_list(const sattn_cl_chain *chain) {
  return chain->wait_count ? chain->waits : NULL;
}

/* Joins the collected events in one marker. */
static sattn_status join_waits(sattn_cl_chain *chain, sattn_error *error) {
  cl_event joined = NULL;
  cl_int code = chain->cl->api->clEnqueueMarkerWithWaitList(chain->queue, chain->wait_count, wait_list(chain), &joined);
  sattn_status status = sattn_cl_check(code, "clEnqueueMarkerWithWaitList", error);
  if (status != SATTN_OK) return status;
  advance(chain, joined);
  return SATTN_OK;
}

static sattn_status check_queue(sattn_cl_chain *chain, sattn_error *error) {
  const sattn_cl_api *api = chain->cl->api;
  cl_context owner = NULL;
  cl_device_id device = NULL;
  cl_command_queue_properties properties = 0;
  cl_int code = api->clGetCommandQueueInfo(chain->queue, CL_QUEUE_CONTEXT, sizeof owner, (void *)&owner, NULL);
  if (code == CL_SUCCESS) code = api->clGetCommandQueueInfo(chain->queue, CL_QUEUE_DEVICE, sizeof device, (void *)&device, NULL);
  if (code == CL_SUCCESS) code = api->clGetCommandQueueInfo(chain->queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
  if (code != CL_SUCCESS) return sattn_cl_check(code, "clGetCommandQueueInfo", error);
  if (owner != chain->cl->handle) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "queue", "belongs to another cl_context; must be of the context's own");
  }
  if (device != chain->cl->device) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "queue", "belongs to another device; must be of %s", chain->context->device.id);
  }
  chain->in_order = !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  return SATTN_OK;
}

sattn_status sattn_cl_chain_wait(sattn_cl_chain *chain, cl_event event, sattn_error *error) {
  if (!event) return SATTN_OK; /* already complete */
  sattn_status status = chain->wait_count == SATTN_CL_WAIT_CHUNK ? join_waits(chain, error) : SATTN_OK;
  if (status == SATTN_OK) chain->waits[chain->wait_count++] = event;
  return status;
}

sattn_status sattn_cl_chain_begin(sattn_cl_chain *chain, sattn_context *context, const sattn_submission *submission, sattn_profile *profile,
                                  sattn_error *error) {
  memset(chain, 0, sizeof *chain);
  chain->context = context;
  chain->cl = sattn_cl_of(context);
  chain->queue = submission->queue.native ? (cl_command_queue)submission->queue.native : chain->cl->queue;
  chain->out_event = submission->out_event;
  chain->in_order = true;
  sattn_status status = sattn_cl_context_usable(context, error);
  if (status == SATTN_OK && submission->queue.native) status = check_queue(chain, error);
  for (size_t i = 0; status == SATTN_OK && i < submission->wait_count; ++i) {
    status = sattn_cl_chain_wait(chain, (cl_event)submission->wait_list[i].native, error);
  }
  if (status == SATTN_OK) sattn_stopwatch_start(&chain->watch, profile);
  return status;
}

sattn_status sattn_cl_chain_stage(sattn_cl_chain *chain, sattn_stage stage, sattn_error *error) {
  if (!chain->watch.profile) return SATTN_OK;
  cl_int code = chain->cl->api->clFinish(chain->queue);
  if (code != CL_SUCCESS) return sattn_cl_context_fail(chain->context, code, "clFinish", error);
  sattn_stopwatch_change(&chain->watch, stage);
  return SATTN_OK;
}

sattn_status sattn_cl_chain_launch(sattn_cl_chain *chain, cl_kernel kernel, cl_uint dimensions, const size_t *global, const size_t *local,
                                   sattn_error *error) {
  size_t rounded[3] = {1, 1, 1};
  for (cl_uint i = 0; i < dimensions; ++i) rounded[i] = (global[i] + local[i] - 1) / local[i] * local[i];
  bool wants_event = !chain->in_order || chain->out_event;
  cl_event done = NULL;
  cl_int code = chain->cl->api->clEnqueueNDRangeKernel(chain->queue, kernel, dimensions, NULL, rounded, local, chain->wait_count,
                                                       wait_list(chain), wants_event ? &done : NULL);
  sattn_status status = sattn_cl_check(code, "clEnqueueNDRangeKernel", error);
  if (status == SATTN_OK) advance(chain, done);
  return status;
}

sattn_status sattn_cl_chain_barrier(sattn_cl_chain *chain, sattn_error *error) {
  bool wants_event = !chain->in_order || chain->out_event;
  cl_event done = NULL;
  cl_int code = chain->cl->api->clEnqueueBarrierWithWaitList(chain->queue, chain->wait_count, wait_list(chain), wants_event ? &done : NULL);
  sattn_status status = sattn_cl_check(code, "clEnqueueBarrierWithWaitList", error);
  if (status == SATTN_OK) advance(chain, done);
  return status;
}

void sattn_cl_chain_adopt(sattn_cl_chain *chain, cl_event event) {
  advance(chain, event);
}

sattn_status sattn_cl_chain_end(sattn_cl_chain *chain, sattn_status status, sattn_error *error) {
  if (status == SATTN_OK) status = sattn_cl_chain_stage(chain, SATTN_STAGE_NONE, error);
  /* Nothing was enqueued, or by somebody who gave no event: the end is then a marker. */
  if (status == SATTN_OK && chain->out_event && !chain->owns_first) status = join_waits(chain, error);
  if (chain->launched) {
    cl_int code = chain->cl->api->clFlush(chain->queue);
    if (status == SATTN_OK) status = sattn_cl_check(code, "clFlush", error);
  }
  if (status == SATTN_OK && chain->out_event) {
    chain->out_event->native = (void *)chain->waits[0];
    chain->owns_first = false;
  }
  drop_waits(chain);
  return status;
}

sattn_status sattn_cl_event_wait(sattn_context *context, sattn_event event, sattn_error *error) {
  if (!event.native) return SATTN_OK;
  const sattn_cl_api *api = sattn_cl_of(context)->api;
  cl_event handle = (cl_event)event.native;
  cl_int code = api->clWaitForEvents(1, &handle);
  if (code != CL_SUCCESS && code != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) return sattn_cl_check(code, "clWaitForEvents", error);
  cl_int state = CL_COMPLETE;
  cl_int query = api->clGetEventInfo(handle, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  if (query != CL_SUCCESS) return sattn_cl_check(query, "clGetEventInfo", error);
  if (state < 0) return sattn_cl_context_fail(context, state, "a command", error);
  return code == CL_SUCCESS ? SATTN_OK : sattn_cl_context_fail(context, code, "clWaitForEvents", error);
}

void sattn_cl_event_release(sattn_context *context, sattn_event *event) {
  if (event->native) sattn_cl_of(context)->api->clReleaseEvent((cl_event)event->native);
  event->native = NULL;
}
