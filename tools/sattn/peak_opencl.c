/* Fused multiply-adds on an OpenCL device: the same device and context as the library's, through libOpenCL opened at run time.
 *
 * Each work-item keeps a dozen independent vectors in registers and runs a = fma(a, b, c) on them. On a CPU a vector is 16 floats (any
 * narrower register file splits it) and a work-group one work-item; on a GPU the vectors are short and the work-items many. */
#include <dlfcn.h>
#include <math.h>
#include <sattn/opencl.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "peak.h"

enum { ACCUMULATORS = 12, CPU_LANES = 16, GPU_LANES = 4, CPU_ITEMS = 32, GPU_ITEMS = 2048, GPU_GROUP = 128 };

static const char SOURCE[] =
    "__kernel void peak(__global VECTOR *out, float factor, float term, int steps) {\n"
    "  VECTOR b = factor, c = term, start = (float)get_global_id(0);\n"
    "  VECTOR a0 = start, a1 = start + 1, a2 = start + 2, a3 = start + 3, a4 = start + 4, a5 = start + 5;\n"
    "  VECTOR a6 = start + 6, a7 = start + 7, a8 = start + 8, a9 = start + 9, a10 = start + 10, a11 = start + 11;\n"
    "  for (int i = 0; i < steps; i++) {\n"
    "    a0 = fma(a0, b, c); a1 = fma(a1, b, c); a2 = fma(a2, b, c); a3 = fma(a3, b, c); a4 = fma(a4, b, c); a5 = fma(a5, b, c);\n"
    "    a6 = fma(a6, b, c); a7 = fma(a7, b, c); a8 = fma(a8, b, c); a9 = fma(a9, b, c); a10 = fma(a10, b, c); a11 = fma(a11, b, c);\n"
    "  }\n"
    "  out[get_global_id(0)] = a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;\n"
    "}\n";

typedef struct driver {
  void *library;
  cl_command_queue(CL_API_CALL *create_queue)(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
  cl_program(CL_API_CALL *create_program)(cl_context, cl_uint, const char **, const size_t *, cl_int *);
  cl_int(CL_API_CALL *build_program)(cl_program, cl_uint, const cl_device_id *, const char *, void(CL_CALLBACK *)(cl_program, void *),
                                     void *);
  cl_kernel(CL_API_CALL *create_kernel)(cl_program, const char *, cl_int *);
  cl_mem(CL_API_CALL *create_buffer)(cl_context, cl_mem_flags, size_t, void *, cl_int *);
  cl_int(CL_API_CALL *set_argument)(cl_kernel, cl_uint, size_t, const void *);
  cl_int(CL_API_CALL *enqueue)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,
                               const cl_event *, cl_event *);
  cl_int(CL_API_CALL *finish)(cl_command_queue);
  cl_int(CL_API_CALL *release_buffer)(cl_mem);
  cl_int(CL_API_CALL *release_kernel)(cl_kernel);
  cl_int(CL_API_CALL *release_program)(cl_program);
  cl_int(CL_API_CALL *release_queue)(cl_command_queue);
} driver;

typedef struct opencl_peak {
  sattn_peak base; /* first, so that the two pointers are one */
  driver cl;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernel;
  cl_mem out;
  size_t items, group;
  double operations_per_step;
  cl_int steps; /* grows until a run is long enough to time */
} opencl_peak;

static bool load(driver *cl) {
  const struct {
    const char *name;
    void *slot;
  } symbols[] = {{"clCreateCommandQueue", &cl->create_queue}, {"clCreateProgramWithSource", &cl->create_program},
                 {"clBuildProgram", &cl->build_program},      {"clCreateKernel", &cl->create_kernel},
                 {"clCreateBuffer", &cl->create_buffer},      {"clSetKernelArg", &cl->set_argument},
                 {"clEnqueueNDRangeKernel", &cl->enqueue},    {"clFinish", &cl->finish},
                 {"clReleaseMemObject", &cl->release_buffer}, {"clReleaseKernel", &cl->release_kernel},
                 {"clReleaseProgram", &cl->release_program},  {"clReleaseCommandQueue", &cl->release_queue}};
  cl->library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cl->library) return false;
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
    void *symbol = dlsym(cl->library, symbols[i].name);
    if (!symbol) return false;
    memcpy(symbols[i].slot, &symbol, sizeof symbol); /* C has no conversion from object to function pointers */
  }
  return true;
}

