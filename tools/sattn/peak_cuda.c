/* What a CUDA device really does: fused multiply-adds in fp32, products of fp16 and bf16 tiles, and bytes moved to and from its memory.
 *
 * The device's primary context, which the library uses too, through libcuda opened at run time. The kernels are PTX that is written here,
 * line by line, and compiled by the driver, as the OpenCL twin's is; no CUDA compiler is needed.
 *
 *     peak_fma        16 independent sums in each thread
 *     peak_fp16,      8 independent 16 x 8 tiles in each warp, mma.sync m16n8k16 with fp32 sums: what the library's kernels are made of
 *     peak_bf16
 *     peak_copy       16 bytes a thread at a time, from one half of the memory to the other
 */
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "peak.h"

enum { TEXT_BYTES = 1 << 15, THREADS = 256, BLOCKS_PER_UNIT = 2, COPY_BLOCKS = 4, SUMS = 16, TILES = 8, UNROLL = 4 };
enum { FMA, FP16, BF16, COPY, KERNELS };

static const char *const NAMES[KERNELS] = {"peak_fma", "peak_fp16", "peak_bf16", "peak_copy"};

typedef struct driver {
  int (*device_get)(int *, int);
  int (*retain)(void **, int);
  int (*release)(int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*load)(void **, const void *);
  int (*unload)(void *);
  int (*function)(void **, void *, const char *);
  int (*allocate)(unsigned long long *, size_t);
  int (*free)(unsigned long long);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
  int (*wait)(void);
} driver;

typedef struct cuda_peak {
  sattn_peak base; /* first, so that the two pointers are one */
  driver cu;
  int device;
  void *context, *module, *kernels[KERNELS];
  unsigned long long out, memory;
  unsigned blocks;
  unsigned steps[KERNELS];  /* these grow until a run is long enough to time */
  size_t bytes, most_bytes; /* of the copied memory: both halves */
} cuda_peak;

/* ---- PTX ---- */

typedef struct writer {
  char *text;
  size_t used;
} writer;

static void add(writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(w->text + w->used, TEXT_BYTES - w->used, format, arguments);
  va_end(arguments);
  w->used += (size_t)length;
  if (w->used >= TEXT_BYTES) w->used = TEXT_BYTES - 1; /* the driver refuses what is cut short */
}

/* %r1 steps, %r2 number of the thread, %rd1 first parameter as a global address. */
static void open_kernel(writer *w, const char *name) {
  add(w, ".visible .entry %s(\n.param .u64 %s_param_0,\n.param .u32 %s_param_1\n)\n.maxntid %d, 1, 1\n{\n", name, name, name, THREADS);
  add(w, ".reg .pred %%p<4>;\n.reg .f32 %%f<64>;\n.reg .b32 %%r<32>;\n.reg .b64 %%rd<16>;\n");
  add(w, "ld.param.u64 %%rd2, [%s_param_0];\nld.param.u32 %%r1, [%s_param_1];\ncvta.to.global.u64 %%rd1, %%rd2;\n", name, name);
  add(w, "mov.u32 %%r3, %%ctaid.x;\nmov.u32 %%r4, %%ntid.x;\nmov.u32 %%r5, %%tid.x;\nmad.lo.s32 %%r2, %%r3, %%r4, %%r5;\n");
}

static void close_loop(writer *w, const char *label) {
  add(w, "add.s32 %%r1, %%r1, -1;\nsetp.ne.s32 %%p1, %%r1, 0;\n@%%p1 bra $L_%s;\n", label);
}

/* The sum of %f1..%f<count>, so that nothing is left out as unused. */
static void close_sums(writer *w, int count) {
  for (int i = 2; i <= count; i++) add(w, "add.f32 %%f1, %%f1, %%f%d;\n", i);
  add(w, "mul.wide.s32 %%rd3, %%r2, 4;\nadd.s64 %%rd4, %%rd1, %%rd3;\nst.global.f32 [%%rd4], %%f1;\nret;\n}\n");
}

static void write_fma(writer *w) {
  open_kernel(w, NAMES[FMA]);
  add(w, "cvt.rn.f32.s32 %%f1, %%r2;\nmov.f32 %%f17, 0f3F7FBE77;\nmov.f32 %%f18, 0f3A83126F;\n"); /* 0.999, 0.001 */
  for (int i = 2; i <= SUMS; i++) add(w, "add.f32 %%f%d, %%f%d, %%f17;\n", i, i - 1);
  add(w, "$L_fma:\n");
  for (int k = 0; k < UNROLL; k++)
    for (int i = 1; i <= SUMS; i++) add(w, "fma.rn.f32 %%f%d, %%f%d, %%f17, %%f18;\n", i, i);
  close_loop(w, "fma");
  close_sums(w, SUMS);
}

