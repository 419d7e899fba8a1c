/* A program that owns its OpenCL context, queue and buffers, and calls Stochastic Attention between its own kernels: two layers of
 *
 *     x --project (own kernel)--> one buffer of Q, K, V --sattn_forward--> y --add (own kernel)--> x
 *
 * Nothing is copied and nothing waits between the kernels: Q, K and V are slices of one buffer, named by offset and strides, and everything
 * goes into one in-order queue. At the end the last layer is computed again by the reference backend and compared.
 *
 *     cc -std=c11 opencl_embed.c $(pkg-config --cflags --libs sattn) -lOpenCL && ./a.out
 */
#include <sattn/opencl.h>
#include <sattn/sattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 128, HEADS = 2, HEAD_DIM = 16, WIDTH = HEADS * HEAD_DIM, LAYERS = 2, WINDOW = 16 };

static const char own_source[] =
    "kernel void project(global const float *x, global const float *weight, global float *qkv, int width) {\n"
    "  int column = get_global_id(0), token = get_global_id(1);\n"
    "  float sum = 0;\n"
    "  for (int i = 0; i < width; i++) sum += x[token * width + i] * weight[i * 3 * width + column];\n"
    "  qkv[token * 3 * width + column] = sum;\n"
    "}\n"
    "kernel void add(global const float *y, global float *x) { x[get_global_id(0)] += y[get_global_id(0)]; }\n";

typedef struct program {
  /* its own */
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_kernel project, add;
  cl_mem x, weight, qkv, y, scratch;
  /* of the library, around them */
  sattn_context *attention_context;
  sattn_plan *plan;
  sattn_permutation *permutation[LAYERS];
  sattn_buffer *qkv_view, *y_view, *scratch_view;
} program;

static void cl(cl_int code, const char *what) {
  if (code != CL_SUCCESS) fprintf(stderr, "%s: OpenCL error %d\n", what, (int)code), exit(1);
}

static void check(sattn_status status, const sattn_error *error) {
  if (status != SATTN_OK) fprintf(stderr, "%s\n", error->message), exit(1);
}

static cl_mem buffer(program *p, size_t floats) {
  cl_int code;
  cl_mem memory = clCreateBuffer(p->context, CL_MEM_READ_WRITE, floats * sizeof(float), NULL, &code);
  cl(code, "clCreateBuffer");
  return memory;
}

static void open_opencl(program *p) {
  cl_platform_id platform;
  cl_int code;
  cl(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  cl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &p->device, NULL), "clGetDeviceIDs");
  p->context = clCreateContext(NULL, 1, &p->device, NULL, NULL, &code);
  cl(code, "clCreateContext");
  p->queue = clCreateCommandQueue(p->context, p->device, 0, &code);
  cl(code, "clCreateCommandQueue");
  const char *source = own_source;
  cl_program built = clCreateProgramWithSource(p->context, 1, &source, NULL, &code);
  cl(code, "clCreateProgramWithSource");
  cl(clBuildProgram(built, 1, &p->device, "", NULL, NULL), "clBuildProgram");
  p->project = clCreateKernel(built, "project", &code);
  cl(code, "project");
  p->add = clCreateKernel(built, "add", &code);
  cl(code, "add");
  clReleaseProgram(built);
  p->x = buffer(p, TOKENS * WIDTH);
  p->weight = buffer(p, WIDTH * 3 * WIDTH);
  p->qkv = buffer(p, TOKENS * 3 * WIDTH);
  p->y = buffer(p, TOKENS * WIDTH);
}

static void describe(sattn_attention *attention) {
  sattn_attention_init(attention);
  attention->mode = SATTN_STOCHASTIC;
  attention->heads = HEADS;
  attention->head_dim = HEAD_DIM;
  attention->window_sa = sattn_window_width(WINDOW);
}

static void open_attention(program *p) {
  sattn_error error;
  sattn_attention attention;
  const sattn_sizes largest = {1, TOKENS, TOKENS};
  describe(&attention);
  check(sattn_context_create_opencl(p->context, p->device, NULL, &p->attention_context, &error), &error);
  check(sattn_plan_create(p->attention_context, &attention, &largest, SATTN_PASS_FORWARD, &p->plan, &error), &error);
  for (uint32_t layer = 0; layer < LAYERS; layer++) {
    sattn_permutation_options options;
    sattn_permutation_options_init(&options);
    options.length = TOKENS;
    options.key.seed = 42;
    options.key.layer = layer;
    check(sattn_permutation_create(p->attention_context, &options, &p->permutation[layer], &error), &error);
  }
  size_t bytes = (size_t)sattn_plan_workspace(p->plan, SATTN_PASS_FORWARD);
  p->scratch = buffer(p, bytes / sizeof(float) + 1);
  check(sattn_buffer_wrap_opencl(p->attention_context, p->qkv, &p->qkv_view, &error), &error);
  check(sattn_buffer_wrap_opencl(p->attention_context, p->y, &p->y_view, &error), &error);
  check(sattn_buffer_wrap_opencl(p->attention_context, p->scratch, &p->scratch_view, &error), &error);
}

