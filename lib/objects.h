/* The structs behind the opaque handles. Shared by the core and all backends; never seen by applications. */
#ifndef SATTN_LIB_OBJECTS_H
#define SATTN_LIB_OBJECTS_H

#include <pthread.h>
#include <stdbool.h>

#include <sattn/buffer.h>
#include <sattn/device.h>
#include <sattn/gate.h>
#include <sattn/permutation.h>
#include <sattn/plan.h>
#include <sattn/rows.h>

#include "problem.h"

struct sattn_backend_ops;

/* Values of the environment variable SATTN_DRAW: auto, host, device. For tests and tuning: all draw the same bits. */
typedef enum sattn_draw_place { SATTN_DRAW_AUTO = 0, SATTN_DRAW_HOST = 1, SATTN_DRAW_DEVICE = 2 } sattn_draw_place;

struct sattn_context {
  const struct sattn_backend_ops *ops;
  sattn_device_info device;
  sattn_kernel_family kernels; /* AUTO already replaced by SATTN_KERNELS if that is set */
  char *cache_directory;       /* NULL: no cache on disk */
  char *build_options;         /* never NULL */
  sattn_draw_place draw;       /* where permutations are drawn: SATTN_DRAW, or by size and device */
  bool amx;                    /* false: SATTN_AMX=0 forbids the tile instructions of CPUs */
  uint32_t trace;              /* sum of sattn_trace_level */
  pthread_mutex_t lock;        /* guards everything below and what a backend says in its own struct */
  uint64_t next_id;            /* for plans and permutations */
  char *build_log;             /* of the last failed program; NULL: none */
  uint64_t programs_compiled;
  uint64_t programs_cached;
  void *impl; /* the backend's own state */
};

struct sattn_buffer {
  sattn_context *context;
  uint64_t bytes;
  bool owned; /* made by sattn_buffer_create; wrapped memory is not freed */
  void *impl; /* reference: the host pointer; opencl: struct of cl_buffer.h; cuda: struct of cuda_buffer.h */
};

struct sattn_permutation {
  sattn_context *context;
  int64_t length;
  sattn_sharing sharing;
  int64_t batch;              /* 1 unless shared out per batch */
  int64_t kv_heads;           /* 1 unless shared out per head */
  int64_t count;              /* batch * kv_heads */
  uint32_t *order;            /* host copy, [count][length] */
  sattn_buffer *device_order; /* the same on the device; for length 0 a buffer of 0 bytes */
  uint64_t id;
  uint64_t hash;
};

struct sattn_plan {
  sattn_context *context;
  sattn_problem problem;
  sattn_sizes maxima;
  uint32_t passes;
  sattn_plan_info info;
  uint64_t id;
  int profiling;
  sattn_profile profile;
  void *impl;
};

struct sattn_gate_plan {
  sattn_context *context;
  int64_t max_rows, inputs, outputs;
  bool has_bias;
  uint64_t workspace;
  void *impl;
};

/* A context with options resolved and lock made, without a backend's part; used by the core and by the interop entries. */
sattn_status sattn_context_allocate(const struct sattn_backend_ops *ops, const sattn_context_options *options, sattn_context **out_context,
                                    sattn_error *error);

/* A number that no other plan or permutation of the context has. */
uint64_t sattn_context_new_id(sattn_context *context);

/* Ends a public entry: traces a refusal (`error` holds its message) and returns `status`. */
sattn_status sattn_context_report(const sattn_context *context, sattn_status status, const sattn_error *error);

/* The refusal of a NULL context. */
sattn_status sattn_context_missing(sattn_error *error);

/* Keeps the compiler's log of a failed program (takes a copy). */
void sattn_context_set_build_log(sattn_context *context, const char *log);

/* Index of the permutation that batch b and key/value head g use, 0 <= index < count. */
int64_t sattn_permutation_index(sattn_sharing sharing, int64_t kv_heads, int64_t b, int64_t g);

/* The packed default strides of [B, tokens, heads, width] where all three strides are zero. */
void sattn_tensor_resolve(sattn_tensor *tensor, int64_t tokens, int64_t heads, int64_t width);

#endif
