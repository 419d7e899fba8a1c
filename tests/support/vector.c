#include "vector.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "npy.h"

typedef struct reader {
  const char *folder;
  test_vector *vector;
  char *message;
  size_t capacity;
} reader;

static int fail(reader *r, const char *what, const char *detail) {
  snprintf(r->message, r->capacity, "%s: %s %s", r->folder, what, detail);
  return -1;
}

static int read_npy(reader *r, const char *name, test_npy *array) {
  char path[1024];
  const char *file = strncmp(name, "{}/", 3) == 0 ? name + 3 : name;
  snprintf(path, sizeof path, "%s/%s", r->folder, file);
  return test_npy_read(path, array, r->message, r->capacity);
}

/* ---- one option and its value ---- */

typedef int (*option_reader)(reader *r, const char *value, int which);

typedef struct option {
  const char *name;
  option_reader read;
  int which;
} option;

static int read_mode(reader *r, const char *value, int which) {
  (void)which;
  for (int mode = SATTN_FULL; mode <= SATTN_MOBA; ++mode) {
    if (strcmp(value, sattn_mode_name((sattn_mode)mode)) == 0) {
      r->vector->call.attention.mode = (sattn_mode)mode;
      return 0;
    }
  }
  return fail(r, "unknown mode", value);
}

static int read_dtype(reader *r, const char *value, int which) {
  (void)which;
  for (int dtype = SATTN_FP32; dtype <= SATTN_BF16; ++dtype) {
    if (strcmp(value, sattn_dtype_name((sattn_dtype)dtype)) == 0) {
      r->vector->call.attention.dtype = (sattn_dtype)dtype;
      return 0;
    }
  }
  return fail(r, "unknown dtype", value);
}

static int read_input(reader *r, const char *value, int which) {
  test_npy array;
  test_call *call = &r->vector->call;
  if (read_npy(r, value, &array)) return -1;
  if (array.kind != TEST_NPY_FLOAT32) return fail(r, "not float32:", value);
  call->input[which] = array.data;
  if (which == TEST_QUERY) {
    call->sizes.batch = array.size[0];
    call->sizes.queries = array.size[1];
    call->attention.heads = array.size[2];
    call->attention.head_dim = array.size[3];
  }
  if (which == TEST_KEY) {
    call->sizes.keys = array.size[1];
    call->attention.kv_heads = array.size[2];
  }
  sattn_gate_shape gate = array.dimensions == 4 && array.size[3] > 1 ? SATTN_GATE_PER_ELEMENT : SATTN_GATE_PER_HEAD;
  if (which == TEST_GATE_SA) call->attention.gate_sa_shape = gate;
  if (which == TEST_GATE_SWA) call->attention.gate_swa_shape = gate;
  if (which == TEST_SINK_LOGITS) call->attention.has_sink_logits = 1;
  if (which == TEST_GRAD_OUT) call->backward = 1;
  return 0;
}

static int read_integers(reader *r, const char *value, int which) {
  test_npy array;
  test_call *call = &r->vector->call;
  if (read_npy(r, value, &array)) return -1;
  if (array.kind != TEST_NPY_INT32) return fail(r, "not int32:", value);
  if (which) {
    call->query_start = array.data;
    call->attention.has_query_start = 1;
  } else {
    call->lengths = array.data;
    call->attention.has_lengths = 1;
  }
  return 0;
}

static int read_order(reader *r, const char *value, int which) {
  (void)which;
  test_npy array;
  if (read_npy(r, value, &array)) return -1;
  if (array.kind != TEST_NPY_UINT32 || array.dimensions > 2) return fail(r, "not an array of orders:", value);
  r->vector->call.order = array.data;
  r->vector->call.order_count = array.dimensions == 2 ? array.size[0] : 1;
  r->vector->call.order_size = array.size[array.dimensions - 1];
  return 0;
}

static int read_sharing(reader *r, const char *value, int which) {
  static const char *const names[] = {"", "head", "batch", "batch-and-head"};
  (void)which;
  for (int s = SATTN_PER_HEAD; s <= SATTN_PER_BATCH_AND_HEAD; ++s) {
    if (strcmp(value, names[s]) == 0) {
      r->vector->call.attention.sharing = (sattn_sharing)s;
      return 0;
    }
  }
  return fail(r, "unknown sharing", value);
}

enum { WIDTH_SA, WIDTH_SWA, LEFT_SA, LEFT_SWA, RIGHT_SA, RIGHT_SWA, SEED, LAYER, SUBSTREAM, STEP, SINK_TOKENS, ORDER_LENGTH, BLOCK, TOPK };

static void set_side(sattn_window *window, int right, int64_t value) {
  /* A width that stands already stays, so that the library sees both and can refuse them. */
  if (window->kind == SATTN_WINDOW_NONE) window->kind = SATTN_WINDOW_SIDES;
  *(right ? &window->right : &window->left) = value;
}

static int read_number(reader *r, const char *value, int which) {
  sattn_attention *a = &r->vector->call.attention;
  sattn_permutation_key *key = &r->vector->call.key;
  char *end;
  errno = 0;
  uint64_t bits = strtoull(value, &end, 10); /* wraps for negative numbers, as wanted */
  int64_t number = (int64_t)bits;
  if (strcmp(value, "unbounded") == 0) {
    number = SATTN_UNBOUNDED;
  } else if (*end || errno) {
    return fail(r, "not a number:", value);
  }
  switch (which) {
    case WIDTH_SA:
      a->window_sa = sattn_window_width(number);
      break;
    case WIDTH_SWA:
      a->window_swa = sattn_window_width(number);
      break;
    case LEFT_SA:
      set_side(&a->window_sa, 0, number);
      break;
    case LEFT_SWA:
      set_side(&a->window_swa, 0, number);
      break;
    case RIGHT_SA:
      set_side(&a->window_sa, 1, number);
      break;
    case RIGHT_SWA:
      set_side(&a->window_swa, 1, number);
      break;
    case SEED:
      key->seed = bits;
      break;
    case LAYER:
      key->layer = (uint32_t)bits;
      break;
    case SUBSTREAM:
      key->substream = (uint32_t)bits;
      break;
    case STEP:
      key->step = (uint32_t)bits;
      break;
    case SINK_TOKENS:
      a->sink_tokens = number;
      break;
    case ORDER_LENGTH:
      a->order_length = number;
      break;
    case BLOCK:
      a->block = number;
      break;
    default:
      a->topk = number;
      break;
  }
  return 0;
}

