/* AMX for a processor that has none, for tests: LD_PRELOAD=libsattn_amx_emulator.so PROGRAM.
 *
 *     the probe's questions    fopen("/proc/cpuinfo"), arch_prctl        answered as a processor with AMX would
 *     the instructions         undefined there -> SIGILL -> decoded, done in memory, stepped over
 *
 * Semantics are those of Intel's manual (volume 2, LDTILECFG to TILEZERO). What would raise an exception there ends the process here, with
 * a sentence. Tiles belong to a thread. Anything else that raises SIGILL goes to the handler before.
 *
 * SATTN_AMX_EMULATOR, words with commas:
 *     strict      a thread that configures tiles twice without releasing them ends the process
 *     wrong       products come out wrong
 *     no-leave    the system does not permit AMX; no-space: a signal stack is too small
 *     no-pairs    the processor has no AVX512_BF16
 *     count       says at the end how many products there were
 */
#define _GNU_SOURCE
#include "emulator.h"

#include <asm/prctl.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef ARCH_GET_XCOMP_SUPP
#define ARCH_GET_XCOMP_SUPP 0x1021
#define ARCH_GET_XCOMP_PERM 0x1022
#define ARCH_REQ_XCOMP_PERM 0x1023
#endif
#define XTILEDATA       18
#define PUBLIC_FUNCTION __attribute__((visibility("default")))

static struct sigaction before;
static unsigned long products;
static int strict, wrong, refusal, has_pairs = 1;
/* No allocation at first use inside a signal handler. */
static __thread amx_state state __attribute__((tls_model("initial-exec")));

PUBLIC_FUNCTION unsigned long sattn_amx_emulator_products(void) {
  return __atomic_load_n(&products, __ATOMIC_RELAXED);
}

/* ---- what the probe sees ---- */

PUBLIC_FUNCTION long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number != SYS_arch_prctl) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (a[0] == ARCH_REQ_XCOMP_PERM && a[1] == XTILEDATA) {
    errno = refusal;
    return refusal ? -1 : 0;
  }
  if (a[0] == ARCH_GET_XCOMP_SUPP || a[0] == ARCH_GET_XCOMP_PERM) {
    *(unsigned long *)a[1] |= 3ul << (XTILEDATA - 1);
    return 0;
  }
  return real(number, a[0], a[1]);
}

/* A copy of the file in which every processor has the flags. */
static FILE *change_flags(FILE *file) {
  char *line = NULL;
  size_t capacity = 0;
  FILE *copy = tmpfile();
  while (copy && getline(&line, &capacity, file) > 0) {
    if (strncmp(line, "flags", 5) != 0) {
      fputs(line, copy);
      continue;
    }
    line[strcspn(line, "\n")] = '\0';
    char *pairs = has_pairs ? NULL : strstr(line, " avx512_bf16");
    if (pairs) memmove(pairs, pairs + 12, strlen(pairs + 12) + 1);
    fprintf(copy, "%s amx_bf16 amx_tile\n", line);
  }
  free(line);
  fclose(file);
  if (copy) rewind(copy);
  return copy;
}

static FILE *open_file(const char *name, const char *path, const char *mode) {
  FILE *(*real)(const char *, const char *);
  *(void **)&real = dlsym(RTLD_NEXT, name);
  FILE *file = real(path, mode);
  return file && strcmp(path, "/proc/cpuinfo") == 0 ? change_flags(file) : file;
}

PUBLIC_FUNCTION FILE *fopen(const char *path, const char *mode) {
  return open_file("fopen", path, mode);
}

PUBLIC_FUNCTION FILE *fopen64(const char *path, const char *mode) {
  return open_file("fopen64", path, mode);
}

/* ---- instructions ---- */

