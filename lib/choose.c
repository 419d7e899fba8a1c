/* From a device's name, or none, to a context. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "trace.h"

enum { CANDIDATE_CAPACITY = 64 };

/* A smaller rank is preferred; equal ranks keep the order of backends and devices. */
typedef struct candidate {
  const sattn_backend_ops *ops;
  uint32_t index;
  int rank;
} candidate;

/* CUDA GPUs, then OpenCL GPUs, then OpenCL CPUs, then the reference. Other accelerators come after CPUs: nothing was tuned for them. */
static int rank_of(sattn_backend backend, sattn_device_type type) {
  if (backend == SATTN_BACKEND_CUDA) return 0;
  if (backend == SATTN_BACKEND_REFERENCE) return 4;
  return type == SATTN_DEVICE_GPU ? 1 : type == SATTN_DEVICE_CPU ? 2 : 3;
}

static sattn_status open_device(const sattn_backend_ops *ops, uint32_t index, const sattn_context_options *options,
                                sattn_context **out_context, sattn_error *error) {
  sattn_context *context = NULL;
  sattn_status status = sattn_context_allocate(ops, options, &context, error);
  if (status != SATTN_OK) return status;
  status = ops->context_create(context, index, NULL, error);
  if (status != SATTN_OK) {
    sattn_context_destroy(&context);
    return status;
  }
  sattn_trace(context->trace, SATTN_TRACE_DISPATCH, "device %s chosen: %s, %s", context->device.id, context->device.name,
              context->device.driver);
  *out_context = context;
  return SATTN_OK;
}

static size_t list_candidates(candidate *list, uint32_t trace) {
  size_t count = 0;
  for (int backend = 1; backend <= SATTN_BACKEND_COUNT; ++backend) {
    const sattn_backend_ops *ops = sattn_registry_get((sattn_backend)backend);
    if (ops == NULL) continue;
    sattn_error error;
    if (ops->probe(&error) != SATTN_OK) {
      sattn_trace(trace, SATTN_TRACE_DISPATCH, "backend %s not chosen: %s", sattn_backend_name(ops->backend), error.message);
      continue;
    }
    uint32_t devices = ops->device_count();
    for (uint32_t i = 0; i < devices && count < CANDIDATE_CAPACITY; ++i) {
      sattn_device_info info;
      sattn_device_info_init(&info);
      if (ops->device_info(i, &info, NULL) != SATTN_OK) continue;
      candidate next = {ops, i, rank_of(ops->backend, info.type)};
      size_t place = count++;
      for (; place > 0 && list[place - 1].rank > next.rank; --place) list[place] = list[place - 1];
      list[place] = next;
    }
  }
  return count;
}

/* Nobody named a device: the first of the list that can be opened. */
static sattn_status open_best(const sattn_context_options *options, sattn_context **out_context, sattn_error *error) {
  candidate list[CANDIDATE_CAPACITY];
  uint32_t trace = sattn_trace_parse(getenv("SATTN_TRACE"));
  size_t count = list_candidates(list, trace);
  sattn_status status = SATTN_OK;
  sattn_error local = {0};
  for (size_t i = 0; i < count; ++i) {
    status = open_device(list[i].ops, list[i].index, options, out_context, &local);
    if (status == SATTN_OK) return SATTN_OK;
    sattn_trace(trace, SATTN_TRACE_DISPATCH, "device %s:%" PRIu32 " not chosen: %s", sattn_backend_name(list[i].ops->backend),
                list[i].index, local.message);
    /* Bad options are refused by every device alike. */
    if (status == SATTN_INVALID_ARGUMENT) break;
  }
  if (count == 0)
    return sattn_fail(error, SATTN_UNAVAILABLE, "device_id", "no backend of this build has a device: ask sattn_backend_probe why");
  if (error != NULL) *error = local;
  return status;
}

static sattn_status unknown_name(const char *argument, const char *name, sattn_error *error) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, argument,
                    "%s is \"%.64s\": it must be reference, opencl or cuda, with or without a device number such as opencl:0", argument,
                    name);
}

/* Splits "opencl:1" or "opencl". Returns false for anything else. */
static bool parse_name(const char *name, const sattn_backend_ops **out_ops, uint32_t *out_index) {
  size_t length = strcspn(name, ":");
  *out_ops = NULL;
  *out_index = 0;
  for (int backend = 1; backend <= SATTN_BACKEND_COUNT; ++backend) {
    const char *known = sattn_backend_name((sattn_backend)backend);
    if (strlen(known) == length && strncmp(known, name, length) == 0) *out_ops = sattn_registry_get((sattn_backend)backend);
  }
  if (*out_ops == NULL) return false;
  if (name[length] == '\0') return true;
  const char *digits = name + length + 1;
  size_t count = strspn(digits, "0123456789");
  if (count == 0 || count > 9 || digits[count] != '\0') return false;
  /* One device, one name: the one that `sattn info` prints. */
  if (digits[0] == '0' && count > 1) return false;
  *out_index = (uint32_t)strtoul(digits, NULL, 10);
  return true;
}

static sattn_status open_named(const char *argument, const char *name, const sattn_context_options *options, sattn_context **out_context,
                               sattn_error *error) {
  const sattn_backend_ops *ops = NULL;
  uint32_t index = 0;
  if (!parse_name(name, &ops, &index)) return unknown_name(argument, name, error);
  sattn_status status = ops->probe(error);
  if (status != SATTN_OK) return status;
  uint32_t count = ops->device_count();
  if (index >= count) {
    return sattn_fail(error, SATTN_UNAVAILABLE, argument, "%s is \"%.64s\": backend %s has %" PRIu32 " device(s) here, counted from 0",
                      argument, name, sattn_backend_name(ops->backend), count);
  }
  return open_device(ops, index, options, out_context, error);
}

sattn_status sattn_context_create(const char *device_id, const sattn_context_options *options, sattn_context **out_context,
                                  sattn_error *out_error) {
  if (out_context == NULL)
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "out_context", "out_context is NULL: it must point to a handle");
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  const char *argument = "device_id";
  if (device_id == NULL) {
    device_id = getenv("SATTN_DEVICE");
    argument = "SATTN_DEVICE";
    if (device_id != NULL && device_id[0] == '\0') device_id = NULL;
  }
  sattn_status status =
      device_id != NULL ? open_named(argument, device_id, options, out_context, error) : open_best(options, out_context, error);
  if (status != SATTN_OK) {
    sattn_trace(sattn_trace_parse(getenv("SATTN_TRACE")), SATTN_TRACE_ERROR, "%s: %s", sattn_status_name(status), error->message);
  }
  return status;
}
