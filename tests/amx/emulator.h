/* Inside of the emulator: tiles of a thread, and what the instructions do to them. Every function returns NULL, or the exception that a
 * processor would raise, as a sentence. */
#ifndef AMX_EMULATOR_H
#define AMX_EMULATOR_H

#include <stdint.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_ROW_BYTES = 64 };

typedef struct amx_state {
  int palette; /* 0: not configured */
  uint8_t config[64];
  int rows[AMX_TILES], row_bytes[AMX_TILES];
  uint8_t tile[AMX_TILES][AMX_ROWS][AMX_ROW_BYTES] __attribute__((aligned(64)));
} amx_state;

typedef struct amx_instruction {
  int reg_high, index_high, base_high; /* the fourth bits */
  int vvvv, prefix;                    /* 0 none, 1 66, 2 F3, 3 F2 */
  int opcode, mod_rm;
} amx_instruction;

typedef struct amx_operand {
  uint64_t address;
  int64_t stride;
  int relative; /* to the instruction */
} amx_operand;

const char *amx_configure(amx_state *state, const amx_operand *from, int strict);
const char *amx_store_config(const amx_state *state, const amx_operand *to);
const char *amx_release(amx_state *state);
const char *amx_zero(amx_state *state, int tile);
const char *amx_load(amx_state *state, int tile, const amx_operand *from);
const char *amx_store(const amx_state *state, int tile, const amx_operand *to);
/* c += a b; `wrong`: on purpose not quite. */
const char *amx_multiply(amx_state *state, int c, int a, int b, int wrong);

/* Products emulated so far. Programs look the name up, to learn whether they run under the emulator. */
unsigned long sattn_amx_emulator_products(void);

#endif