/* Operands are small numbers that differ from thread to thread: zeros would draw less power than work does. */
static void write_mma(writer *w, int kernel) {
  const char *type = kernel == FP16 ? "f16" : "bf16";
  open_kernel(w, NAMES[kernel]);
  for (int i = 1; i <= 4 * TILES; i++) add(w, "mov.f32 %%f%d, 0f00000000;\n", i);
  for (int i = 10; i < 16; i++) {
    add(w, "mad.lo.s32 %%r%d, %%r2, %d, 1013904223;\nand.b32 %%r%d, %%r%d, %d;\n", i, 1664525 + 4098 * i, i, i, 0x3b4f3b4f);
  }
  add(w, "$L_%s:\n", type);
  for (int k = 0; k < UNROLL; k++)
    for (int t = 0; t < TILES; t++) {
      int f = 4 * t + 1;
      add(w, "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 {%%f%d,%%f%d,%%f%d,%%f%d}, {%%r10,%%r11,%%r12,%%r13}, {%%r14,%%r15}, ", type,
          type, f, f + 1, f + 2, f + 3);
      add(w, "{%%f%d,%%f%d,%%f%d,%%f%d};\n", f, f + 1, f + 2, f + 3);
    }
  close_loop(w, type);
  close_sums(w, 4 * TILES);
}

/* Here the second parameter counts the chunks of 16 bytes in each half. */
static void write_copy(writer *w) {
  open_kernel(w, NAMES[COPY]);
  add(w, "mov.u32 %%r6, %%nctaid.x;\nmul.lo.s32 %%r7, %%r6, %%r4;\nmul.wide.u32 %%rd3, %%r1, 16;\nsetp.ge.u32 %%p1, %%r2, %%r1;\n");
  add(w, "@%%p1 bra $L_done;\n$L_copy:\nmul.wide.u32 %%rd4, %%r2, 16;\nadd.s64 %%rd5, %%rd1, %%rd4;\nadd.s64 %%rd6, %%rd5, %%rd3;\n");
  add(w, "ld.global.v4.u32 {%%r10,%%r11,%%r12,%%r13}, [%%rd5];\nst.global.v4.u32 [%%rd6], {%%r10,%%r11,%%r12,%%r13};\n");
  add(w, "add.s32 %%r2, %%r2, %%r7;\nsetp.lt.u32 %%p2, %%r2, %%r1;\n@%%p2 bra $L_copy;\n$L_done:\nret;\n}\n");
}

static char *write_ptx(sattn_report *report) {
  writer w = {sattn_tool_allocate(report, "PTX", TEXT_BYTES, 1), 0};
  if (!w.text) return NULL;
  add(&w, ".version 7.0\n.target sm_80\n.address_size 64\n\n");
  write_fma(&w);
  write_mma(&w, FP16);
  write_mma(&w, BF16);
  write_copy(&w);
  return w.text;
}

/* ---- driver ---- */

static bool load(driver *cu) {
  const struct {
    const char *name;
    void *slot;
  } symbols[] = {
      {"cuDeviceGet", &cu->device_get},   {"cuDevicePrimaryCtxRetain", &cu->retain}, {"cuDevicePrimaryCtxRelease_v2", &cu->release},
      {"cuCtxPushCurrent_v2", &cu->push}, {"cuCtxPopCurrent_v2", &cu->pop},          {"cuModuleLoadData", &cu->load},
      {"cuModuleUnload", &cu->unload},    {"cuModuleGetFunction", &cu->function},    {"cuMemAlloc_v2", &cu->allocate},
      {"cuMemFree_v2", &cu->free},        {"cuLaunchKernel", &cu->launch},           {"cuCtxSynchronize", &cu->wait}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *symbol = dlsym(library, symbols[i].name);
    if (!symbol) return false;
    memcpy(symbols[i].slot, &symbol, sizeof symbol); /* C has no conversion from object to function pointers */
  }
  return true;
}

/* Seconds of one launch, NAN if it failed. The context is current. */
static double launch(cuda_peak *p, int kernel, unsigned long long memory, unsigned count) {
  void *parameters[] = {&memory, &count};
  unsigned blocks = kernel == COPY ? COPY_BLOCKS * p->blocks : p->blocks; /* a copy keeps as many threads waiting as there can be */
  double start = sattn_clock_seconds();
  if (p->cu.launch(p->kernels[kernel], blocks, 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL) != 0 || p->cu.wait() != 0)
    return (double)NAN;
  return sattn_clock_seconds() - start;
}

static const double LONG_ENOUGH = 0.03; /* seconds */