static bool launch(opencl_peak *p) {
  const cl_float factor = 0.999f, term = 0.001f;
  return p->cl.set_argument(p->kernel, 0, sizeof(cl_mem), &p->out) == CL_SUCCESS &&
         p->cl.set_argument(p->kernel, 1, sizeof factor, &factor) == CL_SUCCESS &&
         p->cl.set_argument(p->kernel, 2, sizeof term, &term) == CL_SUCCESS &&
         p->cl.set_argument(p->kernel, 3, sizeof p->steps, &p->steps) == CL_SUCCESS &&
         p->cl.enqueue(p->queue, p->kernel, 1, NULL, &p->items, &p->group, 0, NULL, NULL) == CL_SUCCESS &&
         p->cl.finish(p->queue) == CL_SUCCESS;
}

static double measure(sattn_peak *peak) {
  const double long_enough = 0.03;
  const cl_int most_steps = 1 << 27;
  opencl_peak *p = (opencl_peak *)peak;
  for (;;) {
    double start = sattn_clock_seconds();
    if (!launch(p)) return (double)NAN;
    double seconds = sattn_clock_seconds() - start;
    if (seconds >= long_enough || p->steps >= most_steps) return p->operations_per_step * (double)p->steps / seconds * 1e-9;
    p->steps *= 2;
  }
}

static void destroy(sattn_peak *peak) {
  opencl_peak *p = (opencl_peak *)peak;
  if (p->out) p->cl.release_buffer(p->out);
  if (p->kernel) p->cl.release_kernel(p->kernel);
  if (p->program) p->cl.release_program(p->program);
  if (p->queue) p->cl.release_queue(p->queue);
  /* The library stays open: drivers do not like being unloaded, and the context still uses it. */
  free(p);
}

static bool prepare(opencl_peak *p, cl_context context, cl_device_id device, const sattn_device_info *info) {
  const char *source = SOURCE;
  bool cpu = info->type == SATTN_DEVICE_CPU;
  size_t lanes = cpu ? CPU_LANES : GPU_LANES, units = info->compute_units ? info->compute_units : 1;
  p->items = units * (cpu ? CPU_ITEMS : GPU_ITEMS);
  p->group = cpu ? 1 : GPU_GROUP;
  p->steps = 1024;
  p->operations_per_step = 2.0 * ACCUMULATORS * (double)lanes * (double)p->items;
  p->queue = p->cl.create_queue(context, device, 0, NULL);
  p->program = p->cl.create_program(context, 1, &source, NULL, NULL);
  if (!p->queue || !p->program) return false;
  if (p->cl.build_program(p->program, 1, &device, cpu ? "-DVECTOR=float16" : "-DVECTOR=float4", NULL, NULL) != CL_SUCCESS) return false;
  p->kernel = p->cl.create_kernel(p->program, "peak", NULL);
  p->out = p->cl.create_buffer(context, CL_MEM_WRITE_ONLY, p->items * lanes * sizeof(float), NULL, NULL);
  return p->kernel && p->out && launch(p); /* the first launch may compile */
}

bool sattn_peak_create_opencl(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report) {
  opencl_peak *p = sattn_tool_allocate(report, "peak", 1, sizeof *p);
  if (!p) return false;
  p->base.measure = measure;
  p->base.destroy = destroy;
  if (load(&p->cl) && prepare(p, sattn_context_opencl(context), sattn_context_opencl_device(context), sattn_context_device(context))) {
    *out_peak = &p->base;
    return true;
  }
  *out_reason = "the kernel that measures the peak could not be run";
  destroy(&p->base);
  return true;
}
