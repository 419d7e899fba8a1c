/* Device arrays of one size. */
#include "workload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool new_buffer(sattn_workload *w, uint64_t bytes, sattn_buffer **out_buffer, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  if (!sattn_tool_check(report, sattn_buffer_create(w->context, bytes, &w->buffers[w->buffer_count], &error), &error)) return false;
  *out_buffer = w->buffers[w->buffer_count++];
  return true;
}

static bool new_array(sattn_workload *w, int64_t elements, size_t size, sattn_array *out_array, sattn_report *report) {
  out_array->offset = 0;
  return new_buffer(w, (uint64_t)elements * size, &out_array->buffer, report);
}

static bool new_tensor(sattn_workload *w, int64_t tokens, int64_t heads, sattn_tensor *out_tensor, sattn_report *report) {
  int64_t d = w->head_dim;
  memset(out_tensor, 0, sizeof *out_tensor);
  if (w->layout == SATTN_LAYOUT_BHND) {
    out_tensor->stride_batch = heads * tokens * d;
    out_tensor->stride_token = d;
    out_tensor->stride_head = tokens * d;
  }
  uint64_t bytes = (uint64_t)(w->sizes.batch * tokens * heads * d) * sattn_dtype_size(w->dtype);
  return new_buffer(w, bytes, &out_tensor->buffer, report);
}

/* splitmix64: enough for numbers that only have to be unlike each other. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Uniform with variance 1. */
static float random_value(uint64_t *state) {
  return (float)((double)(next_random(state) >> 11) * 0x1p-53 * 3.4641016 - 1.7320508);
}

static bool fill_random(sattn_buffer *buffer, sattn_dtype dtype, uint64_t *state, sattn_report *report) {
  enum { CHUNK = 65536 };
  sattn_error error = {SATTN_OK, 0, "", ""};
  size_t size = sattn_dtype_size(dtype);
  unsigned char *chunk = sattn_tool_allocate(report, "random numbers", CHUNK, size);
  uint64_t bytes = sattn_buffer_size(buffer);
  bool fine = chunk != NULL;
  for (uint64_t at = 0; fine && at < bytes; at += CHUNK * size) {
    uint64_t part = bytes - at < CHUNK * size ? bytes - at : CHUNK * size;
    for (uint64_t i = 0; i < part / size; i++) {
      float value = random_value(state);
      uint16_t half = dtype == SATTN_FP16 ? sattn_fp16_from_float(value) : sattn_bf16_from_float(value);
      memcpy(chunk + i * size, dtype == SATTN_FP32 ? (const void *)&value : (const void *)&half, size);
    }
    fine = sattn_tool_check(report, sattn_buffer_write(buffer, at, chunk, part, &error), &error);
  }
  free(chunk);
  return fine;
}

static bool fill(sattn_workload *w, sattn_buffer *buffer, const void *data, uint64_t *state, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  if (!data) return fill_random(buffer, w->dtype, state, report);
  return sattn_tool_check(report, sattn_buffer_write(buffer, 0, data, sattn_buffer_size(buffer), &error), &error);
}

static bool make_gates(sattn_workload *w, int64_t rows, uint64_t *state, sattn_report *report) {
  int64_t outputs = rows * w->head_dim;
  const struct {
    sattn_tensor *logits, *gradient;
    sattn_array *lse, *branch;
  } parts[] = {{&w->gate_sa, &w->grad_gate_sa, &w->lse_sa, &w->y_sa}, {&w->gate_swa, &w->grad_gate_swa, &w->lse_swa, &w->y_swa}};
  for (int i = 0; i < 2; i++) {
    memset(parts[i].logits, 0, sizeof *parts[i].logits);
    memset(parts[i].gradient, 0, sizeof *parts[i].gradient);
    if (!new_buffer(w, (uint64_t)rows * sizeof(float), &parts[i].logits->buffer, report)) return false;
    if (!fill_random(parts[i].logits->buffer, SATTN_FP32, state, report)) return false;
    if (!new_array(w, rows, sizeof(float), parts[i].lse, report)) return false;
    if (!w->backward) continue;
    if (!new_buffer(w, (uint64_t)rows * sizeof(float), &parts[i].gradient->buffer, report)) return false;
    if (!new_array(w, outputs, sattn_dtype_size(w->dtype), parts[i].branch, report)) return false;
  }
  return true;
}

static bool make_gradients(sattn_workload *w, uint64_t *state, sattn_report *report) {
  const sattn_sizes *n = &w->sizes;
  return new_tensor(w, n->queries, w->heads, &w->grad_out, report) && fill(w, w->grad_out.buffer, NULL, state, report) &&
         new_tensor(w, n->queries, w->heads, &w->grad_query, report) && new_tensor(w, n->keys, w->kv_heads, &w->grad_key, report) &&
         new_tensor(w, n->keys, w->kv_heads, &w->grad_value, report);
}

/* Whether the bytes of an array can be counted: 8 for an element, more than any here has. */
static bool is_countable(const sattn_workload *w, int64_t tokens, int64_t heads) {
  const int64_t factors[] = {w->sizes.batch, tokens, heads, w->head_dim};
  int64_t room = INT64_MAX / 8;
  for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) room /= factors[i] > 0 ? factors[i] : 1;
  return room > 0;
}

bool sattn_workload_create(sattn_workload *w, const void *query, const void *key, const void *value, uint64_t seed, sattn_report *report) {
  uint64_t state = seed;
  if (!is_countable(w, w->sizes.queries, w->heads) || !is_countable(w, w->sizes.keys, w->kv_heads))
    return sattn_tool_refuse(report,
                             "batch %" PRId64 ", %" PRId64 " keys, %" PRId64 " heads of %" PRId64 ": an array would exceed 2^63 bytes",
                             w->sizes.batch, w->sizes.keys, w->heads, w->head_dim);
  int64_t rows = w->sizes.batch * w->sizes.queries * w->heads;
  w->buffer_count = 0;
  return new_tensor(w, w->sizes.queries, w->heads, &w->query, report) && fill(w, w->query.buffer, query, &state, report) &&
         new_tensor(w, w->sizes.keys, w->kv_heads, &w->key, report) && fill(w, w->key.buffer, key, &state, report) &&
         new_tensor(w, w->sizes.keys, w->kv_heads, &w->value, report) && fill(w, w->value.buffer, value, &state, report) &&
         new_tensor(w, w->sizes.queries, w->heads, &w->out, report) && new_array(w, rows, sizeof(float), &w->lse, report) &&
         (!w->gated || make_gates(w, rows, &state, report)) && (!w->backward || make_gradients(w, &state, report));
}

void sattn_workload_destroy(sattn_workload *w) {
  while (w->buffer_count > 0) sattn_buffer_destroy(&w->buffers[--w->buffer_count]);
}
