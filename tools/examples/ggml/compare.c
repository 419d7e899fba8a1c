/* Stochastic and full attention of this library beside ggml's own ggml_flash_attn_ext, in one graph, over one key/value cache: a prompt
 * first, then token by token.
 *
 *     full         against ggml_flash_attn_ext with a causal mask
 *     stochastic   against ggml_flash_attn_ext with a mask that shows the same keys
 *
 * The cache is laid out as llama.cpp lays out its own: for K and for V one row per token, with all key/value heads side by side; the graph
 * writes the new rows into it, and attention reads a permuted view.
 *
 *     ./compare [DEVICE]        a device that shares the host's memory (default: opencl)
 */
#include "sattn_ggml.h"

#include <ggml-cpu.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEAD_DIM = 64, HEADS = 4, KV_HEADS = 2, ROW = KV_HEADS * HEAD_DIM, CONTEXT = 256, PROMPT = 96, STEPS = 4, WINDOW = 24 };
static const sattn_permutation_key permutation_key = {42, 3, 0, 0};

static void check(sattn_status status, const sattn_error *error) {
  if (status != SATTN_OK) fprintf(stderr, "%s\n", error->message), exit(1);
}

static void describe(sattn_attention *attention, sattn_mode mode) {
  sattn_attention_init(attention);
  attention->mode = mode;
  attention->heads = HEADS;
  attention->kv_heads = KV_HEADS;
  attention->head_dim = HEAD_DIM;
  if (mode == SATTN_STOCHASTIC) {
    attention->window_sa = sattn_window_width(WINDOW);
    attention->order_length = CONTEXT;
  }
}

static struct ggml_tensor *fresh(struct ggml_context *graph, int tokens, int heads, int salt) {
  struct ggml_tensor *tensor = ggml_new_tensor_3d(graph, GGML_TYPE_F32, HEAD_DIM, heads, tokens);
  for (int64_t i = 0; i < ggml_nelements(tensor); i++) ((float *)tensor->data)[i] = sinf(1.37f * (float)i + (float)salt);
  return tensor;
}

/* Queries at positions first, first + 1, ... of `keys` keys: 0 where they see a key, -infinity elsewhere. slot is NULL for full attention.
 */
static struct ggml_tensor *mask(struct ggml_context *graph, int first, int queries, int keys, const uint32_t *slot) {
  struct ggml_tensor *tensor = ggml_new_tensor_2d(graph, GGML_TYPE_F16, keys, queries);
  for (int i = 0; i < queries; i++) {
    for (int j = 0; j < keys; j++) {
      int position = first + i;
      int seen = j <= position && (!slot || llabs((long long)slot[position] - (long long)slot[j]) < WINDOW);
      ((ggml_fp16_t *)tensor->data)[i * keys + j] = ggml_fp32_to_fp16(seen ? 0.0f : -INFINITY);
    }
  }
  return tensor;
}

/* Writes new rows into the cache and returns the view of all `keys` rows that attention takes. */
static struct ggml_tensor *store(struct ggml_context *graph, struct ggml_cgraph *order, struct ggml_tensor *cache, struct ggml_tensor *rows,
                                 int first) {
  const int tokens = (int)rows->ne[2], keys = first + tokens;
  const size_t row = ggml_row_size(cache->type, ROW);
  struct ggml_tensor *place = ggml_view_2d(graph, cache, ROW, tokens, row, (size_t)first * row);
  ggml_build_forward_expand(order, ggml_cpy(graph, ggml_reshape_2d(graph, rows, ROW, tokens), place));
  struct ggml_tensor *all = ggml_view_3d(graph, cache, HEAD_DIM, KV_HEADS, keys, ggml_row_size(cache->type, HEAD_DIM), row, 0);
  return ggml_permute(graph, all, 0, 2, 1, 3);
}

