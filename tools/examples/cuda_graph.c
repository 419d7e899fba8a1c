/* A program that owns its CUDA context, stream and memory (driver interface), records attention into a graph once and launches the graph
 * for every layer's step afterwards. While it is recorded, sattn_forward allocates nothing and waits for nothing, as always; a replay reads
 * what the buffers hold then. Each replay is compared with the reference backend.
 *
 *     cc -std=c11 cuda_graph.c -I/usr/local/cuda/include $(pkg-config --cflags --libs sattn) -lcuda -lm && ./a.out
 */
#include <sattn/cuda.h>
#include <sattn/sattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 64, HEADS = 2, HEAD_DIM = 64, FLOATS = TOKENS * HEADS * HEAD_DIM, WINDOW = 16, REPLAYS = 2 };

typedef struct program {
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUdeviceptr memory[4], scratch; /* Q, K, V, O */
  sattn_context *attention_context;
  sattn_plan *plan;
  sattn_permutation *permutation;
  sattn_buffer *view[4], *scratch_view;
} program;

static void cu(CUresult code, const char *what) {
  if (code != CUDA_SUCCESS) fprintf(stderr, "%s: CUDA error %d\n", what, (int)code), exit(1);
}

static void check(sattn_status status, const sattn_error *error) {
  if (status != SATTN_OK) fprintf(stderr, "%s\n", error->message), exit(1);
}

static void describe(sattn_attention *attention) {
  sattn_attention_init(attention);
  attention->mode = SATTN_STOCHASTIC;
  attention->heads = HEADS;
  attention->head_dim = HEAD_DIM;
  attention->window_sa = sattn_window_width(WINDOW);
}

static void open_cuda(program *p) {
  cu(cuInit(0), "cuInit");
  cu(cuDeviceGet(&p->device, 0), "cuDeviceGet");
  cu(cuDevicePrimaryCtxRetain(&p->context, p->device), "cuDevicePrimaryCtxRetain");
  cu(cuCtxPushCurrent(p->context), "cuCtxPushCurrent");
  cu(cuStreamCreate(&p->stream, 1), "cuStreamCreate"); /* 1: does not wait for the default stream */
  for (int i = 0; i < 4; i++) cu(cuMemAlloc(&p->memory[i], FLOATS * sizeof(float)), "cuMemAlloc");
}

static void open_attention(program *p) {
  sattn_error error;
  sattn_attention attention;
  sattn_permutation_options options;
  const sattn_sizes largest = {1, TOKENS, TOKENS};
  describe(&attention);
  check(sattn_context_create_cuda(p->context, NULL, &p->attention_context, &error), &error);
  check(sattn_plan_create(p->attention_context, &attention, &largest, SATTN_PASS_FORWARD, &p->plan, &error), &error);
  sattn_permutation_options_init(&options);
  options.length = TOKENS;
  options.key.seed = 42;
  check(sattn_permutation_create(p->attention_context, &options, &p->permutation, &error), &error);
  for (int i = 0; i < 4; i++)
    check(sattn_buffer_wrap_cuda(p->attention_context, p->memory[i], FLOATS * sizeof(float), &p->view[i], &error), &error);
  size_t bytes = (size_t)sattn_plan_workspace(p->plan, SATTN_PASS_FORWARD) + 1;
  cu(cuMemAlloc(&p->scratch, bytes), "cuMemAlloc");
  check(sattn_buffer_wrap_cuda(p->attention_context, p->scratch, bytes, &p->scratch_view, &error), &error);
}

static CUgraphExec record(program *p) {
  sattn_forward_args args;
  sattn_error error;
  CUgraph graph;
  CUgraphExec executable;
  sattn_forward_args_init(&args);
  args.sizes.batch = 1, args.sizes.queries = TOKENS, args.sizes.keys = TOKENS;
  args.query.buffer = p->view[0], args.key.buffer = p->view[1], args.value.buffer = p->view[2], args.out.buffer = p->view[3];
  args.permutation = p->permutation;
  args.workspace = p->scratch_view;
  cu(cuStreamBeginCapture(p->stream, 0), "cuStreamBeginCapture");
  /* The program's own kernels would be launched into the same stream here, before and after. */
  check(sattn_forward(p->plan, &args, sattn_queue_cuda(p->stream), NULL, 0, NULL, &error), &error);
  cu(cuStreamEndCapture(p->stream, &graph), "cuStreamEndCapture");
  cu(cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
  cu(cuGraphDestroy(graph), "cuGraphDestroy");
  return executable;
}

/* New Q, K, V, one launch of the graph, and the same through the reference backend: the largest difference. */
static float replay(program *p, CUgraphExec executable, int round) {
  static float array[4][FLOATS], expected[FLOATS];
  sattn_host_call call;
  sattn_error error;
  for (int i = 0; i < 3; i++) {
    for (int j = 0; j < FLOATS; j++) array[i][j] = sinf((float)(i + 1) * 1.3f * (float)j + (float)round);
    cu(cuMemcpyHtoD(p->memory[i], array[i], sizeof array[i]), "cuMemcpyHtoD");
  }
  cu(cuGraphLaunch(executable, p->stream), "cuGraphLaunch");
  cu(cuStreamSynchronize(p->stream), "cuStreamSynchronize");
  cu(cuMemcpyDtoH(array[3], p->memory[3], sizeof array[3]), "cuMemcpyDtoH");

  sattn_host_call_init(&call);
  call.device_id = "reference";
  describe(&call.attention);
  call.batch = 1, call.queries = TOKENS, call.keys = TOKENS;
  call.permutation_key.seed = 42;
  call.query.data = array[0], call.key.data = array[1], call.value.data = array[2], call.out.data = expected;
  check(sattn_attention_host(&call, &error), &error);
  float largest = 0;
  for (int i = 0; i < FLOATS; i++) {
    float apart = fabsf(array[3][i] - expected[i]);
    if (!(apart <= largest)) largest = apart; /* NaN too */
  }
  return largest;
}

static void close_all(program *p) {
  for (int i = 0; i < 4; i++) {
    sattn_buffer_destroy(&p->view[i]);
    cu(cuMemFree(p->memory[i]), "cuMemFree");
  }
  sattn_buffer_destroy(&p->scratch_view);
  cu(cuMemFree(p->scratch), "cuMemFree");
  sattn_permutation_destroy(&p->permutation);
  sattn_plan_destroy(&p->plan);
  sattn_context_destroy(&p->attention_context);
  cu(cuStreamDestroy(p->stream), "cuStreamDestroy");
  cu(cuCtxPopCurrent(NULL), "cuCtxPopCurrent");
  cu(cuDevicePrimaryCtxRelease(p->device), "cuDevicePrimaryCtxRelease");
}

int main(void) {
  program p = {0};
  float apart = 0;
  open_cuda(&p);
  open_attention(&p);
  CUgraphExec executable = record(&p);
  for (int round = 0; round < REPLAYS; round++) {
    float now = replay(&p, executable, round);
    if (!(now <= apart)) apart = now;
  }
  cu(cuGraphExecDestroy(executable), "cuGraphExecDestroy");
  close_all(&p);
  printf("one graph, launched %d times; largest difference from the reference %.1e\n", REPLAYS, (double)apart);
  return apart < 1e-5f ? 0 : 1;
}
