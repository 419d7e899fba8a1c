/* gather_rows and the merge in place, each against its definition. */
#include "small_kernels.h"

#include <math.h>

#include "common.h"

#define TOKENS 40
#define HEADS  2
#define WIDTH  24
#define COUNT  (TOKENS * HEADS * WIDTH)
#define ROWS   (TOKENS * HEADS)

static const sattn_queue own_queue = {NULL};

static sattn_buffer *make(sattn_context *context, const float *values, size_t count) {
  sattn_buffer *buffer = NULL;
  sattn_error error;
  OK(sattn_buffer_create(context, count * sizeof *values, &buffer, &error));
  if (buffer) OK(sattn_buffer_write(buffer, 0, values, count * sizeof *values, &error));
  return buffer;
}

void small_rows(sattn_context *context, test_random *random) {
  float *source = test_random_array(random, SATTN_FP32, COUNT, 1.0), got[COUNT];
  uint32_t *order = test_random_order(random, TOKENS);
  sattn_permutation_options options;
  sattn_permutation *permutation = NULL;
  sattn_rows_args args;
  sattn_error error;
  sattn_permutation_options_init(&options);
  options.length = TOKENS;
  options.order = order;
  OK(sattn_permutation_create(context, &options, &permutation, &error));
  sattn_rows_args_init(&args);
  args.dtype = SATTN_FP32;
  args.batch = 1, args.tokens = TOKENS, args.heads = HEADS, args.head_dim = WIDTH;
  args.permutation = permutation;
  sattn_buffer *buffers[2] = {make(context, source, COUNT), make(context, source, COUNT)};
  args.source.buffer = buffers[0];
  args.target.buffer = buffers[1];
  OK(sattn_gather_rows(context, &args, own_queue, NULL, 0, NULL, &error));
  OK(sattn_queue_finish(context, own_queue, &error));
  OK(sattn_buffer_read(buffers[1], 0, got, sizeof got, &error));
  for (size_t i = 0; i < COUNT; ++i) {
    size_t slot = i / (HEADS * WIDTH);
    float want = source[(size_t)order[slot] * HEADS * WIDTH + i % (HEADS * WIDTH)];
    CHECK(got[i] == want, "rows: element %zu of slot %zu is %g, not %g", i % (HEADS * WIDTH), slot, (double)got[i], (double)want);
  }
  for (int i = 0; i < 2; ++i) sattn_buffer_destroy(&buffers[i]);
  sattn_permutation_destroy(&permutation);
}

/* Into out_a and lse_a, as rings do. Row 0 of b is empty and holds garbage. */
void small_merge(sattn_context *context, test_random *random) {
  float *in[4], out[COUNT], lse[ROWS];
  sattn_buffer *buffers[4];
  sattn_merge_args args;
  sattn_error error;
  for (int i = 0; i < 4; ++i) in[i] = test_random_array(random, SATTN_FP32, i % 2 ? ROWS : COUNT, 1.0);
  for (int c = 0; c < WIDTH; ++c) in[2][c] = (float)NAN;
  in[3][0] = -(float)INFINITY;
  for (int i = 0; i < 4; ++i) buffers[i] = make(context, in[i], i % 2 ? ROWS : COUNT);
  sattn_merge_args_init(&args);
  args.dtype = SATTN_FP32;
  args.batch = 1, args.queries = TOKENS, args.heads = HEADS, args.head_dim = WIDTH;
  args.out_a.buffer = args.out.buffer = buffers[0];
  args.lse_a.buffer = args.lse.buffer = buffers[1];
  args.out_b.buffer = buffers[2];
  args.lse_b.buffer = buffers[3];
  OK(sattn_merge(context, &args, own_queue, NULL, 0, NULL, &error));
  OK(sattn_queue_finish(context, own_queue, &error));
  OK(sattn_buffer_read(buffers[0], 0, out, sizeof out, &error));
  OK(sattn_buffer_read(buffers[1], 0, lse, sizeof lse, &error));
  for (size_t i = 0; i < COUNT; ++i) {
    size_t row = i / WIDTH % HEADS * TOKENS + i / (HEADS * WIDTH);
    double a = exp((double)in[1][row]), b = exp((double)in[3][row]);
    double want = (a * (double)in[0][i] + (b > 0 ? b * (double)in[2][i] : 0)) / (a + b);
    CHECK(fabs((double)out[i] - want) <= 1e-5, "merge: out[%zu] is %g, not %g", i, (double)out[i], want);
    CHECK(fabs((double)lse[row] - log(a + b)) <= 1e-5, "merge: lse[%zu] is %g, not %g", row, (double)lse[row], log(a + b));
  }
  for (int i = 0; i < 4; ++i) sattn_buffer_destroy(&buffers[i]);
}
