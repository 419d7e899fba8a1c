#include "sattn_ggml.h"

#include <string.h>

sattn_status sattn_ggml_open(sattn_ggml *state, const char *device, const sattn_attention *attention, enum ggml_type cache,
                             const sattn_sizes *largest, const sattn_permutation_key *key, sattn_error *error) {
  sattn_attention described = *attention;
  sattn_permutation_options options;
  sattn_status status;
  memset(state, 0, sizeof *state);
  described.dtype = state->dtype = cache == GGML_TYPE_F16 ? SATTN_FP16 : SATTN_FP32;
  status = sattn_context_create(device, NULL, &state->context, error);
  if (status == SATTN_OK) {
    status = sattn_plan_create(state->context, &described, largest, SATTN_PASS_FORWARD, &state->plan, error);
  }
  if (status == SATTN_OK && attention->order_length > 0) {
    sattn_permutation_options_init(&options);
    options.length = attention->order_length;
    options.key = *key;
    status = sattn_permutation_create(state->context, &options, &state->permutation, error);
  }
  if (status == SATTN_OK) {
    status = sattn_buffer_create(state->context, sattn_plan_workspace(state->plan, SATTN_PASS_FORWARD), &state->workspace, error);
  }
  if (status != SATTN_OK) sattn_ggml_close(state);
  return status;
}

void sattn_ggml_close(sattn_ggml *state) {
  sattn_buffer_destroy(&state->workspace);
  sattn_permutation_destroy(&state->permutation);
  sattn_plan_destroy(&state->plan);
  sattn_context_destroy(&state->context);
}

/* A ggml tensor where it lies: bytes between tokens, heads and batches become elements. */
static sattn_status place(sattn_ggml *state, const struct ggml_tensor *tensor, int token, int head, sattn_tensor *out, sattn_error *error) {
  const size_t size = ggml_type_size(tensor->type);
  memset(out, 0, sizeof *out);
  out->stride_token = (int64_t)(tensor->nb[token] / size);
  out->stride_head = (int64_t)(tensor->nb[head] / size);
  out->stride_batch = (int64_t)(tensor->nb[3] / size);
  return sattn_buffer_wrap_host(state->context, tensor->data, ggml_nbytes(tensor), &out->buffer, error);
}

static sattn_status attend(sattn_ggml *state, struct ggml_tensor *result, sattn_error *error) {
  const struct ggml_tensor *q = result->src[0], *k = result->src[1], *v = result->src[2];
  sattn_forward_args args;
  sattn_status status;
  sattn_forward_args_init(&args);
  args.sizes.batch = q->ne[3];
  args.sizes.queries = q->ne[1];
  args.sizes.keys = k->ne[1];
  args.permutation = state->permutation;
  args.workspace = state->workspace;
  status = place(state, q, 1, 2, &args.query, error);
  if (status == SATTN_OK) status = place(state, k, 1, 2, &args.key, error);
  if (status == SATTN_OK) status = place(state, v, 1, 2, &args.value, error);
  if (status == SATTN_OK) status = place(state, result, 2, 1, &args.out, error);
  if (status == SATTN_OK) status = sattn_forward(state->plan, &args, (sattn_queue){NULL}, NULL, 0, NULL, error);
  if (status == SATTN_OK) status = sattn_queue_finish(state->context, (sattn_queue){NULL}, error);
  sattn_buffer_destroy(&args.query.buffer);
  sattn_buffer_destroy(&args.key.buffer);
  sattn_buffer_destroy(&args.value.buffer);
  sattn_buffer_destroy(&args.out.buffer);
  return status;
}

/* ggml calls this from each of its threads; the device has threads of its own. */
static void run(struct ggml_tensor *result, int thread, int threads, void *user) {
  sattn_ggml *state = user;
  sattn_error error;
  (void)threads;
  if (thread == 0 && attend(state, result, &error) != SATTN_OK && state->error.status == SATTN_OK) state->error = error;
}

struct ggml_tensor *sattn_ggml_attention(struct ggml_context *graph, sattn_ggml *state, struct ggml_tensor *q, struct ggml_tensor *k,
                                         struct ggml_tensor *v) {
  struct ggml_tensor *arguments[3] = {q, k, v};
  struct ggml_tensor *result;
  if (k->type != q->type) arguments[0] = ggml_cast(graph, q, k->type);
  result = ggml_custom_4d(graph, k->type, q->ne[0], q->ne[2], q->ne[1], q->ne[3], arguments, 3, run, 1, state);
  return k->type == GGML_TYPE_F32 ? result : ggml_cast(graph, result, GGML_TYPE_F32);
}
