/* What the stub driver promises: work is lazy, memory is guarded, mistakes of the host
   are told, errors stick, every call can be made to fail. Kernels come from PTX text
   below, so nvcc is not needed; a fat binary as argument 1 is tested too. */
#ifdef SATTN_TEST_CUDA_H
#include <cuda.h>
#else
#include "cuda_calls.h"
#endif
#include "stub.h"

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void check_at(int ok, const char *what, int line) {
  if (ok) {
    ++passed;
    return;
  }
  ++failed;
  printf("FAIL line %d: %s (%s)\n", line, what, sattn_stub_report());
}
#define CHECK(x) check_at(!!(x), #x, __LINE__)
#define OK(call) check_at((call) == CUDA_SUCCESS, #call, __LINE__)
#define GIVES(code, call)                                      \
  do {                                                         \
    int got_ = (int)(call);                                    \
    if (got_ != (code)) printf("  got %d\n", got_);            \
    check_at(got_ == (code), #call " gives " #code, __LINE__); \
  } while (0)

/* p[i] += add for i < n, one thread an element; add_shared goes through shared memory */
#define PTX_HEAD(version, sm) ".version " version "\n.target " sm "\n.address_size 64\n"
#define PTX_BODY                                                                                                                      \
  ".visible .entry add(.param .u64 a_p, .param .u32 a_n, .param .u32 a_add)\n.maxntid 64, 1, 1\n{\n"                                  \
  ".reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;\n"                                                                            \
  "ld.param.u64 %rd1, [a_p]; ld.param.u32 %r1, [a_n]; ld.param.u32 %r2, [a_add];\n"                                                   \
  "mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.s32 %r3, %r4, %r5, %r3;\n"                                \
  "setp.ge.s32 %p1, %r3, %r1; @%p1 ret;\n"                                                                                            \
  "mul.wide.s32 %rd2, %r3, 4; add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r6, [%rd1]; add.s32 %r6, %r6, %r2; st.global.u32 [%rd1], %r6;" \
  "ret;\n}\n"                                                                                                                         \
  ".extern .shared .align 16 .b8 buffer[];\n.visible .entry fill(.param .u64 f_p)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"           \
  "ld.param.u64 %rd1, [f_p]; mov.u32 %r1, %tid.x; mov.u64 %rd3, buffer; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd3, %rd2;\n"       \
  "st.shared.u32 [%rd3], %r1; bar.sync 0; ld.shared.u32 %r2, [%rd3]; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r2; ret;\n}\n"
static const char ptx70[] = PTX_HEAD("7.0", "sm_80") PTX_BODY;
static const char ptx90[] = PTX_HEAD("9.0", "sm_80") PTX_BODY;
static const char ptx_sm90[] = PTX_HEAD("7.8", "sm_90") PTX_BODY;

enum { n = 200 };

typedef struct fixture {
  CUcontext context;
  CUmodule module;
  CUfunction add, fill;
  CUstream stream;
  CUdeviceptr p;
} fixture;

static void set_up(fixture *f, int device) {
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&f->context, device));
  OK(cuCtxPushCurrent(f->context));
  OK(cuModuleLoadData(&f->module, ptx70));
  OK(cuModuleGetFunction(&f->add, f->module, "add"));
  OK(cuModuleGetFunction(&f->fill, f->module, "fill"));
  OK(cuStreamCreate(&f->stream, 1));
  OK(cuMemAlloc(&f->p, n * 4));
  OK(cuMemsetD32(f->p, 0, n));
}

static void tear_down(fixture *f, int device) {
  OK(cuMemFree(f->p));
  OK(cuStreamDestroy(f->stream));
  OK(cuModuleUnload(f->module));
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(device));
}

