#include "cl_blas.h"

#include "cl_program.h"
#include "dynlib.h"

/* Values of clblast_c.h, which is not needed to build. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, SINGLE_PRECISION = 32, SUCCESS = 0, SCRATCH_FAILED = -4 };

typedef int sgemm_function(int layout, int transpose_a, int transpose_b, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                           size_t offset_a, size_t stride_a, cl_mem b, size_t offset_b, size_t stride_b, float beta, cl_mem c,
                           size_t offset_c, size_t stride_c, cl_command_queue *queue, cl_event *event, cl_mem scratch);
typedef int scratch_function(int layout, int transpose_a, int transpose_b, size_t m, size_t n, size_t k, size_t offset_a, size_t stride_a,
                             size_t offset_b, size_t stride_b, size_t offset_c, size_t stride_c, cl_command_queue *queue, size_t *bytes);
typedef int override_function(cl_device_id device, const char *kernel, int precision, size_t count, const char **names,
                              const size_t *values);

typedef struct clblast {
  sgemm_function *sgemm;
  scratch_function *scratch;
  override_function *override;
} clblast;

static const char *const library_names[] = {"libclblast.so.1", "libclblast.so", NULL};

static const sattn_symbol symbols[] = {
    {"CLBlastSgemmWithTempBuffer", offsetof(clblast, sgemm), 1},
    {"CLBlastSGemmTempBufferSize", offsetof(clblast, scratch), 1},
    {"CLBlastOverrideParameters", offsetof(clblast, override), 1},
};

/* CLBlast keeps its parameters per device and process, so this list does too: setting them again would compile everything again. */
#define MAX_TUNED 64
static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static clblast loaded;
static void *loaded_library; /* never closed: it holds driver objects */
static cl_device_id tuned_devices[MAX_TUNED];
static size_t tuned_count;

/* For devices where a work-item has a core's vectors for itself: groups of one work-item, each a tile of MWG x NWG sums in registers.
 * CLBlast's defaults for an unknown CPU make groups of many narrow work-items. */
static const char *const tuned_names[] = {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB",
                                          "NDIMC", "NWG",  "SA",  "SB",  "STRM",  "STRN",  "VWM", "VWN"};
static const size_t tuned_values[] = {0, 1, 32, 2, 1, 1, 8, 1, 1, 64, 0, 0, 0, 0, 8, 8};

/* The lock is held. */
static sattn_status tune(const sattn_context *context, sattn_error *error) {
  cl_device_id device = sattn_cl_of(context)->device;
  if (sattn_cl_plain_group(context) != 1) return SATTN_OK;
  for (size_t i = 0; i < tuned_count; ++i) {
    if (tuned_devices[i] == device) return SATTN_OK;
  }
  if (tuned_count == MAX_TUNED) return SATTN_OK;
  const char *names[sizeof tuned_names / sizeof tuned_names[0]];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) names[i] = tuned_names[i];
  int code = loaded.override(device, "Xgemm", SINGLE_PRECISION, sizeof names / sizeof names[0], names, tuned_values);
  if (code != SUCCESS) return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "CLBlastOverrideParameters returned %d", code);
  tuned_devices[tuned_count++] = device;
  return SATTN_OK;
}

sattn_status sattn_cl_blas_open(const sattn_context *context, sattn_error *error) {
  sattn_status status = SATTN_OK;
  pthread_mutex_lock(&load_lock);
  if (!loaded_library) {
    status =
        sattn_dynlib_open(library_names, symbols, sizeof symbols / sizeof symbols[0], &loaded,
                          "gate logits on OpenCL need CLBlast; install it, on Debian: apt-get install libclblast1", &loaded_library, error);
  }
  if (status == SATTN_OK) status = tune(context, error);
  pthread_mutex_unlock(&load_lock);
  return status;
}

static size_t stride_a(const sattn_cl_product *product) {
  return product->transpose_a ? product->m : product->k;
}
static size_t stride_b(const sattn_cl_product *product) {
  return product->transpose_b ? product->k : product->n;
}
static int transpose_flag(bool transpose) {
  return transpose ? TRANSPOSE : NO_TRANSPOSE;
}

sattn_status sattn_cl_blas_scratch(const sattn_context *context, const sattn_cl_product *product, size_t *out_bytes, sattn_error *error) {
  cl_command_queue queue = sattn_cl_of(context)->queue;
  size_t bytes = 0;
  /* An offset of 1 makes CLBlast count a copy of every matrix: the most that any offset can need. */
  int code = loaded.scratch(ROW_MAJOR, transpose_flag(product->transpose_a), transpose_flag(product->transpose_b), product->m, product->n,
                            product->k, 1, stride_a(product), 1, stride_b(product), 1, product->n, &queue, &bytes);
  if (code != SUCCESS) return sattn_fail_driver(error, SATTN_DRIVER_ERROR, code, "CLBlastSGemmTempBufferSize returned %d", code);
  *out_bytes = bytes;
  return SATTN_OK;
}

sattn_status sattn_cl_blas_run(const sattn_context *context, cl_command_queue queue, const sattn_cl_product *product, cl_mem scratch,
                               cl_event *out_event, sattn_error *error) {
  cl_event event = NULL;
  int code = loaded.sgemm(ROW_MAJOR, transpose_flag(product->transpose_a), transpose_flag(product->transpose_b), product->m, product->n,
                          product->k, 1.0f, product->a, product->offset_a, stride_a(product), product->b, product->offset_b,
                          stride_b(product), product->beta, product->c, product->offset_c, product->n, &queue, &event, scratch);
  if (code != SUCCESS) {
    return sattn_fail_driver(error, code == SCRATCH_FAILED ? SATTN_OUT_OF_MEMORY : SATTN_DRIVER_ERROR, code,
                             "CLBlastSgemmWithTempBuffer returned %d for a product of %zu x %zu x %zu on device %s", code, product->m,
                             product->n, product->k, context->device.id);
  }
  *out_event = event;
  return SATTN_OK;
}
