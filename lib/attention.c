#include <inttypes.h>
#include <string.h>

#include <sattn/attention.h>

#include "error.h"

const char *sattn_mode_name(sattn_mode mode) {
  switch (mode) {
    case SATTN_FULL:
      return "full";
    case SATTN_SLIDING_WINDOW:
      return "swa";
    case SATTN_STOCHASTIC:
      return "sa";
    case SATTN_UNION:
      return "union";
    case SATTN_GATED:
      return "gated";
    case SATTN_MOBA:
      return "moba";
  }
  return NULL;
}

const char *sattn_dtype_name(sattn_dtype dtype) {
  switch (dtype) {
    case SATTN_FP32:
      return "fp32";
    case SATTN_FP16:
      return "fp16";
    case SATTN_BF16:
      return "bf16";
  }
  return NULL;
}

size_t sattn_dtype_size(sattn_dtype dtype) {
  switch (dtype) {
    case SATTN_FP32:
      return 4;
    case SATTN_FP16:
      return 2;
    case SATTN_BF16:
      return 2;
  }
  return 0;
}

void sattn_attention_init(sattn_attention *attention) {
  if (attention == NULL) return;
  memset(attention, 0, sizeof *attention);
  attention->struct_size = sizeof *attention;
  attention->dtype = SATTN_FP32;
  attention->causal = 1;
  attention->gate_dtype = SATTN_FP32;
}

static sattn_status refuse(sattn_error *error, const char *window, const char *field, int64_t value, const char *rule) {
  char argument[64];
  strcpy(argument, window);
  strcat(argument, ".");
  strcat(argument, field);
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, argument, "%s is %" PRId64 ": %s", argument, value, rule);
}

static sattn_status check_width(const char *name, sattn_window window, sattn_error *error) {
  if (window.width < 1) return refuse(error, name, "width", window.width, "a width must be at least 1");
  const char *rule = "give either a width or sides (left and right), not both";
  if (window.left != 0) return refuse(error, name, "left", window.left, rule);
  if (window.right != 0) return refuse(error, name, "right", window.right, rule);
  return SATTN_OK;
}

static sattn_status check_sides(const char *name, sattn_window window, sattn_error *error) {
  const char *rule = "a side counts keys: it must be 0 or more, or SATTN_UNBOUNDED";
  if (window.left < 0) return refuse(error, name, "left", window.left, rule);
  if (window.right < 0) return refuse(error, name, "right", window.right, rule);
  if (window.width != 0) return refuse(error, name, "width", window.width, "give either a width or sides (left and right), not both");
  return SATTN_OK;
}

sattn_status sattn_window_resolve(sattn_band band, int causal, sattn_window window, int64_t *out_left, int64_t *out_right,
                                  sattn_error *out_error) {
  if (band != SATTN_BAND_SWA && band != SATTN_BAND_SA) {
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, "band", "band is %d: it must be SATTN_BAND_SWA or SATTN_BAND_SA", (int)band);
  }
  if (out_left == NULL || out_right == NULL) {
    const char *name = out_left == NULL ? "out_left" : "out_right";
    return sattn_fail(out_error, SATTN_INVALID_ARGUMENT, name, "%s is NULL: it must point to a number", name);
  }
  const char *name = band == SATTN_BAND_SA ? "window_sa" : "window_swa";
  sattn_status status = SATTN_OK;
  int64_t left = window.left, right = window.right;
  switch (window.kind) {
    case SATTN_WINDOW_WIDTH:
      status = check_width(name, window, out_error);
      if (status != SATTN_OK) return status; /* before arithmetic: the width may be INT64_MIN */
      left = causal ? window.width - 1 : window.width / 2;
      right = !causal ? window.width - 1 - window.width / 2 : band == SATTN_BAND_SA ? window.width - 1 : 0;
      break;
    case SATTN_WINDOW_SIDES:
      status = check_sides(name, window, out_error);
      break;
    default:
      return refuse(out_error, name, "kind", (int64_t)window.kind, "the window must be given as a width or as sides");
  }
  if (status != SATTN_OK) return status;
  *out_left = left;
  *out_right = right;
  return SATTN_OK;
}