static CUresult add_on(fixture *f, CUstream stream, CUdeviceptr p, int count, int value) {
  void *arguments[] = {&p, &count, &value};
  return cuLaunchKernel(f->add, (unsigned)(count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, arguments, NULL);
}

static int holds(CUdeviceptr p, int value) {
  int h[n], ok = 1;
  if (cuMemcpyDtoH(h, p, sizeof h) != CUDA_SUCCESS) return 0;
  for (int i = 0; i < n; ++i) ok &= h[i] == value;
  return ok;
}

static int nothing_left(void) {
  sattn_stub_stats s;
  sattn_stub_get_stats(&s);
  return !s.retains && !s.contexts && !s.modules && !s.streams && !s.events && !s.allocations && !s.host_allocations && !s.graphs &&
         !s.graph_execs && !s.orphans;
}

static void before_anything(void) {
  CUcontext c;
  CUdeviceptr p;
  int v = 0;
  GIVES(3, cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuDriverGetVersion(&v));
  CHECK(v == 13000);
  OK(cuInit(0));
  GIVES(201, cuMemAlloc(&p, 256));
  GIVES(201, cuCtxPopCurrent(NULL));
}

static void devices(void) {
  int count = 0, v = 0;
  CUdevice d = 7;
  char name[64];
  size_t bytes;
  OK(cuDeviceGetCount(&count));
  CHECK(count == 2);
  OK(cuDeviceGet(&d, 1));
  GIVES(101, cuDeviceGet(&d, 2));
  OK(cuDeviceGetName(name, sizeof name, 0));
  CHECK(strcmp(name, "Simulated sm_80") == 0);
  OK(cuDeviceTotalMem(&bytes, 0));
  OK(cuDeviceGetAttribute(&v, 75, 0));
  CHECK(v == 8);
  OK(cuDeviceGetAttribute(&v, 97, 0));
  CHECK(v == 163 << 10);
  GIVES(1, cuDeviceGetAttribute(&v, 9999, 0));
}

static sigjmp_buf fault;
static void on_fault(int s) {
  (void)s;
  siglongjmp(fault, 1);
}
static int host_reads(CUdeviceptr p) {
  int ok = 0;
  signal(SIGSEGV, on_fault);
  if (!sigsetjmp(fault, 1)) {
    (void)*(volatile char *)(uintptr_t)p;
    ok = 1;
  }
  signal(SIGSEGV, SIG_DFL);
  return ok;
}

static void memory(fixture *f) {
  float h[n], one = 1;
  CUdeviceptr p, q, base;
  size_t bytes, total, free_bytes;
  unsigned type = 0;
  int device = -1;
  OK(cuMemAlloc(&p, sizeof h));
  CHECK(p % 256 == 0);
  OK(cuMemcpyDtoH(h, p, sizeof h));
  CHECK(h[0] != h[0] && h[n - 1] != h[n - 1]); /* fresh memory is poison */
  CHECK(!host_reads(p));
  CHECK(!host_reads(p + sizeof h - 1));
  GIVES(1, cuMemcpyHtoD(p, h, sizeof h + 1));
  GIVES(1, cuMemcpyHtoD(p - 4, h, 4));
  GIVES(1, cuMemcpyHtoD((CUdeviceptr)(uintptr_t)h, &one, 4));
  GIVES(1, cuMemcpyHtoD(p, (void *)(uintptr_t)f->p, 4));
  GIVES(1, cuMemcpyDtoD(p, f->p + 8, n * 4));
  OK(cuMemcpyDtoD(p, f->p, n * 4));
  CHECK(holds(p, 0));
  OK(cuMemGetAddressRange(&base, &bytes, p + 5));
  CHECK(base == p && bytes == sizeof h);
  OK(cuPointerGetAttribute(&type, 2, p + 5));
  CHECK(type == 2);
  OK(cuPointerGetAttribute(&device, 9, p));
  CHECK(device == 0);
  GIVES(1, cuPointerGetAttribute(&type, 2, (CUdeviceptr)(uintptr_t)h));
  CUpointer_attribute attributes[2] = {2, 9};
  void *data[2] = {&type, &device};
  OK(cuPointerGetAttributes(2, attributes, data, (CUdeviceptr)(uintptr_t)h));
  CHECK(type == 0);
  GIVES(1, cuMemFree(p + 4));
  OK(cuMemFree(p));
  GIVES(1, cuMemFree(p));
  OK(cuMemAlloc(&q, sizeof h));
  CHECK(q != p); /* addresses are not used again */
  OK(cuMemFree(q));
  OK(cuMemGetInfo(&free_bytes, &total));
  CHECK(total - free_bytes == n * 4);
  GIVES(2, cuMemAlloc(&p, free_bytes + 1));
  void *pinned;
  OK(cuMemAllocHost(&pinned, 4096));
  OK(cuMemFreeHost(pinned));
  GIVES(1, cuMemFreeHost(pinned));
}

static void laziness(fixture *f) {
  int h[n];
  memset(h, 0x55, sizeof h);
  int value = 5, count = n;
  CUdeviceptr p = f->p;
  void *arguments[] = {&p, &count, &value};
  OK(cuMemsetD32(f->p, 0, n));
  OK(cuLaunchKernel(f->add, 4, 1, 1, 64, 1, 1, 0, f->stream, arguments, NULL));
  p = 0; /* the driver has read the parameters already */
  value = count = -1;
  OK(cuMemcpyDtoHAsync(h, f->p, sizeof h, f->stream));
  CHECK(h[0] == 0x55555555);
  CHECK(cuStreamQuery(f->stream) == 600);
  OK(cuStreamSynchronize(f->stream));
  CHECK(h[0] == 5 && h[n - 1] == 5);
  OK(cuStreamQuery(f->stream));
}

/* A non-blocking stream does not wait for the legacy one, a blocking one does. */
static void ordering(fixture *f) {
  CUstream a, b;
  CUevent e;
  OK(cuStreamCreate(&a, 1));
  OK(cuStreamCreate(&b, 1));
  OK(cuEventCreate(&e, 2));
  OK(cuMemsetD32(f->p, 0, n));
  OK(add_on(f, a, f->p, n, 1));
  OK(cuEventRecord(e, a));
  OK(cuStreamWaitEvent(b, e, 0));
  OK(add_on(f, b, f->p, n, 10));
  GIVES(600, cuEventQuery(e));
  OK(cuStreamSynchronize(b)); /* runs a's work first */
  CHECK(holds(f->p, 11));
  OK(cuEventSynchronize(e));
  OK(cuEventQuery(e));
  OK(add_on(f, a, f->p, n, 100));
  CHECK(holds(f->p, 11)); /* the copy does not wait for a non-blocking stream */
  OK(cuCtxSynchronize());
  CHECK(holds(f->p, 111));
  OK(cuStreamDestroy(a));
  OK(cuStreamCreate(&a, 0));
  OK(add_on(f, a, f->p, n, 1));
  CHECK(holds(f->p, 112)); /* but for a blocking one */
  OK(cuEventDestroy(e));
  OK(cuStreamDestroy(a));
  OK(cuStreamDestroy(b));
}

static void launches(fixture *f) {
  CUdeviceptr p = f->p;
  int count = n, value = 1, v = 0, blocks = 0;
  void *a[] = {&p, &count, &value};
  void *one[] = {&p};
  GIVES(1, cuLaunchKernel(f->add, 0, 1, 1, 64, 1, 1, 0, f->stream, a, NULL));
  GIVES(1, cuLaunchKernel(f->add, 1, 65536, 1, 64, 1, 1, 0, f->stream, a, NULL));
  GIVES(1, cuLaunchKernel(f->add, 1, 1, 1, 128, 1, 1, 0, f->stream, a, NULL)); /* launch bounds */
  GIVES(1, cuLaunchKernel(f->add, 1, 1, 1, 1, 1, 65, 0, f->stream, a, NULL));
  GIVES(1, cuLaunchKernel(f->fill, 1, 1, 1, 64, 1, 1, 50000, f->stream, one, NULL));
  OK(cuFuncSetAttribute(f->fill, 8, 50000));
  OK(cuLaunchKernel(f->fill, 1, 1, 1, 64, 1, 1, 50000, f->stream, one, NULL));
  OK(cuStreamSynchronize(f->stream));
  GIVES(1, cuFuncSetAttribute(f->fill, 8, (163 << 10) + 1));
  OK(cuFuncGetAttribute(&v, 8, f->fill));
  CHECK(v == 50000);
  OK(cuFuncGetAttribute(&v, 0, f->add));
  CHECK(v == 64);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f->fill, 128, 40 << 10));
  CHECK(blocks == 4);
  GIVES(400, cuLaunchKernel((CUfunction)(void *)f, 1, 1, 1, 64, 1, 1, 0, f->stream, a, NULL));
  GIVES(400, cuLaunchKernel(f->add, 1, 1, 1, 64, 1, 1, 0, (CUstream)(void *)f, a, NULL));
  CUfunction g;
  GIVES(500, cuModuleGetFunction(&g, f->module, "nosuch"));
}

