#include "cuda_event.h"

#include <string.h>

sattn_status sattn_cuda_chain_begin(sattn_cuda_chain *chain, sattn_context *context, const sattn_submission *submission,
                                    sattn_profile *profile, sattn_error *error) {
  memset(chain, 0, sizeof *chain);
  chain->context = context;
  chain->cuda = sattn_cuda_of(context);
  chain->stream = submission->queue.native ? submission->queue.native : chain->cuda->stream;
  chain->out_event = submission->out_event;
  sattn_status status = sattn_cuda_context_usable(context, error);
  if (status == SATTN_OK) status = sattn_cuda_enter(context, error);
  if (status != SATTN_OK) return status;
  chain->entered = true;
  for (size_t i = 0; status == SATTN_OK && i < submission->wait_count; ++i) {
    if (!submission->wait_list[i].native) continue; /* already complete */
    sattn_cu_result code = chain->cuda->api->stream_wait_event(chain->stream, submission->wait_list[i].native, 0);
    status = sattn_cuda_check(chain->cuda->api, code, "cuStreamWaitEvent", error);
  }
  if (status == SATTN_OK) sattn_stopwatch_start(&chain->watch, profile);
  return status;
}

sattn_status sattn_cuda_chain_stage(sattn_cuda_chain *chain, sattn_stage stage, sattn_error *error) {
  if (!chain->watch.profile) return SATTN_OK;
  sattn_cu_result code = chain->cuda->api->stream_synchronize(chain->stream);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_context_fail(chain->context, code, "cuStreamSynchronize", error);
  sattn_stopwatch_change(&chain->watch, stage);
  return SATTN_OK;
}

sattn_status sattn_cuda_chain_launch(sattn_cuda_chain *chain, sattn_cu_function kernel, const sattn_cuda_grid *grid, void *params,
                                     sattn_error *error) {
  if (grid->blocks == 0) return SATTN_OK;
  if (grid->blocks > SATTN_CUDA_MOST_BLOCKS) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "sizes", "need %llu blocks in one launch; a grid has at most %u",
                      (unsigned long long)grid->blocks, SATTN_CUDA_MOST_BLOCKS);
  }
  void *arguments[] = {params};
  sattn_cu_result code = chain->cuda->api->launch_kernel(kernel, (unsigned)grid->blocks, 1, 1, grid->threads, 1, 1, grid->shared_bytes,
                                                         chain->stream, arguments, NULL);
  return sattn_cuda_check(chain->cuda->api, code, "cuLaunchKernel", error);
}

static sattn_status record_end(sattn_cuda_chain *chain, sattn_error *error) {
  const sattn_cuda_api *api = chain->cuda->api;
  sattn_cu_event event = NULL;
  sattn_cu_result code = api->event_create(&event, SATTN_CU_EVENT_DISABLE_TIMING);
  if (code != SATTN_CU_SUCCESS) return sattn_cuda_check(api, code, "cuEventCreate", error);
  code = api->event_record(event, chain->stream);
  if (code != SATTN_CU_SUCCESS) {
    api->event_destroy(event);
    return sattn_cuda_check(api, code, "cuEventRecord", error);
  }
  chain->out_event->native = event;
  return SATTN_OK;
}

sattn_status sattn_cuda_chain_end(sattn_cuda_chain *chain, sattn_status status, sattn_error *error) {
  if (!chain->entered) return status;
  if (status == SATTN_OK) status = sattn_cuda_chain_stage(chain, SATTN_STAGE_NONE, error);
  if (status == SATTN_OK && chain->out_event) status = record_end(chain, error);
  chain->entered = false;
  return sattn_cuda_leave(chain->context, status, error);
}

sattn_status sattn_cuda_event_wait(sattn_context *context, sattn_event event, sattn_error *error) {
  if (!event.native) return SATTN_OK;
  sattn_status status = sattn_cuda_enter(context, error);
  if (status != SATTN_OK) return status;
  sattn_cu_result code = sattn_cuda_of(context)->api->event_synchronize(event.native);
  if (code != SATTN_CU_SUCCESS) status = sattn_cuda_context_fail(context, code, "cuEventSynchronize", error);
  return sattn_cuda_leave(context, status, error);
}

void sattn_cuda_event_release(sattn_context *context, sattn_event *event) {
  if (event->native && sattn_cuda_enter(context, NULL) == SATTN_OK) {
    sattn_cuda_of(context)->api->event_destroy(event->native);
    sattn_cuda_leave(context, SATTN_OK, NULL);
  }
  event->native = NULL;
}
