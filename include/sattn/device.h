/* Backends, devices, contexts and queues.
 *
 *     backend (reference, opencl, cuda)  ->  device  ->  context  ->  buffers, permutations, plans
 *
 * Neither this nor any other core header includes a driver's header; see opencl.h and cuda.h for objects that the caller already owns.
 */
#ifndef SATTN_DEVICE_H
#define SATTN_DEVICE_H

#include <sattn/status.h>

SATTN_BEGIN_DECLS

typedef enum sattn_backend {
  SATTN_BACKEND_REFERENCE = 1, /* plain C, double accumulation, always there: the yardstick, slow */
  SATTN_BACKEND_OPENCL = 2,
  SATTN_BACKEND_CUDA = 3
} sattn_backend;

#define SATTN_BACKEND_COUNT 3

/* "reference", "opencl", "cuda"; NULL for any other value. Static storage. Thread-safety: safe. */
SATTN_API const char *sattn_backend_name(sattn_backend backend);

/* SATTN_OK when the backend has at least one device that can be used now; otherwise SATTN_UNAVAILABLE with the reason and what to install.
 * May load the driver. Thread-safety: safe. */
SATTN_API sattn_status sattn_backend_probe(sattn_backend backend, sattn_error *out_error);

typedef enum sattn_device_type { SATTN_DEVICE_CPU = 1, SATTN_DEVICE_GPU = 2, SATTN_DEVICE_ACCELERATOR = 3 } sattn_device_type;

/* Facts of a device. In every numeric field zero means "not supported" or "not known". */
typedef struct sattn_device_info {
  size_t struct_size;
  sattn_backend backend;
  uint32_t index;   /* 0-based within the backend, in the driver's order */
  char id[32];      /* what sattn_context_create and the tool's --device take, such as "opencl:0" */
  char name[128];   /* the driver's name of the device */
  char driver[128]; /* platform or driver, with version */
  sattn_device_type type;
  uint32_t compute_units;
  uint64_t memory_bytes;
  uint64_t max_allocation_bytes;
  uint64_t local_memory_bytes; /* fast memory shared by a work-group; 0 when the device keeps it in ordinary memory */
  uint32_t max_work_group;
  uint32_t vector_width;       /* preferred fp32 lanes of one work-item */
  uint32_t compute_capability; /* CUDA: 80 for sm_80 */
  uint32_t has_fp16;           /* 1: half arithmetic. fp16 STORAGE needs none of it and always works */
  uint32_t has_fp64;           /* 1: double arithmetic; never needed */
  uint32_t has_subgroups;
  uint32_t shares_host_memory; /* 1: host arrays are used in place, nothing is copied */
} sattn_device_info;

SATTN_API void sattn_device_info_init(sattn_device_info *info);

/* Number of devices of a backend. A backend that is not available has 0 devices and still returns SATTN_OK: ask
 * sattn_backend_probe for the reason. Thread-safety: safe. */
SATTN_API sattn_status sattn_device_count(sattn_backend backend, uint32_t *out_count, sattn_error *out_error);

/* Facts of device `index` of a backend. out_info must be initialised. Thread-safety: safe. */
SATTN_API sattn_status sattn_device_get_info(sattn_backend backend, uint32_t index, sattn_device_info *out_info, sattn_error *out_error);

/* ---- contexts ---- */

/* A device made ready: programs, a queue of its own, messages. Ownership: the creator's. Destroy everything made from it first.
 * Thread-safety: safe; several threads may make objects from one context at once. */
typedef struct sattn_context sattn_context;

/* Which family of kernels a context may use. Chosen by capability; forcing one is for tests and tuning.
 * The environment variable SATTN_KERNELS ("auto", "cpu", "gpu", "general") overrides AUTO. On CPUs with AMX, kernels for CPUs use it for
 * bf16 where it gives a known answer; SATTN_AMX=0 in the environment forbids that. */
typedef enum sattn_kernel_family {
  SATTN_KERNELS_AUTO = 0,   /* by capability (default) */
  SATTN_KERNELS_CPU = 1,    /* packed tiles, one work-item per tile, wide vectors */
  SATTN_KERNELS_GPU = 2,    /* work-group tiles in local memory */
  SATTN_KERNELS_GENERAL = 3 /* the plain kernel for everything */
} sattn_kernel_family;

typedef struct sattn_context_options {
  size_t struct_size;
  sattn_kernel_family kernels; /* default AUTO */
  /* Folder of compiled programs. NULL: $SATTN_CACHE_DIR, else $XDG_CACHE_HOME/sattn, else $HOME/.cache/sattn. "" : no cache on disk. */
  const char *cache_directory;
  /* Appended to the driver's compiler options; NULL: $SATTN_BUILD_OPTIONS, else none. Part of the cache key. */
  const char *build_options;
} sattn_context_options;

SATTN_API void sattn_context_options_init(sattn_context_options *options);

/* device_id: an id such as "opencl:0", or a backend's name for its first device, or NULL for the best device present:
 * CUDA GPUs, then OpenCL GPUs, then OpenCL CPUs, then the reference; SATTN_DEVICE, if set, replaces NULL. An explicit name is obeyed or
 * the call fails; there is never a fallback from it. options may be NULL. */
SATTN_API sattn_status sattn_context_create(const char *device_id, const sattn_context_options *options, sattn_context **out_context,
                                            sattn_error *out_error);
SATTN_API void sattn_context_destroy(sattn_context **context);

/* Facts of the context's device; borrowed, valid as long as the context. */
SATTN_API const sattn_device_info *sattn_context_device(const sattn_context *context);

/* The compiler's log of the last program of this context that failed to build. Copies at most `capacity` bytes, terminated, into `text`
 * (may be NULL when capacity is 0) and returns the length of the whole log without the terminator; 0 when nothing failed. */
SATTN_API size_t sattn_context_build_log(const sattn_context *context, char *text, size_t capacity);

/* How many programs this context compiled, and how many it took from the cache on disk. Either pointer may be NULL. */
SATTN_API void sattn_context_program_counts(const sattn_context *context, uint64_t *out_compiled, uint64_t *out_cached);

/* ---- queues and events ---- */

/* A cl_command_queue or CUstream of the caller (see opencl.h, cuda.h), borrowed for the call; {NULL} is the context's own in-order queue.
 */
typedef struct sattn_queue {
  void *native;
} sattn_queue;

/* Completion of an asynchronous call: a value around a cl_event or CUevent. {NULL} is "already complete".
 * Ownership: the receiver of an out_event owns one reference and gives it back with sattn_event_release. */
typedef struct sattn_event {
  void *native;
} sattn_event;

/* Blocks until the event is complete and reports a failure of the device, which also sticks to the context. {NULL} returns at once. */
SATTN_API sattn_status sattn_event_wait(sattn_context *context, sattn_event event, sattn_error *out_error);

/* Gives the reference back and sets the event to {NULL}. Safe before completion. */
SATTN_API void sattn_event_release(sattn_context *context, sattn_event *event);

/* Blocks until everything in the queue is complete. */
SATTN_API sattn_status sattn_queue_finish(sattn_context *context, sattn_queue queue, sattn_error *out_error);

SATTN_END_DECLS

#endif