/* One of the three slices of a row of [Q heads | K heads | V heads]. */
static sattn_tensor slice(program *p, int index) {
  sattn_tensor tensor = {p->qkv_view, index * WIDTH, TOKENS * 3 * WIDTH, 3 * WIDTH, HEAD_DIM};
  return tensor;
}

static void layer(program *p, int index) {
  const int width = WIDTH;
  const size_t projected[2] = {3 * WIDTH, TOKENS}, added = TOKENS * WIDTH;
  sattn_forward_args args;
  sattn_error error;
  cl(clSetKernelArg(p->project, 0, sizeof p->x, &p->x), "argument");
  cl(clSetKernelArg(p->project, 1, sizeof p->weight, &p->weight), "argument");
  cl(clSetKernelArg(p->project, 2, sizeof p->qkv, &p->qkv), "argument");
  cl(clSetKernelArg(p->project, 3, sizeof width, &width), "argument");
  cl(clEnqueueNDRangeKernel(p->queue, p->project, 2, NULL, projected, NULL, 0, NULL, NULL), "project");

  sattn_forward_args_init(&args);
  args.sizes.batch = 1, args.sizes.queries = TOKENS, args.sizes.keys = TOKENS;
  args.query = slice(p, 0), args.key = slice(p, 1), args.value = slice(p, 2);
  args.permutation = p->permutation[index];
  args.out.buffer = p->y_view; /* no strides: packed */
  args.workspace = p->scratch_view;
  check(sattn_forward(p->plan, &args, sattn_queue_opencl(p->queue), NULL, 0, NULL, &error), &error);

  cl(clSetKernelArg(p->add, 0, sizeof p->y, &p->y), "argument");
  cl(clSetKernelArg(p->add, 1, sizeof p->x, &p->x), "argument");
  cl(clEnqueueNDRangeKernel(p->queue, p->add, 1, NULL, &added, NULL, 0, NULL, NULL), "add");
}

static void fill(program *p) {
  static float x[TOKENS * WIDTH], weight[WIDTH * 3 * WIDTH];
  for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = sinf(1.7f * (float)i);
  for (int i = 0; i < WIDTH * 3 * WIDTH; i++) weight[i] = 0.3f * cosf(2.3f * (float)i);
  cl(clEnqueueWriteBuffer(p->queue, p->x, CL_TRUE, 0, sizeof x, x, 0, NULL, NULL), "write");
  cl(clEnqueueWriteBuffer(p->queue, p->weight, CL_TRUE, 0, sizeof weight, weight, 0, NULL, NULL), "write");
}

/* The last layer's Q, K, V through the reference backend: the largest difference from what the device made of them. */
static float difference(program *p) {
  static float qkv[TOKENS * 3 * WIDTH], y[TOKENS * WIDTH], expected[TOKENS * WIDTH];
  sattn_host_call call;
  sattn_error error;
  cl(clEnqueueReadBuffer(p->queue, p->qkv, CL_TRUE, 0, sizeof qkv, qkv, 0, NULL, NULL), "read");
  cl(clEnqueueReadBuffer(p->queue, p->y, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL), "read");
  sattn_host_call_init(&call);
  call.device_id = "reference";
  describe(&call.attention);
  call.batch = 1, call.queries = TOKENS, call.keys = TOKENS;
  call.permutation_key.seed = 42;
  call.permutation_key.layer = LAYERS - 1;
  sattn_host_input *inputs[3] = {&call.query, &call.key, &call.value};
  for (int i = 0; i < 3; i++) {
    inputs[i]->data = qkv + i * WIDTH;
    inputs[i]->stride_batch = TOKENS * 3 * WIDTH, inputs[i]->stride_token = 3 * WIDTH, inputs[i]->stride_head = HEAD_DIM;
  }
  call.out.data = expected;
  check(sattn_attention_host(&call, &error), &error);
  float largest = 0;
  for (int i = 0; i < TOKENS * WIDTH; i++) {
    float apart = fabsf(y[i] - expected[i]);
    if (!(apart <= largest)) largest = apart; /* NaN too */
  }
  return largest;
}

static void close_all(program *p) {
  sattn_buffer_destroy(&p->qkv_view);
  sattn_buffer_destroy(&p->y_view);
  sattn_buffer_destroy(&p->scratch_view);
  for (int i = 0; i < LAYERS; i++) sattn_permutation_destroy(&p->permutation[i]);
  sattn_plan_destroy(&p->plan);
  sattn_context_destroy(&p->attention_context);
  cl_mem memory[] = {p->x, p->weight, p->qkv, p->y, p->scratch};
  for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) clReleaseMemObject(memory[i]);
  clReleaseKernel(p->project);
  clReleaseKernel(p->add);
  clReleaseCommandQueue(p->queue);
  clReleaseContext(p->context);
}

int main(void) {
  program p = {0};
  open_opencl(&p);
  open_attention(&p);
  fill(&p);
  for (int i = 0; i < LAYERS; i++) layer(&p, i);
  cl(clFinish(p.queue), "clFinish");
  float apart = difference(&p);
  printf("%d layers on the caller's queue; largest difference from the reference %.1e\n", LAYERS, (double)apart);
  close_all(&p);
  return apart < 1e-5f ? 0 : 1;
}
