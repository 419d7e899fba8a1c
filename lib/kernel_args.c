#include "kernel_args.h"

#include <string.h>

#include "dispatch.h"

/* One work-item compacts a chunk and adds up the counts of all chunks before it: at most this many. */
#define MAX_CHUNKS 1024
#define MIN_CHUNK  256

sattn_kernel_tensor sattn_kernel_place(const sattn_tensor *tensor) {
  sattn_kernel_tensor place = {tensor->offset, tensor->stride_batch, tensor->stride_token, tensor->stride_head};
  return place;
}

/* ---- description of a call ---- */

static void describe_problem(const sattn_problem *problem, sattn_general_params *params) {
  params->heads = problem->heads;
  params->kv_heads = problem->kv_heads;
  params->group = problem->group;
  params->mode = (int32_t)problem->mode;
  params->causal = problem->causal;
  params->left_sa = problem->left_sa;
  params->right_sa = problem->right_sa;
  params->left_swa = problem->left_swa;
  params->right_swa = problem->right_swa;
  params->wrap = problem->wrap;
  params->sink_tokens = problem->sink_tokens;
  params->block = problem->block;
  params->topk = problem->topk;
  params->gate_sa_element = problem->gate_sa_shape == SATTN_GATE_PER_ELEMENT;
  params->gate_swa_element = problem->gate_swa_shape == SATTN_GATE_PER_ELEMENT;
  params->gate_dtype = (int32_t)problem->gate_dtype;
  params->scale = problem->scale;
  params->softcap = problem->softcap;
}

void sattn_general_describe(const sattn_problem *problem, const sattn_forward_args *args, sattn_general_params *out_params) {
  sattn_general_params params;
  memset(&params, 0, sizeof params);
  describe_problem(problem, &params);
  params.batch = args->sizes.batch;
  params.queries = (int32_t)args->sizes.queries;
  params.keys = (int32_t)args->sizes.keys;
  params.query = sattn_kernel_place(&args->query);
  params.key = sattn_kernel_place(&args->key);
  params.value = sattn_kernel_place(&args->value);
  params.out = sattn_kernel_place(&args->out);
  params.gate_sa = sattn_kernel_place(&args->gate_sa);
  params.gate_swa = sattn_kernel_place(&args->gate_swa);
  params.lse = args->lse.offset;
  params.lse_sa = args->lse_sa.offset;
  params.lse_swa = args->lse_swa.offset;
  params.lengths = args->lengths.offset;
  params.query_start = args->query_start.offset;
  params.sink_logits = args->sink_logits.offset;
  if (args->saved) {
    params.y_sa = args->saved->y_sa.offset;
    params.y_swa = args->saved->y_swa.offset;
  }
  *out_params = params;
}

/* ---- rows and merge ---- */

static bool shared_per_head(sattn_sharing sharing) {
  return sharing == SATTN_PER_HEAD || sharing == SATTN_PER_BATCH_AND_HEAD;
}

static bool shared_per_batch(sattn_sharing sharing) {
  return sharing == SATTN_PER_BATCH || sharing == SATTN_PER_BATCH_AND_HEAD;
}

void sattn_rows_describe(const sattn_rows_args *args, int inverse, sattn_rows_params *out_params) {
  const sattn_permutation *permutation = args->permutation;
  sattn_rows_params params;
  memset(&params, 0, sizeof params);
  params.source = sattn_kernel_place(&args->source);
  params.target = sattn_kernel_place(&args->target);
  params.order.stride_head = shared_per_head(permutation->sharing) ? permutation->length : 0;
  params.order.stride_batch = shared_per_batch(permutation->sharing) ? permutation->length * permutation->kv_heads : 0;
  params.batch = args->batch;
  params.tokens = (int32_t)args->tokens;
  params.heads = (int32_t)args->heads;
  params.width = (int32_t)args->head_dim;
  params.inverse = inverse;
  *out_params = params;
}

void sattn_merge_describe(const sattn_merge_args *args, sattn_merge_params *out_params) {
  sattn_merge_params params;
  memset(&params, 0, sizeof params);
  params.out_a = sattn_kernel_place(&args->out_a);
  params.out_b = sattn_kernel_place(&args->out_b);
  params.out = sattn_kernel_place(&args->out);
  params.lse_a = args->lse_a.offset;
  params.lse_b = args->lse_b.offset;
  params.lse = args->lse.offset;
  params.batch = args->batch;
  params.queries = (int32_t)args->queries;
  params.heads = (int32_t)args->heads;
  params.width = (int32_t)args->head_dim;
  *out_params = params;
}