/* An error of a kernel is told at the next wait and by every call after. */
static void sticking(int device) {
  fixture f;
  int host[n];
  CUdeviceptr q;
  set_up(&f, device);
  OK(add_on(&f, f.stream, (CUdeviceptr)(uintptr_t)host, n, 1));
  GIVES(700, cuStreamSynchronize(f.stream));
  CHECK(strstr(sattn_stub_report(), "in no device allocation") != NULL);
  GIVES(700, cuMemAlloc(&q, 4));
  GIVES(700, cuMemcpyDtoH(host, f.p, 4));
  GIVES(700, cuMemFree(f.p)); /* it is freed all the same */
  GIVES(700, cuStreamDestroy(f.stream));
  GIVES(700, cuModuleUnload(f.module));
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(device));
  CHECK(nothing_left());
  set_up(&f, device); /* a new context is healthy */
  OK(add_on(&f, f.stream, f.p, n + 1, 1));
  GIVES(700, cuCtxSynchronize());
  cuMemFree(f.p), cuStreamDestroy(f.stream), cuModuleUnload(f.module), cuCtxPopCurrent(NULL), cuDevicePrimaryCtxRelease(device);
  CHECK(nothing_left());
}

static void graphs(fixture *f) {
  CUgraph graph;
  CUgraphExec exec;
  CUstream other;
  CUevent fork, join;
  CUstreamCaptureStatus status;
  size_t nodes = 0;
  CUdeviceptr q;
  OK(cuStreamCreate(&other, 1));
  OK(cuEventCreate(&fork, 2));
  OK(cuEventCreate(&join, 2));
  OK(cuMemsetD32(f->p, 0, n));
  OK(cuStreamBeginCapture(f->stream, 0));
  OK(add_on(f, f->stream, f->p, n, 1));
  OK(cuEventRecord(fork, f->stream));
  OK(cuStreamWaitEvent(other, fork, 0));
  OK(add_on(f, other, f->p, n, 10));
  OK(cuStreamIsCapturing(other, &status));
  CHECK(status == 1);
  OK(cuEventRecord(join, other));
  OK(cuStreamWaitEvent(f->stream, join, 0));
  OK(cuStreamEndCapture(f->stream, &graph));
  OK(cuStreamIsCapturing(other, &status));
  CHECK(status == 0);
  OK(cuGraphGetNodes(graph, NULL, &nodes));
  CHECK(nodes == 2);
  CHECK(holds(f->p, 0)); /* nothing has run */
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) OK(cuGraphLaunch(exec, f->stream));
  OK(cuStreamSynchronize(f->stream));
  CHECK(holds(f->p, 33));
  OK(cuGraphLaunch(exec, f->stream));
  OK(cuGraphExecDestroy(exec));
  OK(cuStreamSynchronize(f->stream));
  CHECK(holds(f->p, 44));
  /* what a capture does not allow */
  OK(cuStreamBeginCapture(f->stream, 0));
  GIVES(900, cuMemAlloc(&q, 64));
  GIVES(901, add_on(f, f->stream, f->p, n, 1));
  GIVES(901, cuStreamEndCapture(f->stream, &graph));
  OK(cuStreamBeginCapture(f->stream, 0));
  GIVES(900, cuStreamSynchronize(f->stream));
  GIVES(901, cuStreamEndCapture(f->stream, &graph));
  OK(cuStreamBeginCapture(f->stream, 0));
  OK(cuEventRecord(fork, f->stream));
  OK(cuStreamWaitEvent(other, fork, 0));
  OK(add_on(f, other, f->p, n, 1));
  GIVES(904, cuStreamEndCapture(f->stream, &graph)); /* nobody waits for the other stream */
  GIVES(401, cuStreamEndCapture(f->stream, &graph));
  GIVES(900, cuStreamBeginCapture(NULL, 0));
  OK(cuEventDestroy(fork));
  OK(cuEventDestroy(join));
  OK(cuStreamDestroy(other));
}

