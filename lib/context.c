/* Contexts: options and environment resolved once, then never read again. Choosing a device is choose.c. */
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

void sattn_context_options_init(sattn_context_options *options) {
  if (options == NULL) return;
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
}

/* NULL where the variable is unset. */
static const char *environment(const char *name) {
  return getenv(name);
}

static char *copy_text(const char *text, const char *suffix) {
  size_t length = strlen(text), more = strlen(suffix);
  char *copy = malloc(length + more + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  memcpy(copy + length, suffix, more + 1);
  return copy;
}

/* The folder and what is appended to it; *out_base NULL or empty: no cache on disk. */
static void find_cache(const char *chosen, const char **out_base, const char **out_suffix) {
  *out_suffix = "";
  *out_base = chosen != NULL ? chosen : environment("SATTN_CACHE_DIR");
  if (*out_base != NULL) return;
  *out_base = environment("XDG_CACHE_HOME");
  *out_suffix = "/sattn";
  /* The XDG specification says that a relative path is to be ignored. */
  if (*out_base != NULL && (*out_base)[0] == '/') return;
  *out_base = environment("HOME");
  *out_suffix = "/.cache/sattn";
}

static sattn_status resolve_kernels(sattn_kernel_family asked, sattn_kernel_family *out_kernels, sattn_error *error) {
  static const char *const words[] = {"auto", "cpu", "gpu", "general"};
  if (asked < SATTN_KERNELS_AUTO || asked > SATTN_KERNELS_GENERAL) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "kernels",
                      "kernels is %d: it must be one of sattn_kernel_family (SATTN_KERNELS_AUTO to _GENERAL)", (int)asked);
  }
  *out_kernels = asked;
  const char *word = environment("SATTN_KERNELS");
  if (asked != SATTN_KERNELS_AUTO || word == NULL || word[0] == '\0') return SATTN_OK;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
    if (strcmp(word, words[i]) == 0) {
      *out_kernels = (sattn_kernel_family)i;
      return SATTN_OK;
    }
  }
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "SATTN_KERNELS", "SATTN_KERNELS is \"%s\": it must be auto, cpu, gpu or general", word);
}

static sattn_status resolve_draw(sattn_draw_place *out_place, sattn_error *error) {
  static const char *const words[] = {"auto", "host", "device"};
  const char *word = environment("SATTN_DRAW");
  *out_place = SATTN_DRAW_AUTO;
  if (word == NULL || word[0] == '\0') return SATTN_OK;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
    if (strcmp(word, words[i]) == 0) {
      *out_place = (sattn_draw_place)i;
      return SATTN_OK;
    }
  }
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "SATTN_DRAW", "SATTN_DRAW is \"%s\": it must be auto, host or device", word);
}

static sattn_status resolve_amx(bool *out_amx, sattn_error *error) {
  const char *word = environment("SATTN_AMX");
  *out_amx = word == NULL || word[0] == '\0' || strcmp(word, "auto") == 0;
  if (*out_amx || strcmp(word, "0") == 0) return SATTN_OK;
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "SATTN_AMX", "SATTN_AMX is \"%s\": it must be auto or 0", word);
}

static void free_context(sattn_context *context) {
  pthread_mutex_destroy(&context->lock);
  free(context->cache_directory);
  free(context->build_options);
  free(context->build_log);
  free(context);
}

static sattn_status out_of_memory(sattn_error *error) {
  return sattn_fail(error, SATTN_OUT_OF_MEMORY, NULL, "the host has no memory for a context of %zu bytes", sizeof(sattn_context));
}