static float apart(const struct ggml_tensor *a, const struct ggml_tensor *b) {
  float largest = 0;
  for (int64_t i = 0; i < ggml_nelements(a); i++) {
    float difference = fabsf(((const float *)a->data)[i] - ((const float *)b->data)[i]);
    if (!(difference <= largest)) largest = difference; /* NaN too */
  }
  return largest;
}

/* One graph: `tokens` new tokens at position `first`. Returns the largest difference. */
static float step(sattn_ggml *state, struct ggml_tensor *cache[2], const uint32_t *slot, int first, int tokens) {
  struct ggml_context *graph = ggml_init((struct ggml_init_params){64 << 20, NULL, false});
  struct ggml_cgraph *order = ggml_new_graph(graph);
  struct ggml_tensor *q = ggml_permute(graph, fresh(graph, tokens, HEADS, first), 0, 2, 1, 3);
  struct ggml_tensor *k = store(graph, order, cache[0], fresh(graph, tokens, KV_HEADS, first + 1), first);
  struct ggml_tensor *v = store(graph, order, cache[1], fresh(graph, tokens, KV_HEADS, first + 2), first);
  struct ggml_tensor *ours = sattn_ggml_attention(graph, state, q, k, v);
  struct ggml_tensor *theirs =
      ggml_flash_attn_ext(graph, q, k, v, mask(graph, first, tokens, first + tokens, slot), 1.0f / sqrtf(HEAD_DIM), 0, 0);
  ggml_build_forward_expand(order, ours);
  ggml_build_forward_expand(order, theirs);
  if (ggml_graph_compute_with_ctx(graph, order, 2) != GGML_STATUS_SUCCESS) fprintf(stderr, "ggml failed\n"), exit(1);
  check(state->error.status, &state->error);
  float difference = apart(ours, theirs);
  ggml_free(graph);
  return difference;
}

static int compare(const char *device, sattn_mode mode, enum ggml_type type, float allowed) {
  static uint32_t slot[CONTEXT];
  const sattn_sizes largest = {1, PROMPT, CONTEXT};
  sattn_attention attention;
  sattn_ggml state;
  sattn_error error;
  describe(&attention, mode);
  check(sattn_permutation_draw(CONTEXT, &permutation_key, NULL, slot, &error), &error);
  check(sattn_ggml_open(&state, device, &attention, type, &largest, &permutation_key, &error), &error);

  struct ggml_context *memory = ggml_init((struct ggml_init_params){16 << 20, NULL, false});
  struct ggml_tensor *cache[2] = {ggml_new_tensor_2d(memory, type, ROW, CONTEXT), ggml_new_tensor_2d(memory, type, ROW, CONTEXT)};
  const uint32_t *shown = mode == SATTN_STOCHASTIC ? slot : NULL;
  float prefill = step(&state, cache, shown, 0, PROMPT), decode = 0;
  for (int i = 0; i < STEPS; i++) {
    float now = step(&state, cache, shown, PROMPT + i, 1);
    if (!(now <= decode)) decode = now;
  }
  ggml_free(memory);
  printf("%-5s %s cache, %s: prefill %.1e, decode %.1e apart from ggml_flash_attn_ext (allowed %.0e)\n", sattn_mode_name(mode),
         ggml_type_name(type), sattn_context_device(state.context)->id, (double)prefill, (double)decode, (double)allowed);
  sattn_ggml_close(&state);
  return prefill <= allowed && decode <= allowed ? 0 : 1;
}

int main(int count, char **arguments) {
  const char *device = count > 1 ? arguments[1] : "opencl";
  int failed = 0;
  failed += compare(device, SATTN_FULL, GGML_TYPE_F32, 1e-5f);
  failed += compare(device, SATTN_STOCHASTIC, GGML_TYPE_F32, 1e-5f);
  /* Over a half-precision cache ggml adds up a decoded row in half precision; here sums are fp32. */
  failed += compare(device, SATTN_FULL, GGML_TYPE_F16, 1e-2f);
  failed += compare(device, SATTN_STOCHASTIC, GGML_TYPE_F16, 1e-2f);
  return failed ? 1 : 0;
}