static void say(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

/* Registers in the order in which instructions number them. */
static uint64_t read_register(const ucontext_t *at, int number) {
  static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                 REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return (uint64_t)at->uc_mcontext.gregs[places[number]];
}

/* A memory operand. Moves *code behind it. */
static void read_address(const ucontext_t *at, const amx_instruction *decoded, const uint8_t **code, amx_operand *operand) {
  int mod = decoded->mod_rm >> 6, base = decoded->mod_rm & 7;
  int64_t displacement = 0;
  operand->stride = 0;
  operand->address = 0;
  if (base == 4) {
    int sib = *(*code)++, index = (sib >> 3 & 7) | decoded->index_high << 3;
    base = sib & 7;
    if (index != 4) operand->stride = (int64_t)(read_register(at, index) << (sib >> 6));
  }
  if (mod == 0 && base == 5) {
    mod = 2; /* no base: relative to nothing, or (without SIB) to the next instruction, which no tile has */
    if ((decoded->mod_rm & 7) == 5) operand->relative = 1;
  } else {
    operand->address = read_register(at, base | decoded->base_high << 3);
  }
  if (mod == 1) displacement = (int8_t) * (*code)++;
  if (mod == 2) {
    int32_t wide;
    memcpy(&wide, *code, sizeof wide);
    *code += sizeof wide;
    displacement = wide;
  }
  operand->address += (uint64_t)displacement;
  if (operand->relative) operand->address += (uint64_t)(uintptr_t)*code;
}

/* 0: not an instruction of ours. */
static int decode(const uint8_t *code, amx_instruction *out) {
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return 0; /* three-byte VEX, 0F38, W0, 128 bits */
  out->reg_high = !(code[1] >> 7 & 1);
  out->index_high = !(code[1] >> 6 & 1);
  out->base_high = !(code[1] >> 5 & 1);
  out->vvvv = ~(code[2] >> 3) & 15;
  out->prefix = code[2] & 3;
  out->opcode = code[3];
  out->mod_rm = code[4];
  return out->opcode == 0x49 || out->opcode == 0x4b || out->opcode == 0x5c;
}

/* Returns NULL and moves *code behind the instruction, or what is wrong with it; *out_known = 0 where it is none of AMX. */
static const char *execute(const ucontext_t *at, const uint8_t **code, int *out_known) {
  enum { NONE, P66, PF3, PF2 };
  amx_instruction i;
  amx_operand operand;
  memset(&operand, 0, sizeof operand);
  *out_known = decode(*code, &i);
  if (!*out_known) return NULL;
  int in_memory = i.mod_rm >> 6 != 3, reg = i.mod_rm >> 3 & 7;
  *code += 5;
  if (in_memory) read_address(at, &i, code, &operand);
  if (i.reg_high) return "a tile register beyond 7";
  if (i.opcode != 0x5c && i.vvvv != 0) return "VEX.vvvv is not 1111";
  if (i.opcode == 0x49 && in_memory && reg == 0 && i.prefix == NONE) return amx_configure(&state, &operand, strict);
  if (i.opcode == 0x49 && in_memory && reg == 0 && i.prefix == P66) return amx_store_config(&state, &operand);
  if (i.opcode == 0x49 && i.prefix == NONE && i.mod_rm == 0xc0) return amx_release(&state);
  if (i.opcode == 0x49 && i.prefix == PF2 && !in_memory && (i.mod_rm & 7) == 0) return amx_zero(&state, reg);
  if (i.opcode == 0x4b && in_memory && i.prefix != NONE) {
    if ((i.mod_rm & 7) != 4) return "a tile's address needs base and index";
    return i.prefix == PF3 ? amx_store(&state, reg, &operand) : amx_load(&state, reg, &operand);
  }
  if (i.opcode == 0x5c && !in_memory && i.prefix == PF3) {
    __atomic_fetch_add(&products, 1, __ATOMIC_RELAXED);
    if (i.base_high || i.vvvv > 7) return "a tile register beyond 7";
    return amx_multiply(&state, reg, i.mod_rm & 7, i.vvvv, wrong);
  }
  return "an AMX instruction that is not emulated";
}

static void on_illegal(int number, siginfo_t *info, void *opaque) {
  ucontext_t *at = opaque;
  const uint8_t *code = (const uint8_t *)(uintptr_t)at->uc_mcontext.gregs[REG_RIP];
  int known = 0;
  const char *fault = execute(at, &code, &known);
  if (known && !fault) {
    at->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)code;
    return;
  }
  if (known) {
    say("amx emulator: ");
    say(fault);
    say("\n");
  } else if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, opaque);
    return;
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
    return;
  }
  signal(SIGILL, SIG_DFL); /* the instruction runs again and ends the process */
}

__attribute__((constructor)) static void start(void) {
  const char *words = getenv("SATTN_AMX_EMULATOR");
  if (words) {
    strict = strstr(words, "strict") != NULL;
    wrong = strstr(words, "wrong") != NULL;
    has_pairs = strstr(words, "no-pairs") == NULL;
    refusal = strstr(words, "no-leave") ? EPERM : strstr(words, "no-space") ? ENOSPC : 0;
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_illegal;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGILL, &action, &before);
}

__attribute__((destructor)) static void end(void) {
  const char *words = getenv("SATTN_AMX_EMULATOR");
  if (words && strstr(words, "count")) fprintf(stderr, "amx emulator: %lu products\n", sattn_amx_emulator_products());
}