/* Steps of a kernel per second. */
static double steps_per_second(cuda_peak *p, int kernel) {
  for (;;) {
    double seconds = launch(p, kernel, p->out, p->steps[kernel]);
    if (!(seconds < LONG_ENOUGH) || p->steps[kernel] >= 1u << 26) return (double)p->steps[kernel] / seconds;
    p->steps[kernel] *= 2;
  }
}

static double measure_kernel(cuda_peak *p, int kernel, double operations) {
  if (p->cu.push(p->context) != 0) return (double)NAN;
  double rate = steps_per_second(p, kernel) * operations * 1e-9;
  p->cu.pop(&(void *){NULL});
  return rate;
}

static double measure(sattn_peak *peak) {
  cuda_peak *p = (cuda_peak *)peak;
  return measure_kernel(p, FMA, 2.0 * SUMS * UNROLL * THREADS * p->blocks);
}

static double measure_mma(sattn_peak *peak, sattn_dtype dtype) {
  cuda_peak *p = (cuda_peak *)peak;
  if (dtype == SATTN_FP32) return (double)NAN;
  return measure_kernel(p, dtype == SATTN_FP16 ? FP16 : BF16, 2.0 * 16 * 8 * 16 * TILES * UNROLL * (THREADS / 32) * p->blocks);
}

/* Memory grows first, beyond every cache, then the number of launches. */
static double copy(cuda_peak *p) {
  for (;;) {
    if (!p->memory && p->cu.allocate(&p->memory, p->bytes) != 0) return (double)NAN;
    double seconds = 0;
    for (unsigned pass = 0; pass < p->steps[COPY]; pass++) seconds += launch(p, COPY, p->memory, (unsigned)(p->bytes / 32));
    if (!(seconds < LONG_ENOUGH)) return (double)p->bytes * p->steps[COPY] / seconds;
    if (p->bytes >= p->most_bytes) {
      p->steps[COPY] *= 2;
      continue;
    }
    p->cu.free(p->memory);
    p->memory = 0;
    p->bytes *= 2;
  }
}

static double measure_bandwidth(sattn_peak *peak) {
  cuda_peak *p = (cuda_peak *)peak;
  if (p->cu.push(p->context) != 0) return (double)NAN;
  double rate = copy(p) * 1e-9;
  p->cu.pop(&(void *){NULL});
  return rate;
}

static void destroy(sattn_peak *peak) {
  cuda_peak *p = (cuda_peak *)peak;
  if (p->context) {
    p->cu.push(p->context);
    if (p->memory) p->cu.free(p->memory);
    if (p->out) p->cu.free(p->out);
    if (p->module) p->cu.unload(p->module);
    p->cu.pop(&(void *){NULL});
    p->cu.release(p->device);
  }
  free(p); /* the driver stays open, as the library has it open */
}

static bool prepare(cuda_peak *p, const sattn_device_info *info, const char *ptx) {
  const size_t most = (size_t)1 << 30;
  int ordinal = 0;
  if (sscanf(info->id, "cuda:%d", &ordinal) != 1 || p->cu.device_get(&p->device, ordinal) != 0) return false;
  if (p->cu.retain(&p->context, p->device) != 0) return false;
  p->blocks = BLOCKS_PER_UNIT * (info->compute_units ? (unsigned)info->compute_units : 1u);
  for (int k = 0; k < KERNELS; k++) p->steps[k] = 1;
  p->bytes = (size_t)1 << 17;
  p->most_bytes = p->bytes;
  while (p->most_bytes < most && p->most_bytes < info->memory_bytes / 8) p->most_bytes *= 2;
  if (p->cu.push(p->context) != 0) return false;
  bool fine = p->cu.load(&p->module, ptx) == 0 && p->cu.allocate(&p->out, (size_t)p->blocks * THREADS * sizeof(float)) == 0;
  for (int k = 0; fine && k < KERNELS; k++) fine = p->cu.function(&p->kernels[k], p->module, NAMES[k]) == 0;
  fine = fine && !isnan(launch(p, FMA, p->out, 1));
  p->cu.pop(&(void *){NULL});
  return fine;
}

bool sattn_peak_create_cuda(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report) {
  cuda_peak *p = sattn_tool_allocate(report, "peak", 1, sizeof *p);
  char *ptx = p ? write_ptx(report) : NULL;
  if (!ptx) return free(p), false;
  p->base.measure = measure;
  p->base.measure_mma = measure_mma;
  p->base.measure_bandwidth = measure_bandwidth;
  p->base.destroy = destroy;
  bool fine = load(&p->cu) && prepare(p, sattn_context_device(context), ptx);
  free(ptx);
  if (fine) {
    *out_peak = &p->base;
  } else {
    *out_reason = "the kernels that measure the peak could not be run";
    destroy(&p->base);
  }
  return true;
}
