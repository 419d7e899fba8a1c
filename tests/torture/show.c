#include "show.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "half.h"
#include "memory.h"

/* ---- description ---- */

static void describe_window(const char *name, sattn_window window, FILE *stream) {
  if (window.kind == SATTN_WINDOW_WIDTH) fprintf(stream, " window_%s=%" PRId64, name, window.width);
  if (window.kind == SATTN_WINDOW_SIDES) fprintf(stream, " sides_%s=%" PRId64 "/%" PRId64, name, window.left, window.right);
}

void torture_describe(const torture_problem *p, FILE *stream) {
  static const char *const forms[] = {"plan", "host", "twice"};
  fprintf(stream, "%s %s B=%" PRId64 " n_q=%" PRId64 " n_k=%" PRId64 " H=%" PRId64 "/%" PRId64 " d=%" PRId64 " %s form=%s",
          sattn_mode_name((sattn_mode)p->mode), sattn_dtype_name((sattn_dtype)p->dtype), p->batch, p->queries, p->keys, p->heads,
          p->kv_heads, p->head_dim, p->causal ? "causal" : "two-way", forms[p->form]);
  describe_window("sa", p->window_sa, stream);
  describe_window("swa", p->window_swa, stream);
  const struct {
    const char *name;
    int64_t value;
    int64_t simplest;
  } rest[] = {{"wrap", p->wrap, 0},
              {"sharing", p->sharing, 0},
              {"own_orders", p->own_orders, 0},
              {"order_extra", p->order_extra, -1},
              {"sink_tokens", p->sink_tokens, 0},
              {"block", p->block, 0},
              {"topk", p->topk, 0},
              {"gate_sa_shape", p->gate_sa_shape, 0},
              {"gate_swa_shape", p->gate_swa_shape, 0},
              {"gate_dtype", p->gate_dtype, 1},
              {"lengths", p->lengths, 0},
              {"query_start", p->query_start, 0},
              {"sink_logits", p->sink_logits, 0},
              {"backward", p->backward, 0},
              {"offset", p->offset, 0},
              {"wrap_host", p->wrap_host, 0},
              {"larger_plan", p->larger_plan, 0},
              {"spread", p->spread, 10},
              {"garbage", p->garbage, 0},
              {"garbage_in", p->garbage_in, 0}};
  for (size_t i = 0; i < sizeof rest / sizeof rest[0]; ++i) {
    if (rest[i].value != rest[i].simplest) fprintf(stream, " %s=%" PRId64, rest[i].name, rest[i].value);
  }
  if (p->layout[0] || p->layout[1] || p->layout[2])
    fprintf(stream, " layouts=%" PRId64 ",%" PRId64 ",%" PRId64, p->layout[0], p->layout[1], p->layout[2]);
  if (p->scale != 0) fprintf(stream, " scale=%g", p->scale);
  if (p->softcap != 0) fprintf(stream, " softcap=%g", p->softcap);
  fprintf(stream, " data=%" PRIu64 "\n", p->seed);
}

/* ---- files ---- */

typedef struct folder {
  const char *path;
  FILE *line; /* the command */
  int failed;
} folder;

static void write_npy(folder *f, const char *name, const char *type, test_shape shape, int first, const void *data) {
  char path[1024], header[160], sizes[96] = "";
  size_t used = 0;
  for (int i = first; i < 4; ++i) used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%" PRId64 ",", shape.size[i]);
  int length = snprintf(header, sizeof header, "{'descr': '<%s', 'fortran_order': False, 'shape': (%s), }", type, sizes);
  snprintf(path, sizeof path, "%s/%s.npy", f->path, name);
  FILE *file = fopen(path, "wb");
  size_t count = test_shape_count(shape);
  if (!file) {
    f->failed = 1;
    return;
  }
  /* 10 bytes before the header, and all of it a multiple of 64. */
  int total = (10 + length + 1 + 63) / 64 * 64 - 10;
  const unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(total & 0xff), (unsigned char)(total >> 8)};
  f->failed |= fwrite(start, 1, sizeof start, file) != sizeof start;
  f->failed |= fprintf(file, "%s%*s\n", header, total - length - 1, "") < 0;
  f->failed |= fwrite(data, 4, count, file) != count;
  f->failed |= fclose(file) != 0;
}

static void give(folder *f, const char *option, const char *type, test_shape shape, int first, const void *data) {
  if (!data) return;
  write_npy(f, option, type, shape, first, data);
  fprintf(f->line, " --%s %s/%s.npy", option, f->path, option);
}

static test_shape vector(int64_t count) {
  return (test_shape){{1, 1, 1, count}};
}

