/* The probe asks the system, never the processor itself, so that a test can answer in its place (tests/amx/emulator.c):
 *
 *     SATTN_AMX=0?  ->  a CPU of PoCL, in this process?  ->  flags in /proc/cpuinfo  ->  leave of the system  ->  the known answer
 *
 * A kernel with such instructions would end the process where one of the first four is a no, so the answer is asked for last.
 */
#define _DEFAULT_SOURCE /* syscall */

#include "cl_amx.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cl_context.h"
#include "cl_program.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

/* <asm/prctl.h> of older systems lacks these. */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18

static bool has_word(const char *line, const char *word) {
  size_t length = strlen(word);
  for (const char *at = strstr(line, word); at; at = strstr(at + length, word)) {
    if (at[-1] == ' ' && (at[length] == ' ' || at[length] == '\n' || at[length] == '\0')) return true;
  }
  return false;
}

/* The flags of the first processor: a system runs one kind. */
static const char *read_flags(bool *out_has_pairs) {
  char line[8192];
  bool found = false, has_tiles = false;
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return "/proc/cpuinfo cannot be read";
  while (!found && fgets(line, sizeof line, file)) {
    found = strncmp(line, "flags", 5) == 0;
    if (!found) continue;
    has_tiles = has_word(line, "amx_tile") && has_word(line, "amx_bf16");
    *out_has_pairs = has_word(line, "avx512_bf16");
  }
  fclose(file);
  return has_tiles ? NULL : "this CPU has no AMX (amx_tile, amx_bf16 in /proc/cpuinfo)";
}

/* The permission is the process's, also for threads that exist already; asking twice does no harm. */
static const char *ask_for_leave(void) {
  if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0) return NULL;
  return errno == ENOSPC ? "a thread's alternate signal stack is too small for AMX" : "the system does not permit AMX";
}

static const char *look_at_processor(bool *out_has_pairs) {
  const char *refusal = read_flags(out_has_pairs);
  return refusal ? refusal : ask_for_leave();
}
#else
static const char *look_at_processor(bool *out_has_pairs) {
  *out_has_pairs = false;
  return "AMX is known on Linux for x86-64 only";
}
#endif

/* PoCL's own CPU devices run in this process; its remote and other devices, which may be CPUs too, do not. */
static bool runs_here(const sattn_context *context) {
  static const char *const names[] = {"pthread", "basic", "cpu"};
  if (!sattn_cl_of(context)->is_pocl || context->device.type != SATTN_DEVICE_CPU) return false;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (strncmp(context->device.name, names[i], strlen(names[i])) == 0) return true;
  }
  return false;
}

/* ---- the known answer (kernels/amx_answer.cl) ---- */

static float right_answer(int m, int n) {
  int sum = m - n;
  for (int k = 0; k < 32; ++k) sum += ((7 * m + 5 * k) % 13 - 6) * ((3 * k + 11 * n) % 9 - 4);
  return (float)sum;
}

static sattn_status ask(sattn_context *context, sattn_buffer *buffer, float answer[256], sattn_error *error) {
  static const char *const sources[] = {"amx.cl", "amx_answer.cl", NULL};
  const size_t local = 1;
  sattn_cl_program *program = NULL;
  cl_kernel kernel = NULL;
  sattn_status status = sattn_buffer_write(buffer, 0, answer, 256 * sizeof *answer, error);
  if (status == SATTN_OK) status = sattn_cl_program_get(context, sources, "", &program, error);
  if (status == SATTN_OK) status = sattn_cl_kernel_create(context, program, "amx_answer", &kernel, error);
  if (status != SATTN_OK) return status;
  sattn_cl_binder binder = sattn_cl_bind(context, kernel);
  sattn_cl_bind_buffer(&binder, buffer);
  status = sattn_cl_bind_status(&binder, error);
  if (status == SATTN_OK) status = sattn_cl_launch_once(context, kernel, 1, &local, error);
  if (status == SATTN_OK) sattn_cl_program_launched(context, program);
  if (status == SATTN_OK) status = sattn_buffer_read(buffer, 0, answer, 256 * sizeof *answer, error);
  sattn_cl_kernel_release(context, &kernel);
  return status;
}

static const char *check_answer(sattn_context *context) {
  float answer[256];
  memset(answer, 0, sizeof answer);
  sattn_buffer *buffer = NULL;
  sattn_status status = sattn_buffer_create(context, sizeof answer, &buffer, NULL);
  if (status == SATTN_OK) status = ask(context, buffer, answer, NULL);
  sattn_buffer_destroy(&buffer);
  if (status != SATTN_OK) return "the kernel with AMX's known answer does not build or run";
  for (int i = 0; i < 256; ++i) {
    if (answer[i] != right_answer(i / 16, i % 16)) return "AMX gives another answer than the known one";
  }
  return NULL;
}

/* ---- once for a context ---- */

void sattn_cl_amx_find(sattn_context *context) {
  sattn_cl_context *cl = sattn_cl_of(context);
  pthread_mutex_lock(&context->lock);
  bool known = cl->amx.known;
  pthread_mutex_unlock(&context->lock);
  if (known) return;
  /* Two threads may come here; both find the same. */
  sattn_cl_amx found = {true, false, NULL};
  if (!context->amx) {
    found.refusal = "SATTN_AMX=0";
  } else if (!runs_here(context)) {
    found.refusal = "the device is no CPU of PoCL in this process";
  } else {
    found.refusal = look_at_processor(&found.has_pairs);
    if (!found.refusal) found.refusal = check_answer(context);
  }
  pthread_mutex_lock(&context->lock);
  if (!cl->amx.known) cl->amx = found;
  pthread_mutex_unlock(&context->lock);
}

const char *sattn_cl_amx_refusal(const sattn_context *context) {
  const sattn_cl_amx *amx = &sattn_cl_of(context)->amx;
  return amx->known ? amx->refusal : "nobody has looked for AMX";
}