static void contexts(void) {
  fixture a, b;
  CUcontext c;
  CUdevice d = -1;
  int h[n];
  set_up(&a, 0);
  set_up(&b, 1); /* now current */
  CHECK(sattn_stub_context_depth() == 2);
  OK(cuCtxGetDevice(&d));
  CHECK(d == 1);
  CHECK(add_on(&b, a.stream, b.p, n, 1) != CUDA_SUCCESS);
  CHECK(add_on(&a, b.stream, b.p, n, 1) != CUDA_SUCCESS);
  GIVES(1, cuMemcpyDtoH(h, a.p, 4));
  OK(add_on(&b, b.stream, a.p, n, 1)); /* the other device's memory */
  GIVES(700, cuStreamSynchronize(b.stream));
  cuMemFree(b.p), cuStreamDestroy(b.stream), cuModuleUnload(b.module), cuCtxPopCurrent(NULL), cuDevicePrimaryCtxRelease(1);
  OK(cuCtxGetCurrent(&c));
  CHECK(c == a.context);
  OK(add_on(&a, a.stream, a.p, n, 7)); /* an error of one device leaves the other alone */
  OK(cuStreamSynchronize(a.stream));
  CHECK(holds(a.p, 7));
  tear_down(&a, 0);
  GIVES(201, cuCtxPushCurrent(a.context)); /* it is gone */
  CHECK(sattn_stub_context_depth() == 0 && nothing_left());
}

