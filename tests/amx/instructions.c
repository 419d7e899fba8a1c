/* AMX instructions against plain C: under the emulator they test the emulator, on a processor with AMX they test this program's idea of it.
 *
 *     amx_instructions [--seed N]        exit status 77: this CPU has no AMX and the emulator is not there
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "random.h"

#define ROUNDS 300

typedef struct config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} config;

static int failures;

static void fail(const char *what) {
  if (++failures <= 5) printf("FAILED %s\n", what);
}

/* ---- the instructions ---- */

static void configure(const config *c) {
  __asm__ volatile("ldtilecfg %0" ::"m"(*c) : "memory");
}
static void store_config(config *c) {
  __asm__ volatile("sttilecfg %0" : "=m"(*c)::"memory");
}
static void release(void) {
  __asm__ volatile("tilerelease" ::: "memory");
}

#define LOAD(t, from, stride) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"((long)(stride)) : "memory")
#define STORE(t, to, stride)  __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"((long)(stride)) : "memory")
#define MULTIPLY(c, a, b)     __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::: "memory")

/* ---- what they should do ---- */

static float widen(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static float flush(float x) {
  return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

/* One element: two sums over the even and the odd k, which are added to each other and then to c. */
static float expected(float c, const uint16_t *a, const uint16_t *b, int n, int pairs) {
  float sum[2] = {0.0f, 0.0f};
  for (int k = 0; k < pairs; ++k) {
    for (int odd = 0; odd < 2; ++odd) {
      float left = flush(widen(a[2 * k + odd])), right = flush(widen(b[k * 32 + 2 * n + odd]));
      sum[odd] = flush(fmaf(left, right, sum[odd]));
    }
  }
  return flush(flush(c) + flush(sum[0] + sum[1]));
}

static int same(float x, float y) {
  return (isnan(x) && isnan(y)) || memcmp(&x, &y, sizeof x) == 0;
}

/* ---- random tiles ---- */

/* Numbers near 1, small integers, or any bits at all: infinities, NaN, subnormal. */
static uint16_t draw_bf16(test_random *random, int kind) {
  uint64_t bits = test_random_next(random);
  if (kind == 0) return (uint16_t)(0x3f00 | (bits & 0x80ff));
  if (kind == 1) {
    float value = (float)(int)(bits % 17) - 8.0f;
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    return (uint16_t)(wide >> 16);
  }
  if (kind == 2) return (uint16_t)((bits & 0x807f) | (bits >> 32) % 3 << 7); /* around the smallest normal number */
  return (uint16_t)bits;
}

static void multiply_round(test_random *random, int round) {
  int rows = 1 + (int)test_random_below(random, 16), columns = 1 + (int)test_random_below(random, 16);
  int pairs = 1 + (int)test_random_below(random, 16), kind = round % 4;
  if (round < 4) rows = columns = pairs = 16;
  static uint16_t a[16 * 40], b[16 * 32];
  static float c[16 * 20], got[16 * 24];
  for (int i = 0; i < 16 * 40; ++i) a[i] = draw_bf16(random, kind);
  for (int i = 0; i < 16 * 32; ++i) b[i] = draw_bf16(random, kind);
  for (int i = 0; i < 16 * 20; ++i) c[i] = widen(draw_bf16(random, kind == 3 ? 0 : kind));
  for (int i = 0; i < 16 * 24; ++i) got[i] = 77.0f;
  config use = {.palette = 1};
  use.rows[1] = use.rows[2] = (uint8_t)rows;
  use.rows[3] = (uint8_t)pairs;
  use.row_bytes[1] = use.row_bytes[3] = (uint16_t)(columns * 4);
  use.row_bytes[2] = (uint16_t)(pairs * 4);
  configure(&use);
  LOAD(1, c, 80);
  LOAD(2, a, 80);
  LOAD(3, b, 64);
  MULTIPLY(1, 2, 3);
  STORE(1, got, 96);
  release();
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 24; ++n) {
      int inside = m < rows && n < columns;
      float right = inside ? expected(c[m * 20 + n], a + m * 40, b, n, pairs) : 77.0f;
      if (same(got[m * 24 + n], right)) continue;
      printf("%d x %d x %d, kind %d, element %d, %d: %a, not %a\n", rows, columns, pairs, kind, m, n, (double)got[m * 24 + n],
             (double)right);
      fail("tdpbf16ps");
      return;
    }
  }
}

/* ---- moving ---- */

static void full_config(config *c) {
  memset(c, 0, sizeof *c);
  c->palette = 1;
  for (int t = 0; t < 8; ++t) {
    c->rows[t] = 16;
    c->row_bytes[t] = 64;
  }
}

static void check_rows(const char *what, const uint8_t *from, long stride, const uint8_t *got) {
  for (int row = 0; row < 16; ++row) {
    if (memcmp(got + row * 64, from + row * stride, 64) != 0) {
      fail(what);
      return;
    }
  }
}

/* Every way to name an address that compilers use: all registers' fourth bits, scales, displacements. A register variable keeps its
 * register up to the next call of a function only, so each has a block of its own. */