/* ---- slots ---- */

/* Lengths take tokens out of the order, unless slots are counted in a longer order that has gaps anyway. */
static bool compacts(const sattn_problem *problem) {
  return problem->has_lengths && problem->order_length == 0;
}

static int64_t head_rows(const sattn_problem *problem) {
  return shared_per_head(problem->sharing) ? problem->kv_heads : 1;
}

static int64_t batch_rows(const sattn_problem *problem, const sattn_sizes *sizes) {
  return compacts(problem) || shared_per_batch(problem->sharing) ? sizes->batch : 1;
}

static int64_t chunk_of(int64_t keys) {
  int64_t chunk = (keys + MAX_CHUNKS - 1) / MAX_CHUNKS;
  return chunk < MIN_CHUNK ? MIN_CHUNK : chunk;
}

sattn_slots_layout sattn_slots_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_slots_layout layout = {0, 0, 0};
  uint64_t rows = (uint64_t)(batch_rows(problem, sizes) * head_rows(problem));
  layout.slots = sattn_carve(end, rows, (uint64_t)sizes->keys, sizeof(uint32_t));
  if (!compacts(problem)) return layout;
  layout.compact = sattn_carve(end, rows, (uint64_t)sizes->keys, sizeof(uint32_t));
  /* The number of chunks does not grow evenly with keys; this bound does, so a plan's maxima cover every smaller call. */
  int64_t most_chunks = (sizes->keys + MIN_CHUNK - 1) / MIN_CHUNK;
  if (most_chunks > MAX_CHUNKS) most_chunks = MAX_CHUNKS;
  layout.counts = sattn_carve(end, rows, (uint64_t)most_chunks, sizeof(uint32_t));
  return layout;
}

void sattn_slots_describe(const sattn_problem *problem, const sattn_sizes *sizes, const sattn_permutation *permutation,
                          const sattn_array *lengths, const sattn_slots_layout *layout, sattn_slots_params *out_params,
                          sattn_slots_result *out_result) {
  sattn_slots_params params;
  memset(&params, 0, sizeof params);
  params.batch_rows = batch_rows(problem, sizes);
  params.head_rows = head_rows(problem);
  params.order_length = (int32_t)permutation->length;
  params.keys = (int32_t)sizes->keys;
  params.order.stride_head = shared_per_head(problem->sharing) ? permutation->length : 0;
  params.order.stride_batch = shared_per_batch(problem->sharing) ? params.head_rows * permutation->length : 0;
  params.chunk = (int32_t)chunk_of(sizes->keys);
  params.chunks = (int32_t)((sizes->keys + params.chunk - 1) / params.chunk);
  params.slots = (int64_t)(layout->slots / sizeof(uint32_t));
  params.compact = (int64_t)(layout->compact / sizeof(uint32_t));
  params.counts = (int64_t)(layout->counts / sizeof(uint32_t));
  params.lengths = lengths->offset;

  sattn_slots_result result;
  memset(&result, 0, sizeof result);
  result.compacted = compacts(problem);
  result.order = params.order;
  result.order_length = params.order_length;
  result.slots.offset = params.slots;
  result.slots.stride_head = shared_per_head(problem->sharing) ? sizes->keys : 0;
  result.slots.stride_batch = params.batch_rows > 1 ? params.head_rows * sizes->keys : 0;
  if (result.compacted) {
    result.order = result.slots;
    result.order.offset = params.compact;
    result.order_length = 0;
  }
  *out_params = params;
  *out_result = result;
}

/* ---- selection ---- */

sattn_select_layout sattn_select_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_select_layout layout;
  layout.blocks = (sizes->keys + problem->block - 1) / problem->block;
  layout.places = problem->topk < layout.blocks ? problem->topk : layout.blocks;
  uint64_t rows = (uint64_t)(sizes->batch * problem->heads * sizes->queries);
  int64_t padded = (layout.blocks + 15) / 16 * 16; /* OpenCL keeps sixteen means side by side */
  layout.means =
      sattn_carve(end, (uint64_t)sizes->batch * (uint64_t)problem->kv_heads, (uint64_t)(padded * problem->head_dim), sizeof(float));
  layout.scores = sattn_carve(end, rows, (uint64_t)layout.places, sizeof(float));
  layout.selected = sattn_carve(end, rows, (uint64_t)layout.places, sizeof(uint32_t));
  return layout;
}