static int read_real(reader *r, const char *value, int which) {
  *(which ? &r->vector->call.attention.softcap : &r->vector->call.attention.scale) = strtod(value, NULL);
  return 0;
}

static const option options[] = {{"--mode", read_mode, 0},
                                 {"--dtype", read_dtype, 0},
                                 {"--q", read_input, TEST_QUERY},
                                 {"--k", read_input, TEST_KEY},
                                 {"--v", read_input, TEST_VALUE},
                                 {"--gate-sa", read_input, TEST_GATE_SA},
                                 {"--gate-swa", read_input, TEST_GATE_SWA},
                                 {"--sink-logits", read_input, TEST_SINK_LOGITS},
                                 {"--grad-out", read_input, TEST_GRAD_OUT},
                                 {"--grad-lse", read_input, TEST_GRAD_LSE},
                                 {"--grad-lse-sa", read_input, TEST_GRAD_LSE_SA},
                                 {"--grad-lse-swa", read_input, TEST_GRAD_LSE_SWA},
                                 {"--lengths", read_integers, 0},
                                 {"--query-start", read_integers, 1},
                                 {"--order", read_order, 0},
                                 {"--permutation-per", read_sharing, 0},
                                 {"--window-sa", read_number, WIDTH_SA},
                                 {"--window-swa", read_number, WIDTH_SWA},
                                 {"--left-sa", read_number, LEFT_SA},
                                 {"--left-swa", read_number, LEFT_SWA},
                                 {"--right-sa", read_number, RIGHT_SA},
                                 {"--right-swa", read_number, RIGHT_SWA},
                                 {"--seed", read_number, SEED},
                                 {"--layer", read_number, LAYER},
                                 {"--substream", read_number, SUBSTREAM},
                                 {"--step", read_number, STEP},
                                 {"--sink-tokens", read_number, SINK_TOKENS},
                                 {"--order-length", read_number, ORDER_LENGTH},
                                 {"--block", read_number, BLOCK},
                                 {"--topk", read_number, TOPK},
                                 {"--scale", read_real, 0},
                                 {"--softcap", read_real, 1}};

static int read_option(reader *r, const char *name, FILE *file) {
  char value[256];
  if (strcmp(name, "--no-causal") == 0) {
    r->vector->call.attention.causal = 0;
    return 0;
  }
  if (strcmp(name, "--wrap") == 0) {
    r->vector->call.attention.wrap = 1;
    return 0;
  }
  for (size_t i = 0; i < sizeof options / sizeof options[0]; ++i) {
    if (strcmp(name, options[i].name) != 0) continue;
    if (fscanf(file, "%255s", value) != 1) return fail(r, "no value for", name);
    return options[i].read(r, value, options[i].which);
  }
  return fail(r, "unknown option", name);
}

static FILE *open_file(reader *r, const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", r->folder, name);
  return fopen(path, "r");
}

static int read_args(reader *r) {
  char name[64];
  FILE *file = open_file(r, "args");
  if (!file) return fail(r, "cannot be opened:", "args");
  int failed = 0;
  while (!failed && fscanf(file, "%63s", name) == 1) failed = read_option(r, name, file);
  fclose(file);
  return failed;
}

/* ---- results ---- */

static int read_expected(reader *r, const char *name, double tolerance) {
  for (int o = 0; o < TEST_OUTPUTS; ++o) {
    if (strcmp(name, test_output_name((test_output)o)) != 0) continue;
    char file[96];
    test_npy array;
    snprintf(file, sizeof file, "expect_%s.npy", name);
    if (read_npy(r, file, &array)) return -1;
    if (array.kind != TEST_NPY_FLOAT32 || array.count != test_shape_count(test_output_shape(&r->vector->call, (test_output)o)))
      return fail(r, "wrong shape:", file);
    r->vector->expected[o] = test_memory(array.count * sizeof(double));
    for (size_t i = 0; i < array.count; ++i) r->vector->expected[o][i] = (double)((const float *)array.data)[i];
    r->vector->tolerance[o] = tolerance;
    return 0;
  }
  return fail(r, "unknown result", name);
}

static int read_results(reader *r) {
  char name[64];
  double tolerance;
  FILE *file = open_file(r, "refused");
  if (file) {
    int found = fscanf(file, "%63s", r->vector->refused);
    fclose(file);
    return found == 1 ? 0 : fail(r, "empty:", "refused");
  }
  file = open_file(r, "tolerance");
  if (!file) return fail(r, "cannot be opened:", "tolerance");
  int failed = 0;
  while (!failed && fscanf(file, "%63s %lf", name, &tolerance) == 2) failed = read_expected(r, name, tolerance);
  fclose(file);
  return failed;
}

int test_vector_read(const char *folder, test_vector *out_vector, char *message, size_t capacity) {
  reader r = {folder, out_vector, message, capacity};
  memset(out_vector, 0, sizeof *out_vector);
  sattn_attention_init(&out_vector->call.attention);
  if (read_args(&r)) return -1;
  return read_results(&r);
}