static void check_addresses(const uint8_t *bytes) {
  static uint8_t got[1024];
  const uint8_t *middle = bytes + 4096;
  config all;
  full_config(&all);
  configure(&all);
  {
    register const uint8_t *base __asm__("rbx") = middle;
    register long index __asm__("rsi") = 100;
    __asm__ volatile("tileloadd 8(%0,%1,1), %%tmm0" ::"r"(base), "r"(index) : "memory");
    STORE(0, got, 64);
  }
  check_rows("tileloadd 8(%rbx,%rsi)", middle + 8, 100, got);
  {
    register const uint8_t *base __asm__("r13") = middle;
    register long index __asm__("r12") = 40;
    register uint8_t *to __asm__("r9") = got + 256;
    register long stride __asm__("r11") = 32;
    __asm__ volatile(
        "tileloaddt1 -4000(%0,%1,4), %%tmm5\n"
        "tilestored %%tmm5, -256(%2,%3,2)" ::"r"(base),
        "r"(index), "r"(to), "r"(stride)
        : "memory");
  }
  check_rows("tileloaddt1 -4000(%r13,%r12,4)", middle - 4000, 160, got);
  {
    register const uint8_t *base __asm__("r13") = middle;
    register long index __asm__("r12") = 40;
    __asm__ volatile("tileloadd (%0,%1,8), %%tmm7" ::"r"(base), "r"(index) : "memory");
    STORE(7, got, 64);
  }
  check_rows("tileloadd (%r13,%r12,8)", middle, 320, got);
  {
    register const uint8_t *base __asm__("rax") = middle;
    register long index __asm__("rdx") = -64;
    __asm__ volatile("tileloadd 128(%0,%1,1), %%tmm6" ::"r"(base), "r"(index) : "memory");
    STORE(6, got, 64);
  }
  check_rows("a stride below zero", middle + 128, -64, got);
  __asm__ volatile("tileloadd (%0), %%tmm4" ::"r"(middle) : "memory");
  STORE(4, got, 64);
  check_rows("no stride", middle, 0, got);
  __asm__ volatile("tilezero %%tmm6" ::: "memory");
  STORE(6, got, 64);
  for (int i = 0; i < 1024; ++i) {
    if (got[i]) fail("tilezero");
  }
  release();
}

static void check_config(void) {
  config written, read;
  full_config(&written);
  written.rows[3] = 5;
  written.row_bytes[3] = 20;
  configure(&written);
  store_config(&read);
  if (memcmp(&written, &read, sizeof read) != 0) fail("sttilecfg gives another configuration");
  release();
  memset(&read, 1, sizeof read);
  store_config(&read);
  for (size_t i = 0; i < sizeof read; ++i) {
    if (((const uint8_t *)&read)[i]) fail("sttilecfg after tilerelease");
  }
  /* Rows and bytes beyond the configured ones come back as zeros. */
  static uint8_t ones[1024], got[1024];
  memset(ones, 1, sizeof ones);
  configure(&written);
  LOAD(3, ones, 64);
  STORE(3, got, 64);
  for (int i = 0; i < 1024; ++i) {
    if (got[i] != (i / 64 < 5 && i % 64 < 20)) fail("a tile smaller than it could be");
  }
  release();
}

/* ---- what must not work ---- */

static void use_unconfigured(void) {
  uint8_t bytes[1024] = {0};
  release();
  LOAD(0, bytes, 64);
}
static void use_missing_tile(void) {
  uint8_t bytes[1024] = {0};
  config c;
  full_config(&c);
  c.rows[4] = 0;
  c.row_bytes[4] = 0;
  configure(&c);
  LOAD(4, bytes, 64);
}
static void use_palette_2(void) {
  config c;
  full_config(&c);
  c.palette = 2;
  configure(&c);
}
static void use_17_rows(void) {
  config c;
  full_config(&c);
  c.rows[0] = 17;
  configure(&c);
}
static void use_wrong_shape(void) {
  config c;
  full_config(&c);
  c.rows[2] = 8;
  configure(&c);
  MULTIPLY(0, 1, 2);
}
static void use_one_tile_twice(void) {
  config c;
  full_config(&c);
  configure(&c);
  __asm__ volatile(".byte 0xc4, 0xe2, 0x7a, 0x5c, 0xc1" ::: "memory"); /* tdpbf16ps tmm0, tmm1, tmm0 */
}

static void check_dies(const char *what, void (*function)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    function();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || (WTERMSIG(status) != SIGILL && WTERMSIG(status) != SIGSEGV)) fail(what);
}

/* ---- whether there is anything to test ---- */

static int has_amx(void) {
  if (dlsym(RTLD_DEFAULT, "sattn_amx_emulator_products")) return 1;
  char line[8192];
  int found = 0;
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && fgets(line, sizeof line, file)) found |= strstr(line, " amx_bf16") != NULL;
  if (file) fclose(file);
  return found && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

int main(int argc, char **argv) {
  uint64_t seed = argc == 3 ? strtoull(argv[2], NULL, 0) : test_seed();
  printf("seed %" PRIu64 "\n", seed);
  if (!has_amx()) {
    printf("this CPU has no AMX\n");
    return 77;
  }
  test_random random = test_random_open(seed, "amx");
  static uint8_t bytes[16384];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = (uint8_t)test_random_next(&random);
  for (int round = 0; round < ROUNDS; ++round) multiply_round(&random, round);
  check_addresses(bytes);
  check_config();
  check_dies("a tile is used before ldtilecfg", use_unconfigured);
  check_dies("a tile is used that is not configured", use_missing_tile);
  check_dies("palette 2", use_palette_2);
  check_dies("17 rows", use_17_rows);
  check_dies("shapes that do not fit", use_wrong_shape);
  check_dies("one tile twice", use_one_tile_twice);
  if (failures) printf("  again: %s --seed %" PRIu64 "\n", argv[0], seed);
  printf("%d failed\n", failures);
  return failures != 0;
}