void sattn_select_describe(const sattn_problem *problem, const sattn_forward_args *args, const sattn_select_layout *layout,
                           sattn_general_params *params) {
  params->blocks = (int32_t)layout->blocks;
  params->means = (int64_t)(layout->means / sizeof(float));
  params->scores = (int64_t)(layout->scores / sizeof(float));
  params->scores_stride = layout->places;
  params->selected = args->saved ? args->saved->selected.offset : (int64_t)(layout->selected / sizeof(uint32_t));
  params->selected_stride = args->saved ? problem->topk : layout->places;
}

/* ---- the general kernels ---- */

bool sattn_supports_all(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima, char *reason) {
  (void)context;
  (void)problem;
  (void)maxima;
  (void)reason;
  return true;
}

sattn_general_layout sattn_general_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_general_layout layout;
  memset(&layout, 0, sizeof layout);
  if (problem->uses_sa) layout.slots = sattn_slots_carve(problem, sizes, end);
  if (problem->mode == SATTN_MOBA) layout.select = sattn_select_carve(problem, sizes, end);
  return layout;
}

uint64_t sattn_general_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  sattn_general_carve(problem, maxima, &end);
  return end;
}

sattn_grad_layout sattn_grad_carve(const sattn_problem *problem, const sattn_sizes *sizes, uint64_t *end) {
  sattn_grad_layout layout;
  memset(&layout, 0, sizeof layout);
  uint64_t branches = problem->mode == SATTN_GATED ? 2 : 1;
  if (problem->uses_sa) layout.slots = sattn_slots_carve(problem, sizes, end);
  layout.deltas = sattn_carve(end, (uint64_t)(sizes->batch * problem->heads * sizes->queries), branches, sizeof(float));
  return layout;
}

uint64_t sattn_grad_workspace(const sattn_context *context, const sattn_problem *problem, const sattn_sizes *maxima) {
  (void)context;
  uint64_t end = 0;
  sattn_grad_carve(problem, maxima, &end);
  return end;
}

/* The call that is differentiated, as forward's own code describes it. */
static void describe_differentiated(const sattn_problem *problem, const sattn_backward_args *args, sattn_general_params *params) {
  sattn_saved saved = *args->saved;
  sattn_forward_args forward;
  sattn_forward_args_init(&forward);
  forward.sizes = saved.sizes;
  forward.query = args->query;
  forward.key = args->key;
  forward.value = args->value;
  forward.gate_sa = args->gate_sa;
  forward.gate_swa = args->gate_swa;
  forward.lengths = args->lengths;
  forward.query_start = args->query_start;
  forward.sink_logits = args->sink_logits;
  forward.lse_sa = problem->mode == SATTN_GATED ? saved.lse_sa : saved.lse;
  forward.lse_swa = saved.lse_swa;
  forward.saved = &saved;
  sattn_general_describe(problem, &forward, params);
  params->selected = saved.selected.offset;
  params->selected_stride = problem->topk;
}

void sattn_grad_describe(const sattn_problem *problem, const sattn_backward_args *args, const sattn_grad_layout *layout,
                         sattn_general_grad_params *out_params) {
  sattn_general_grad_params params;
  memset(&params, 0, sizeof params);
  describe_differentiated(problem, args, &params.forward);
  params.grad_out = sattn_kernel_place(&args->grad_out);
  params.grad_query = sattn_kernel_place(&args->grad_query);
  params.grad_key = sattn_kernel_place(&args->grad_key);
  params.grad_value = sattn_kernel_place(&args->grad_value);
  params.grad_gate_sa = sattn_kernel_place(&args->grad_gate_sa);
  params.grad_gate_swa = sattn_kernel_place(&args->grad_gate_swa);
  params.grad_lse_sa = problem->mode == SATTN_GATED ? args->grad_lse_sa.offset : args->grad_lse.offset;
  params.grad_lse_swa = args->grad_lse_swa.offset;
  params.grad_sink_logits = args->grad_sink_logits.offset;
  params.deltas = (int64_t)(layout->deltas / sizeof(float));
  *out_params = params;
}