sattn_status sattn_context_allocate(const struct sattn_backend_ops *ops, const sattn_context_options *options, sattn_context **out_context,
                                    sattn_error *error) {
  sattn_context_options chosen;
  sattn_context_options_init(&chosen);
  sattn_status status = options == NULL ? SATTN_OK : sattn_copy_struct("options", options, sizeof chosen, &chosen, error);
  sattn_kernel_family kernels = SATTN_KERNELS_AUTO;
  if (status == SATTN_OK) status = resolve_kernels(chosen.kernels, &kernels, error);
  sattn_draw_place draw = SATTN_DRAW_AUTO;
  if (status == SATTN_OK) status = resolve_draw(&draw, error);
  bool amx = true;
  if (status == SATTN_OK) status = resolve_amx(&amx, error);
  if (status != SATTN_OK) return status;

  sattn_context *context = calloc(1, sizeof *context);
  if (context == NULL) return out_of_memory(error);
  if (pthread_mutex_init(&context->lock, NULL) != 0) {
    free(context);
    return out_of_memory(error);
  }
  context->ops = ops;
  sattn_device_info_init(&context->device);
  context->kernels = kernels;
  context->draw = draw;
  context->amx = amx;
  context->trace = sattn_trace_parse(environment("SATTN_TRACE"));
  context->next_id = 1;
  const char *base = NULL, *suffix = NULL;
  find_cache(chosen.cache_directory, &base, &suffix);
  bool wants_cache = base != NULL && base[0] != '\0';
  if (wants_cache) context->cache_directory = copy_text(base, suffix);
  const char *build_options = chosen.build_options != NULL ? chosen.build_options : environment("SATTN_BUILD_OPTIONS");
  context->build_options = copy_text(build_options != NULL ? build_options : "", "");
  if (context->build_options == NULL || (wants_cache && context->cache_directory == NULL)) {
    free_context(context);
    return out_of_memory(error);
  }
  *out_context = context;
  return SATTN_OK;
}

void sattn_context_destroy(sattn_context **context) {
  if (context == NULL || *context == NULL) return;
  /* Without impl the backend's part was never made. */
  if ((*context)->impl != NULL) (*context)->ops->context_destroy(*context);
  free_context(*context);
  *context = NULL;
}

const sattn_device_info *sattn_context_device(const sattn_context *context) {
  return context != NULL ? &context->device : NULL;
}

void sattn_context_set_build_log(sattn_context *context, const char *log) {
  char *copy = log != NULL ? copy_text(log, "") : NULL;
  pthread_mutex_lock(&context->lock);
  char *old = context->build_log;
  context->build_log = copy;
  pthread_mutex_unlock(&context->lock);
  free(old);
}

size_t sattn_context_build_log(const sattn_context *context, char *text, size_t capacity) {
  if (context == NULL) return 0;
  /* The lock is state of its own: reading under it changes nothing that a caller can see. */
  pthread_mutex_t *lock = (pthread_mutex_t *)&context->lock;
  pthread_mutex_lock(lock);
  const char *log = context->build_log != NULL ? context->build_log : "";
  size_t length = strlen(log);
  if (text != NULL && capacity > 0) {
    size_t copied = length < capacity - 1 ? length : capacity - 1;
    memcpy(text, log, copied);
    text[copied] = '\0';
  }
  pthread_mutex_unlock(lock);
  return length;
}

void sattn_context_program_counts(const sattn_context *context, uint64_t *out_compiled, uint64_t *out_cached) {
  if (context == NULL) return;
  pthread_mutex_t *lock = (pthread_mutex_t *)&context->lock;
  pthread_mutex_lock(lock);
  if (out_compiled != NULL) *out_compiled = context->programs_compiled;
  if (out_cached != NULL) *out_cached = context->programs_cached;
  pthread_mutex_unlock(lock);
}

uint64_t sattn_context_new_id(sattn_context *context) {
  pthread_mutex_lock(&context->lock);
  uint64_t id = context->next_id++;
  pthread_mutex_unlock(&context->lock);
  return id;
}

sattn_status sattn_context_report(const sattn_context *context, sattn_status status, const sattn_error *error) {
  if (status != SATTN_OK && context != NULL) {
    sattn_trace(context->trace, SATTN_TRACE_ERROR, "%s: %s", sattn_status_name(status), error->message);
  }
  return status;
}

sattn_status sattn_context_missing(sattn_error *error) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, "context", "context is NULL: make one by sattn_context_create");
}

sattn_status sattn_event_wait(sattn_context *context, sattn_event event, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  if (event.native == NULL) return SATTN_OK;
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, context->ops->event_wait(context, event, error), error);
}

void sattn_event_release(sattn_context *context, sattn_event *event) {
  if (context == NULL || event == NULL || event->native == NULL) return;
  context->ops->event_release(context, event);
  event->native = NULL;
}

sattn_status sattn_queue_finish(sattn_context *context, sattn_queue queue, sattn_error *out_error) {
  if (context == NULL) return sattn_context_missing(out_error);
  sattn_error local;
  sattn_error *error = out_error != NULL ? out_error : &local;
  return sattn_context_report(context, context->ops->queue_finish(context, queue, error), error);
}
