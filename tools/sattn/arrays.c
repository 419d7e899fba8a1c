#include "arrays.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN = -1 };

void sattn_extents_init(sattn_extents *extents) {
  extents->has_batch = true;
  extents->batch = extents->queries = extents->keys = extents->heads = extents->kv_heads = extents->head_dim = UNKNOWN;
}

static int64_t *extent_of(sattn_extents *extents, char letter) {
  switch (letter) {
    case 'B':
      return &extents->batch;
    case 'q':
      return &extents->queries;
    case 'k':
      return &extents->keys;
    case 'H':
      return &extents->heads;
    case 'G':
      return &extents->kv_heads;
    case 'd':
      return &extents->head_dim;
    default:
      return NULL;
  }
}

static const char *word_of(char letter) {
  switch (letter) {
    case 'B':
      return "batch";
    case 'q':
      return "queries";
    case 'k':
      return "keys";
    case 'H':
      return "heads";
    case 'G':
      return "kv_heads";
    case 'd':
      return "head_dim";
    default:
      return "1 or head_dim";
  }
}

/* The letters that an array really has: without a batch dimension, "BqHd" is "qHd", but lengths "B" stays. */
static const char *present(const sattn_extents *extents, const char *letters) {
  return !extents->has_batch && letters[0] == 'B' && letters[1] ? letters + 1 : letters;
}

bool sattn_extents_match(sattn_extents *extents, const char *name, const sattn_npy *array, const char *letters, sattn_report *report) {
  char shape[192], wanted[128] = "";
  sattn_npy_shape_text(array, shape, sizeof shape);
  letters = present(extents, letters);
  for (size_t i = 0; letters[i]; i++) {
    size_t used = strlen(wanted);
    snprintf(wanted + used, sizeof wanted - used, "%s%s", i ? ", " : "", word_of(letters[i]));
  }
  if (array->dimensions != (int)strlen(letters)) return sattn_tool_refuse(report, "%s: shape %s, must be [%s]", name, shape, wanted);
  for (int i = 0; i < array->dimensions; i++) {
    int64_t *known = extent_of(extents, letters[i]), extent = array->shape[i];
    if (!known) {
      if (extent != 1 && extent != extents->head_dim)
        return sattn_tool_refuse(report, "%s: shape %s, its last dimension must be 1 or head_dim %" PRId64, name, shape, extents->head_dim);
    } else if (*known == UNKNOWN) {
      *known = extent;
    } else if (*known != extent) {
      return sattn_tool_refuse(report, "%s: shape %s, must be [%s] with %s = %" PRId64 " as in the arrays before it", name, shape, wanted,
                               word_of(letters[i]), *known);
    }
  }
  return true;
}

sattn_npy sattn_extents_shape(const sattn_extents *extents, const char *letters, sattn_npy_type type, int64_t gate_extent) {
  sattn_extents copy = *extents;
  sattn_npy array;
  memset(&array, 0, sizeof array);
  array.type = type;
  array.count = 1;
  for (letters = present(extents, letters); *letters; letters++) {
    const int64_t *known = extent_of(&copy, *letters);
    array.shape[array.dimensions] = known ? *known : gate_extent;
    array.count *= (uint64_t)array.shape[array.dimensions++];
  }
  return array;
}

static bool replace_data(sattn_npy *array, void *data, sattn_npy_type type) {
  if (!data) return false;
  free(array->data);
  array->data = data;
  array->type = type;
  return true;
}

static bool halves_to_floats(sattn_npy *array, float (*widen)(uint16_t), const char *name, sattn_report *report) {
  const uint16_t *from = array->data;
  float *to = sattn_tool_allocate(report, name, array->count, sizeof *to);
  for (uint64_t i = 0; to && i < array->count; i++) to[i] = widen(from[i]);
  return replace_data(array, to, SATTN_NPY_FLOAT32);
}

static bool floats_to_halves(sattn_npy *array, uint16_t (*narrow)(float), const char *name, sattn_report *report) {
  const float *from = array->data;
  uint16_t *to = sattn_tool_allocate(report, name, array->count, sizeof *to);
  for (uint64_t i = 0; to && i < array->count; i++) to[i] = narrow(from[i]);
  return replace_data(array, to, SATTN_NPY_FLOAT16);
}

/* Inexact values get an odd last bit, so that rounding to a half type afterwards is as good as rounding once. */
static float round_to_odd(double value) {
  float rounded = (float)value;
  if (!isfinite(rounded) || (double)rounded == value) return rounded;
  if (fabs((double)rounded) > fabs(value)) rounded = nextafterf(rounded, 0);
  uint32_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  bits |= 1;
  memcpy(&rounded, &bits, sizeof bits);
  return rounded;
}

static bool doubles_to_floats(sattn_npy *array, sattn_dtype dtype, const char *name, sattn_report *report) {
  const double *from = array->data;
  float *to = sattn_tool_allocate(report, name, array->count, sizeof *to);
  for (uint64_t i = 0; to && i < array->count; i++) to[i] = dtype == SATTN_FP32 ? (float)from[i] : round_to_odd(from[i]);
  return replace_data(array, to, SATTN_NPY_FLOAT32);
}

bool sattn_to_storage(sattn_npy *array, sattn_dtype dtype, const char *name, sattn_report *report) {
  if (array->type == SATTN_NPY_FLOAT64 && !doubles_to_floats(array, dtype, name, report)) return false;
  if (array->type != SATTN_NPY_FLOAT32 && array->type != SATTN_NPY_FLOAT16)
    return sattn_tool_refuse(report, "%s: element type %s; float32 or float16 is needed", name, sattn_npy_type_name(array->type));
  if (array->type == SATTN_NPY_FLOAT16) {
    if (dtype == SATTN_FP16) return true;
    if (!halves_to_floats(array, sattn_fp16_to_float, name, report)) return false;
  }
  if (dtype == SATTN_FP32) return true;
  return floats_to_halves(array, dtype == SATTN_FP16 ? sattn_fp16_from_float : sattn_bf16_from_float, name, report);
}

bool sattn_from_storage(sattn_npy *array, sattn_dtype dtype, const char *name, sattn_report *report) {
  if (dtype != SATTN_BF16) return true;
  return halves_to_floats(array, sattn_bf16_to_float, name, report);
}

bool sattn_to_uint32(sattn_npy *array, const char *name, sattn_report *report) {
  if (array->type == SATTN_NPY_UINT32) return true;
  if (array->type != SATTN_NPY_INT32 && array->type != SATTN_NPY_INT64)
    return sattn_tool_refuse(report, "%s: element type %s; uint32, int32 or int64 is needed", name, sattn_npy_type_name(array->type));
  uint32_t *to = sattn_tool_allocate(report, name, array->count, sizeof *to);
  if (!to) return false;
  for (uint64_t i = 0; i < array->count; i++) {
    int64_t value = array->type == SATTN_NPY_INT32 ? ((const int32_t *)array->data)[i] : ((const int64_t *)array->data)[i];
    if (value < 0 || value > UINT32_MAX) {
      free(to);
      return sattn_tool_refuse(report, "%s: entry %" PRIu64 " is %" PRId64 ": not a token", name, i, value);
    }
    to[i] = (uint32_t)value;
  }
  return replace_data(array, to, SATTN_NPY_UINT32);
}