static void leaks_show(void) {
  fixture f;
  sattn_stub_stats s;
  set_up(&f, 0);
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(0));
  sattn_stub_get_stats(&s);
  CHECK(s.orphans == 3 && s.allocations == 0);
  sattn_stub_reset();
  GIVES(201, cuDevicePrimaryCtxRelease(0));
}

static void images(void) {
  CUcontext c;
  CUmodule m;
  char log[200] = "x";
  CUjit_option options[] = {5, 6};
  void *values[] = {log, (void *)(uintptr_t)sizeof log};
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxPushCurrent(c));
  GIVES(200, cuModuleLoadData(&m, "nothing that a driver knows"));
  GIVES(209, cuModuleLoadData(&m, ptx_sm90));
  GIVES(218, cuModuleLoadDataEx(&m, PTX_HEAD("7.0", "sm_80") ".visible .entry k()\n{\nunheard.of;\n}\n", 2, options, values));
  CHECK(strstr(log, "unheard") != NULL);
  CHECK(sattn_stub_set("capability", 90));
  OK(cuModuleLoadData(&m, ptx_sm90));
  OK(cuModuleUnload(m));
  CHECK(sattn_stub_set("driver", 12020));
  GIVES(222, cuModuleLoadData(&m, ptx90));
  OK(cuModuleLoadData(&m, ptx70));
  OK(cuModuleUnload(m));
  CHECK(sattn_stub_set("driver", 13000) && sattn_stub_set("capability", 80));
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(0));
}

static void *read_file(const char *name) {
  FILE *file = fopen(name, "rb");
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  char *data = calloc(1, (size_t)size + 1);
  if (data && fread(data, 1, (size_t)size, file) != (size_t)size) printf("short read\n");
  fclose(file);
  return data;
}

/* What nvcc packed: machine code for sm_80 and sm_90, PTX for compute_80. */
static void fat_binary(const char *name) {
  CUcontext c;
  CUmodule m;
  CUfunction f;
  int v = 0;
  void *image = read_file(name);
  CHECK(image != NULL);
  if (!image) return;
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxPushCurrent(c));
  for (int capability = 80; capability <= 90; capability += 10) {
    CHECK(sattn_stub_set("capability", capability));
    OK(cuModuleLoadData(&m, image));
    OK(cuModuleGetFunction(&f, m, "selftest_attention_f16"));
    OK(cuFuncGetAttribute(&v, 4, f));
    CHECK(v > 32 && v <= 255);
    OK(cuFuncGetAttribute(&v, 6, f));
    CHECK(v == capability);
    OK(cuModuleUnload(m));
  }
  CHECK(sattn_stub_set("capability", 75));
  GIVES(209, cuModuleLoadData(&m, image));
  CHECK(sattn_stub_set("capability", 80) && sattn_stub_set("driver", 12020));
  GIVES(222, cuModuleLoadData(&m, image));
  CHECK(sattn_stub_set("driver", 13000));
  OK(cuCtxPopCurrent(NULL));
  OK(cuDevicePrimaryCtxRelease(0));
  free(image);
}