static void give_inputs(folder *f, const test_call *call) {
  static const char *const words[TEST_INPUTS] = {"q",           "k",        "v",        "gate-sa",     "gate-swa",
                                                 "sink-logits", "grad-out", "grad-lse", "grad-lse-sa", "grad-lse-swa"};
  for (int i = 0; i < TEST_INPUTS; ++i) {
    int first = i == TEST_SINK_LOGITS ? 3 : i >= TEST_GRAD_LSE ? 1 : 0;
    give(f, words[i], "f4", test_input_shape(call, (test_input)i), first, call->input[i]);
  }
  give(f, "lengths", "i4", vector(call->sizes.batch), 3, call->lengths);
  give(f, "query-start", "i4", vector(call->sizes.batch), 3, call->query_start);
  test_shape orders = {{1, 1, call->order_count, call->order_size}};
  give(f, "order", "u4", orders, 2, call->order);
}

static void give_window(folder *f, const char *name, sattn_window window) {
  if (window.kind == SATTN_WINDOW_WIDTH) fprintf(f->line, " --window-%s %" PRId64, name, window.width);
  if (window.kind != SATTN_WINDOW_SIDES) return;
  const int64_t sides[2] = {window.left, window.right};
  for (int i = 0; i < 2; ++i) {
    fprintf(f->line, " --%s-%s ", i ? "right" : "left", name);
    if (sides[i] == SATTN_UNBOUNDED) {
      fprintf(f->line, "unbounded");
    } else {
      fprintf(f->line, "%" PRId64, sides[i]);
    }
  }
}

static void give_options(folder *f, const test_call *call) {
  static const char *const sharings[] = {"", "head", "batch", "batch-and-head"};
  const sattn_attention *a = &call->attention;
  fprintf(f->line, " --mode %s --dtype %s%s%s", sattn_mode_name(a->mode), sattn_dtype_name(a->dtype), a->causal ? "" : " --no-causal",
          a->wrap ? " --wrap" : "");
  give_window(f, "sa", a->window_sa);
  give_window(f, "swa", a->window_swa);
  if (test_mode_uses_sa(a->mode) && !call->order) fprintf(f->line, " --seed %" PRIu64 " --layer %u", call->key.seed, call->key.layer);
  if (a->order_length) fprintf(f->line, " --order-length %" PRId64, a->order_length);
  if (a->sharing) fprintf(f->line, " --permutation-per %s", sharings[a->sharing]);
  if (a->sink_tokens) fprintf(f->line, " --sink-tokens %" PRId64, a->sink_tokens);
  if (a->mode == SATTN_MOBA) fprintf(f->line, " --block %" PRId64 " --topk %" PRId64, a->block, a->topk);
  if (a->scale != 0) fprintf(f->line, " --scale %.17g", a->scale);
  if (a->softcap != 0) fprintf(f->line, " --softcap %.17g", a->softcap);
}

static void give_outputs(folder *f, const test_call *call, const test_oracle_result *exact) {
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    char name[48];
    if (!exact->output[o]) continue;
    test_shape shape = test_output_shape(call, (test_output)o);
    size_t count = test_shape_count(shape);
    float *values = test_memory(count * sizeof *values);
    for (size_t i = 0; i < count; ++i) values[i] = (float)exact->output[o][i];
    snprintf(name, sizeof name, "expected-%s", test_output_name((test_output)o));
    write_npy(f, name, "f4", shape, 0, values);
    fprintf(f->line, " --%s %s/%s.npy", test_output_name((test_output)o), f->path, test_output_name((test_output)o));
  }
}

int torture_show(torture_problem *p, const torture_target *target, const char *path, FILE *stream) {
  folder f = {path, stream, 0};
  test_call call, tame;
  test_oracle_result exact;
  double tolerance[TEST_OUTPUTS];
  torture_expand(p, &call, &tame);
  torture_expected(p, &tame, &exact, tolerance);
  mkdir(path, 0777);
  fprintf(stream, "  SATTN_KERNELS=%s sattn attend --device %s", target->family, sattn_context_device(target->context)->id);
  give_options(&f, &tame);
  give_inputs(&f, &tame);
  give_outputs(&f, &tame, &exact);
  fprintf(stream, "\n");
  if (p->layout[0] || p->layout[1] || p->layout[2] || p->offset || p->wrap_host || p->larger_plan || p->lengths == 2 ||
      p->query_start == 2 || p->gate_dtype != SATTN_FP32 || p->form == FORM_TWICE)
    fprintf(stream,
            "  (layouts, offsets, host memory in place, a larger plan, values that kernels clamp, gates of half types and a second run "
            "are beyond the tool; the line of sattn-torture has them)\n");
  test_memory_release();
  return f.failed ? -1 : 0;
}
