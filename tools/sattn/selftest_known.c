/* Answers that are known without computing anything: permutations from a table, visible sets from the worked example. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "selftest.h"

/* ---- permutation, format version 1 ---- */

enum { HEAD = 8 };

static const struct {
  sattn_permutation_key key;
  int64_t n;
  uint32_t head[HEAD]; /* first entries of the order; fewer if n is smaller */
  uint32_t crc;        /* CRC-32 of the whole order as little-endian 32-bit numbers */
} PERMUTATIONS[] = {
    {{0, 0, 0, 0}, 5, {2, 1, 3, 4, 0}, 0x98a7a09a},
    {{0, 1, 0, 3}, 1000, {444, 484, 422, 287, 796, 31, 753, 915}, 0xab4d431f},
    {{0, 35, UINT32_MAX, 0}, 100003, {720, 92678, 49747, 33988, 78749, 45181, 4891, 3783}, 0x11fce7cf},
    {{0, UINT32_MAX, 1, UINT32_MAX}, 64, {17, 31, 61, 46, 20, 36, 57, 4}, 0x20a68af4},
    {{1, 1, 0, 3}, 1000, {303, 789, 38, 605, 972, 393, 905, 834}, 0xc64dce92},
    {{2147483648u, 35, UINT32_MAX, 0}, 100003, {1112, 9591, 27339, 92580, 95696, 68760, 45379, 51404}, 0xdb11ea5a},
};

static uint32_t crc_of(const uint32_t *values, int64_t n) {
  uint32_t crc = UINT32_MAX;
  for (int64_t i = 0; i < 4 * n; i++) {
    crc ^= (values[i / 4] >> (8 * (i % 4))) & 0xff;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static bool is_right(int index, const uint32_t *order, const uint32_t *slot) {
  int64_t n = PERMUTATIONS[index].n;
  for (int64_t i = 0; i < n && i < HEAD; i++)
    if (order[i] != PERMUTATIONS[index].head[i]) return false;
  for (int64_t i = 0; i < n; i++)
    if (order[i] >= n || slot[order[i]] != (uint32_t)i) return false;
  return crc_of(order, n) == PERMUTATIONS[index].crc;
}

int sattn_selftest_permutations(int *out_count, sattn_report *report) {
  int right = 0;
  *out_count = sizeof PERMUTATIONS / sizeof PERMUTATIONS[0];
  for (int i = 0; i < *out_count; i++) {
    sattn_error error = {SATTN_OK, 0, "", ""};
    uint64_t n = (uint64_t)PERMUTATIONS[i].n;
    uint32_t *order = sattn_tool_allocate(report, "order", n, sizeof *order);
    uint32_t *slot = order ? sattn_tool_allocate(report, "slot", n, sizeof *slot) : NULL;
    bool drawn = slot && sattn_tool_check(report, sattn_permutation_draw((int64_t)n, &PERMUTATIONS[i].key, order, slot, &error), &error);
    if (drawn && is_right(i, order, slot)) right++;
    free(order);
    free(slot);
  }
  return right;
}

/* ---- the worked example ---- */

enum { TOKENS = 6 };

static const uint32_t ORDER[TOKENS] = {3, 0, 5, 1, 4, 2};

static const struct {
  const char *name;
  sattn_mode mode;
  bool causal;
  float means[TOKENS]; /* of the visible tokens */
} EXAMPLES[] = {
    {"full, causal", SATTN_FULL, true, {0, 0.5f, 1, 1.5f, 2, 2.5f}},
    {"swa, causal", SATTN_SLIDING_WINDOW, true, {0, 0.5f, 1, 2, 3, 4}},
    {"sa, causal", SATTN_STOCHASTIC, true, {0, 0.5f, 1.5f, 1.5f, 7 / 3.0f, 2.6f}},
    {"sa, two-way", SATTN_STOCHASTIC, false, {8 / 3.0f, 10 / 3.0f, 3, 1.5f, 7 / 3.0f, 2}},
    {"union, causal", SATTN_UNION, true, {0, 0.5f, 1, 1.5f, 2.5f, 2.6f}},
    {"gated, causal", SATTN_GATED, true, {0, 0.5f, 1.25f, 1.75f, 8 / 3.0f, 3.3f}},
    {"moba, causal", SATTN_MOBA, true, {0, 0.5f, 2, 2.5f, 4, 4.5f}},
};

int sattn_selftest_example_count(void) {
  return sizeof EXAMPLES / sizeof EXAMPLES[0];
}
const char *sattn_selftest_example_name(int index) {
  return EXAMPLES[index].name;
}

sattn_selftest_result sattn_selftest_example(int index, sattn_context *context, double *out_error, sattn_report *report) {
  static const float ZEROS[TOKENS] = {0}, VALUES[TOKENS] = {0, 1, 2, 3, 4, 5};
  const int64_t width = 3;
  sattn_error error = {SATTN_OK, 0, "", ""};
  float out[TOKENS];
  sattn_host_call call;
  sattn_host_call_init(&call);
  sattn_attention *a = &call.attention;
  sattn_mode mode = EXAMPLES[index].mode;
  a->mode = mode;
  a->causal = EXAMPLES[index].causal;
  a->heads = a->kv_heads = a->head_dim = 1;
  if (mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION || mode == SATTN_GATED) a->window_swa = sattn_window_width(width);
  if (mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED) {
    a->window_sa = sattn_window_width(width);
    call.order = ORDER;
    call.order_count = 1;
    call.order_size = TOKENS;
  }
  if (mode == SATTN_MOBA) a->block = 2, a->topk = 1;
  if (mode == SATTN_GATED) call.gate_sa.data = call.gate_swa.data = ZEROS; /* each gate lets half through */
  call.context = context;
  call.batch = 1;
  call.queries = call.keys = TOKENS;
  call.query.data = call.key.data = ZEROS;
  call.value.data = VALUES;
  for (int i = 0; i < TOKENS; i++) out[i] = (float)NAN;
  call.out.data = out;
  *out_error = (double)NAN;
  sattn_status status = sattn_attention_host(&call, &error);
  if (!sattn_tool_check(report, status, &error)) return status == SATTN_UNSUPPORTED ? SATTN_SELFTEST_UNSUPPORTED : SATTN_SELFTEST_FAILED;
  *out_error = sattn_accuracy_difference(out, EXAMPLES[index].means, TOKENS);
  return *out_error <= 2e-6 * (TOKENS - 1) ? SATTN_SELFTEST_RIGHT : SATTN_SELFTEST_WRONG;
}
