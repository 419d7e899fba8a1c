/* A context: one device made ready, own or the caller's. */
#ifndef SATTN_CL_CONTEXT_H
#define SATTN_CL_CONTEXT_H

#include "cl_api.h"
#include "objects.h"

struct sattn_cl_program;
struct sattn_cl_rows;

/* What cl_amx.c found. Guarded by sattn_context.lock until it is known; it never changes afterwards. */
typedef struct sattn_cl_amx {
  bool known;
  bool has_pairs;      /* the processor rounds pairs of fp32 to bf16 by itself */
  const char *refusal; /* NULL: AMX may be used */
} sattn_cl_amx;

/* context->impl of this backend. */
typedef struct sattn_cl_context {
  const sattn_cl_api *api;
  cl_context handle;      /* own or retained */
  cl_device_id device;    /* retained with the context */
  cl_command_queue queue; /* own, in order */
  bool is_pocl;
  bool has_svm;
  sattn_cl_amx amx;
  pthread_mutex_t program_lock; /* guards the three below; held while a program is built, so that no two threads build the same one */
  struct sattn_cl_program *programs;
  struct sattn_cl_rows *rows; /* kernels of cl_rows.c and cl_merge.c, made at first use */
  cl_int failure;             /* first failure of the device, guarded by sattn_context.lock; CL_SUCCESS: none */
} sattn_cl_context;

/* The caller's objects, as sattn_backend_ops.context_create takes them. */
typedef struct sattn_cl_imported {
  cl_context handle;
  cl_device_id device;
} sattn_cl_imported;

static inline sattn_cl_context *sattn_cl_of(const sattn_context *context) {
  return (sattn_cl_context *)context->impl;
}

sattn_status sattn_cl_context_create(sattn_context *context, uint32_t index, const void *imported, sattn_error *error);
void sattn_cl_context_destroy(sattn_context *context);

/* Remembers a failure of the device for ever: what was computed after it cannot be trusted. Returns SATTN_DRIVER_ERROR. */
sattn_status sattn_cl_context_fail(sattn_context *context, cl_int code, const char *function, sattn_error *error);

/* SATTN_OK, or the failure that sticks to the context. */
sattn_status sattn_cl_context_usable(sattn_context *context, sattn_error *error);

sattn_status sattn_cl_queue_finish(sattn_context *context, sattn_queue queue, sattn_error *error);

#endif
