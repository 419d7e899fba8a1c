/* The input of the approximation measure: random, or from files. */
#include <math.h>
#include <stdlib.h>

#include "../sattn/npy.h"
#include "approximation.h"
#include "orders.h"
#include "refuse.h"

enum { RANDOM_HEADS = 4 };

static float normal(uint64_t seed, uint64_t index) {
  const double u = 1.0 - sattn_field_uniform(seed, SATTN_FIELD_STREAM_DATA, 2 * index); /* above 0: its logarithm is taken */
  const double v = sattn_field_uniform(seed, SATTN_FIELD_STREAM_DATA, 2 * index + 1);
  return (float)(sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v));
}

static sattn_status random_sample(const sattn_field_settings *settings, sattn_field_sample *sample, sattn_error *out_error) {
  *sample = (sattn_field_sample){.n = settings->n, .heads = RANDOM_HEADS, .kv_heads = RANDOM_HEADS, .d = settings->head_dim};
  const size_t count = (size_t)(sample->n * sample->heads * sample->d);
  float **const arrays[] = {&sample->query, &sample->key, &sample->value};
  for (size_t a = 0; a < 3; a++) {
    float *const array = malloc(count * sizeof *array);
    if (array == NULL) return sattn_field_no_memory(out_error);
    for (size_t e = 0; e < count; e++) {
      array[e] = normal(settings->seed, a * count + e);
    }
    *arrays[a] = array;
  }
  return SATTN_OK;
}

/* Reads [n, heads, d] and keeps the first tokens, as fp32. */
static sattn_status read_array(const char *path, int64_t tokens, int64_t *out_n, int64_t *out_heads, int64_t *out_d, float **out_array,
                               sattn_error *out_error) {
  sattn_report report = {SATTN_EXIT_DONE, ""};
  sattn_npy array;
  if (!sattn_npy_read(path, &array, &report)) return sattn_field_refuse(out_error, SATTN_IO_ERROR, path, "%s", report.message);
  sattn_status status = SATTN_OK;
  if (array.dimensions != 3 || (array.type != SATTN_NPY_FLOAT16 && array.type != SATTN_NPY_FLOAT32)) {
    status = sattn_field_refuse(out_error, SATTN_INVALID_ARGUMENT, path, "%s: must be float16 or float32 of shape [n, heads, d]", path);
  } else {
    const int64_t n = array.shape[0] < tokens ? array.shape[0] : tokens;
    const size_t count = (size_t)(n * array.shape[1] * array.shape[2]);
    float *const values = malloc((count > 0 ? count : 1) * sizeof *values);
    if (values == NULL) {
      status = sattn_field_no_memory(out_error);
    } else {
      for (size_t e = 0; e < count; e++) {
        values[e] =
            array.type == SATTN_NPY_FLOAT32 ? ((const float *)array.data)[e] : sattn_fp16_to_float(((const uint16_t *)array.data)[e]);
      }
      *out_n = n;
      *out_heads = array.shape[1];
      *out_d = array.shape[2];
      *out_array = values;
    }
  }
  sattn_npy_free(&array);
  return status;
}

static sattn_status file_sample(const sattn_field_settings *settings, sattn_field_sample *sample, sattn_error *out_error) {
  int64_t n[3] = {0, 0, 0};
  int64_t heads[3] = {0, 0, 0};
  int64_t d[3] = {0, 0, 0};
  const char *const paths[3] = {settings->query, settings->key, settings->value};
  float **const arrays[3] = {&sample->query, &sample->key, &sample->value};
  for (int a = 0; a < 3; a++) {
    const sattn_status status = read_array(paths[a], settings->n, &n[a], &heads[a], &d[a], arrays[a], out_error);
    if (status != SATTN_OK) return status;
  }
  if (n[0] < 2 || n[1] != n[0] || n[2] != n[0] || d[1] != d[0] || d[2] != d[0] || heads[1] != heads[2] || heads[1] < 1 ||
      heads[0] % heads[1] != 0) {
    return sattn_field_refuse(out_error, SATTN_INVALID_ARGUMENT, "q, k, v",
                              "shapes [%lld, %lld, %lld], [%lld, %lld, %lld], [%lld, %lld, %lld] of q, k, v do not belong together",
                              (long long)n[0], (long long)heads[0], (long long)d[0], (long long)n[1], (long long)heads[1], (long long)d[1],
                              (long long)n[2], (long long)heads[2], (long long)d[2]);
  }
  sample->n = n[0];
  sample->heads = heads[0];
  sample->kv_heads = heads[1];
  sample->d = d[0];
  return SATTN_OK;
}

sattn_status sattn_field_sample_make(const sattn_field_settings *settings, sattn_field_sample *out_sample, sattn_error *out_error) {
  sattn_field_sample sample = {0};
  const sattn_status status =
      settings->query != NULL ? file_sample(settings, &sample, out_error) : random_sample(settings, &sample, out_error);
  if (status != SATTN_OK) {
    sattn_field_sample_free(&sample);
    return status;
  }
  *out_sample = sample;
  return SATTN_OK;
}

void sattn_field_sample_free(sattn_field_sample *sample) {
  free(sample->query);
  free(sample->key);
  free(sample->value);
  *sample = (sattn_field_sample){0};
}