static void entry_points(void) {
  void *f = NULL;
  CUdriverProcAddressQueryResult status;
  const char *text;
  OK(cuGetProcAddress("cuMemAlloc", &f, 12000, 0, &status));
  CHECK(f != NULL && status == 0);
  OK(cuGetProcAddress("cuLaunchKernel", &f, 12000, 0, &status));
  GIVES(500, cuGetProcAddress("cuLaunchKernelEx", &f, 11000, 0, &status));
  CHECK(f == NULL && status == 2);
  GIVES(500, cuGetProcAddress("cuTensorMapEncodeTiled", &f, 13000, 0, &status));
  CHECK(status == 1 && strstr(sattn_stub_report(), "cuTensorMapEncodeTiled") != NULL);
  OK(cuGetErrorString(700, &text));
  CHECK(strstr(text, "illegal") != NULL);
  OK(cuGetErrorName(2, &text));
  CHECK(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
  CHECK(cuGetErrorName(12345, &text) != CUDA_SUCCESS);
}

/* One round of everything, giving the first error; what it made is always released. */
static CUresult round_trip(void) {
  CUcontext c = NULL;
  CUmodule m = NULL;
  CUfunction f;
  CUstream s = NULL;
  CUdeviceptr p = 0;
  int h[4] = {1, 2, 3, 4}, count = 4, add = 1, pushed = 0;
  void *a[] = {&p, &count, &add};
  CUresult r, e;
#define TRY(call) \
  if ((r = (call)) != CUDA_SUCCESS) goto out
  TRY(cuDevicePrimaryCtxRetain(&c, 0));
  TRY(cuCtxPushCurrent(c));
  pushed = 1;
  TRY(cuModuleLoadData(&m, ptx70));
  TRY(cuModuleGetFunction(&f, m, "add"));
  TRY(cuStreamCreate(&s, 1));
  TRY(cuMemAlloc(&p, sizeof h));
  TRY(cuMemcpyHtoDAsync(p, h, sizeof h, s));
  TRY(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, s, a, NULL));
  TRY(cuMemcpyDtoHAsync(h, p, sizeof h, s));
  TRY(cuStreamSynchronize(s));
  if (h[0] != 2 || h[3] != 5) r = (CUresult)1;
out:
#define KEEP(call) \
  if ((e = (call)) != CUDA_SUCCESS && r == CUDA_SUCCESS) r = e
  if (pushed) {
    if (p) KEEP(cuMemFree(p));
    if (s) KEEP(cuStreamDestroy(s));
    if (m) KEEP(cuModuleUnload(m));
    KEEP(cuCtxPopCurrent(NULL));
  }
  if (c) KEEP(cuDevicePrimaryCtxRelease(0));
  return r;
}

static void injection(void) {
  sattn_stub_stats before, after;
  long calls, k;
  sattn_stub_reset();
  OK(round_trip());
  sattn_stub_get_stats(&before);
  calls = before.calls;
  CHECK(calls >= 15);
  for (k = 1; k <= calls; ++k) {
    sattn_stub_fail_at(k, 719);
    GIVES(719, round_trip());
    sattn_stub_get_stats(&after);
    CHECK(after.failed_function[0] != '\0');
    CHECK(nothing_left());
    CHECK(sattn_stub_context_depth() == 0);
  }
  sattn_stub_fail_at(calls + 1, 719);
  OK(round_trip());
  sattn_stub_fail_at(0, 0);
  sattn_stub_fail_name("cuMemAlloc_v2", 0, 2);
  GIVES(2, round_trip());
  OK(round_trip());
  sattn_stub_fail_kernel(1, 719);
  GIVES(719, round_trip());
  CHECK(nothing_left());
  OK(round_trip());
}

static int host_step(void *data) {
  ++*(int *)data;
  return 0;
}

static void other_libraries(fixture *f) {
  int steps = 0;
  OK((CUresult)sattn_stub_enqueue(f->stream, host_step, &steps, NULL));
  CHECK(steps == 0);
  OK(cuStreamSynchronize(f->stream));
  CHECK(steps == 1);
}

int main(int argc, char **argv) {
  fixture f;
  CHECK(sattn_stub_set("devices", 2) && !sattn_stub_set("nonsense", 1));
  before_anything();
  sattn_stub_reset();
  devices();
  set_up(&f, 0);
  memory(&f);
  laziness(&f);
  ordering(&f);
  launches(&f);
  graphs(&f);
  other_libraries(&f);
  tear_down(&f, 0);
  CHECK(nothing_left());
  sticking(1);
  contexts();
  leaks_show();
  images();
  entry_points();
  injection();
  if (argc > 1) fat_binary(argv[1]);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}
