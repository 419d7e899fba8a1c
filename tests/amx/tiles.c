/* What the emulated instructions do, after the pseudocode of Intel's manual. Runs in a signal handler: nothing here allocates or prints. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "emulator.h"

static uint8_t *memory_at(uint64_t address) {
  return (uint8_t *)(uintptr_t)address;
}

static const char *fault_of(const amx_state *state, int tile) {
  if (!state->palette) return "tiles are used before LDTILECFG or after TILERELEASE";
  if (state->rows[tile] == 0 || state->row_bytes[tile] == 0) return "a tile is used that the configuration leaves out";
  return NULL;
}

const char *amx_release(amx_state *state) {
  memset(state, 0, sizeof *state);
  return NULL;
}

/* Byte 0 palette, 1 start row, 2-15 zero, 16-47 bytes of a row (16 bits each), 48-63 rows; palette 1 has 8 tiles. */
const char *amx_configure(amx_state *state, const amx_operand *from, int strict) {
  uint8_t config[64];
  memcpy(config, memory_at(from->address), sizeof config);
  if (strict && state->palette) return "LDTILECFG where an earlier configuration was not released";
  if (config[0] == 0) return amx_release(state);
  if (config[0] != 1) return "LDTILECFG with a palette beyond 1";
  for (int i = 2; i < 16; ++i) {
    if (config[i]) return "LDTILECFG with a reserved byte that is not zero";
  }
  int rows[16], row_bytes[16];
  for (int t = 0; t < 16; ++t) {
    row_bytes[t] = config[16 + 2 * t] | config[17 + 2 * t] << 8;
    rows[t] = config[48 + t];
    if (t >= AMX_TILES && (rows[t] || row_bytes[t])) return "LDTILECFG for a tile beyond 7";
    if (rows[t] > AMX_ROWS || row_bytes[t] > AMX_ROW_BYTES) return "LDTILECFG with too large a tile";
    if ((rows[t] == 0) != (row_bytes[t] == 0)) return "LDTILECFG with rows or bytes of a tile alone zero";
  }
  if (config[1]) return "LDTILECFG with a start row: interrupted loads do not exist here";
  memset(state, 0, sizeof *state);
  state->palette = 1;
  memcpy(state->config, config, sizeof config);
  for (int t = 0; t < AMX_TILES; ++t) {
    state->rows[t] = rows[t];
    state->row_bytes[t] = row_bytes[t];
  }
  return NULL;
}

const char *amx_store_config(const amx_state *state, const amx_operand *to) {
  memcpy(memory_at(to->address), state->config, sizeof state->config); /* all zeros where nothing is configured */
  return NULL;
}

const char *amx_zero(amx_state *state, int tile) {
  const char *fault = fault_of(state, tile);
  if (!fault) memset(state->tile[tile], 0, sizeof state->tile[tile]);
  return fault;
}

const char *amx_load(amx_state *state, int tile, const amx_operand *from) {
  const char *fault = fault_of(state, tile);
  if (fault) return fault;
  memset(state->tile[tile], 0, sizeof state->tile[tile]);
  for (int row = 0; row < state->rows[tile]; ++row) {
    memcpy(state->tile[tile][row], memory_at(from->address + (uint64_t)(row * from->stride)), (size_t)state->row_bytes[tile]);
  }
  return NULL;
}

const char *amx_store(const amx_state *state, int tile, const amx_operand *to) {
  const char *fault = fault_of(state, tile);
  for (int row = 0; !fault && row < state->rows[tile]; ++row) {
    memcpy(memory_at(to->address + (uint64_t)(row * to->stride)), state->tile[tile][row], (size_t)state->row_bytes[tile]);
  }
  return fault;
}

/* ---- products ---- */

/* Sums of the even and of the odd elements of k run apart, as in the manual, and are added to each other and then to C. */
#define DEFINE_ADD_PRODUCT(name, attributes)                                                            \
  attributes static void name(float *c, const uint16_t *a, const uint16_t *b, int pairs, int columns) { \
    float even[16], odd[16];                                                                            \
    for (int n = 0; n < 16; ++n) even[n] = odd[n] = 0.0f;                                               \
    for (int k = 0; k < pairs; ++k) {                                                                   \
      const float first = widen(a[2 * k]), second = widen(a[2 * k + 1]);                                \
      for (int n = 0; n < 16; ++n) {                                                                    \
        even[n] = __builtin_fmaf(first, widen(b[k * 32 + 2 * n]), even[n]);                             \
        odd[n] = __builtin_fmaf(second, widen(b[k * 32 + 2 * n + 1]), odd[n]);                          \
      }                                                                                                 \
    }                                                                                                   \
    for (int n = 0; n < columns; ++n) c[n] += even[n] + odd[n];                                         \
  }

static inline float widen(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

DEFINE_ADD_PRODUCT(add_product_plain, )
DEFINE_ADD_PRODUCT(add_product_fma, __attribute__((target("avx2,fma"))))

const char *amx_multiply(amx_state *state, int c, int a, int b, int wrong) {
  const int used[3] = {c, a, b};
  for (int i = 0; i < 3; ++i) {
    const char *fault = fault_of(state, used[i]);
    if (fault) return fault;
    if (state->row_bytes[used[i]] % 4) return "TDPBF16PS with rows that are no whole pairs";
  }
  if (c == a || c == b || a == b) return "TDPBF16PS with one tile twice";
  if (state->rows[c] != state->rows[a]) return "TDPBF16PS where C and A have different rows";
  if (state->row_bytes[c] != state->row_bytes[b]) return "TDPBF16PS where C and B have different columns";
  if (state->row_bytes[a] / 4 != state->rows[b]) return "TDPBF16PS where A's columns are not B's rows";
  /* Rounding to nearest even, subnormal numbers zero on both sides, whatever the program has set. */
  const unsigned int control = _mm_getcsr();
  _mm_setcsr(0x9fc0);
  for (int m = 0; m < state->rows[c]; ++m) {
    float *row = (float *)(void *)state->tile[c][m];
    const uint16_t *left = (const uint16_t *)(const void *)state->tile[a][m], *right = (const uint16_t *)(const void *)state->tile[b];
    const int pairs = state->row_bytes[a] / 4, columns = state->row_bytes[c] / 4;
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"))
      add_product_fma(row, left, right, pairs, columns);
    else
      add_product_plain(row, left, right, pairs, columns);
  }
  _mm_setcsr(control);
  if (wrong) *(float *)(void *)state->tile[c][0] += 1.0f;
  return NULL;
}
