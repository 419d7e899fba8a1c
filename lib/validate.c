/* What can be checked of a description without a device or actual sizes. Every refusal names argument, value and rule. */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "problem.h"

enum { MAX_HEAD_DIM = 256 };

static bool uses_sa(sattn_mode mode) {
  return mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED;
}
static bool uses_swa(sattn_mode mode) {
  return mode == SATTN_SLIDING_WINDOW || mode == SATTN_UNION || mode == SATTN_GATED;
}

static sattn_status refuse(sattn_error *error, const char *argument, int64_t value, const char *rule) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, argument, "%s is %" PRId64 ": %s", argument, value, rule);
}

static sattn_status refuse_in_mode(sattn_error *error, const char *argument, int64_t value, sattn_mode mode, const char *rule) {
  return sattn_fail(error, SATTN_INVALID_ARGUMENT, argument, "%s is %" PRId64 " in mode %s: %s", argument, value, sattn_mode_name(mode),
                    rule);
}

static sattn_status check_shape(const sattn_attention *a, sattn_error *error) {
  if (sattn_mode_name(a->mode) == NULL)
    return refuse(error, "mode", (int64_t)a->mode, "it must be one of sattn_mode (SATTN_FULL to SATTN_MOBA)");
  if (sattn_dtype_name(a->dtype) == NULL)
    return refuse(error, "dtype", (int64_t)a->dtype, "it must be SATTN_FP32, SATTN_FP16 or SATTN_BF16");
  if (a->heads < 1 || a->heads > INT32_MAX) return refuse(error, "heads", a->heads, "the number of query heads must be 1 to 2147483647");
  if (a->kv_heads < 0) return refuse(error, "kv_heads", a->kv_heads, "it must be at least 1, or 0 for as many as heads");
  if (a->kv_heads > a->heads || (a->kv_heads > 0 && a->heads % a->kv_heads != 0)) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "heads", "heads is %" PRId64 ": it must be a multiple of kv_heads, which is %" PRId64,
                      a->heads, a->kv_heads);
  }
  if (a->head_dim < 1 || a->head_dim > MAX_HEAD_DIM) return refuse(error, "head_dim", a->head_dim, "it must be 1 to 256");
  if (a->value_head_dim != 0 && a->value_head_dim != a->head_dim) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "value_head_dim",
                      "value_head_dim is %" PRId64 ": it must be 0 or equal to head_dim, which is %" PRId64, a->value_head_dim,
                      a->head_dim);
  }
  return SATTN_OK;
}

/* A mode needs exactly its windows. */
static sattn_status check_window(sattn_band band, const sattn_attention *a, sattn_error *error) {
  bool is_sa = band == SATTN_BAND_SA;
  bool needed = is_sa ? uses_sa(a->mode) : uses_swa(a->mode);
  const char *name = is_sa ? "window_sa" : "window_swa";
  const sattn_window window = is_sa ? a->window_sa : a->window_swa;
  if (window.kind == SATTN_WINDOW_NONE) {
    if (window.width != 0 || window.left != 0 || window.right != 0) {
      return sattn_fail(error, SATTN_INVALID_ARGUMENT, name,
                        "%s has width %" PRId64 ", left %" PRId64 ", right %" PRId64
                        " but no kind: make windows by sattn_window_width or sattn_window_sides",
                        name, window.width, window.left, window.right);
    }
    if (!needed) return SATTN_OK;
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s is missing: mode %s needs this window", name, sattn_mode_name(a->mode));
  }
  if (!needed)
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, name, "%s is given: mode %s has no such window", name, sattn_mode_name(a->mode));
  int64_t left = 0, right = 0;
  return sattn_window_resolve(band, a->causal, window, &left, &right, error);
}

static sattn_status check_order(const sattn_attention *a, sattn_error *error) {
  if (a->wrap != 0 && a->wrap != 1) return refuse(error, "wrap", a->wrap, "it must be 0 or 1");
  if (a->order_length < 0 || a->order_length > INT32_MAX) {
    return refuse(error, "order_length", a->order_length, "it must be the number of tokens of the permutation, below 2^31, or 0");
  }
  if (a->sharing < SATTN_SHARED || a->sharing > SATTN_PER_BATCH_AND_HEAD) {
    return refuse(error, "sharing", (int64_t)a->sharing, "it must be one of sattn_sharing (SATTN_SHARED to SATTN_PER_BATCH_AND_HEAD)");
  }
  if (uses_sa(a->mode)) return SATTN_OK;
  const char *rule = "it belongs to the stochastic window of modes sa, union and gated";
  if (a->wrap != 0) return refuse_in_mode(error, "wrap", a->wrap, a->mode, rule);
  if (a->order_length != 0) return refuse_in_mode(error, "order_length", a->order_length, a->mode, rule);
  if (a->sharing != SATTN_SHARED) return refuse_in_mode(error, "sharing", (int64_t)a->sharing, a->mode, rule);
  return SATTN_OK;
}

static sattn_status check_visibility(const sattn_attention *a, sattn_error *error) {
  if (a->causal != 0 && a->causal != 1) return refuse(error, "causal", a->causal, "it must be 0 or 1");
  sattn_status status = check_window(SATTN_BAND_SA, a, error);
  if (status == SATTN_OK) status = check_window(SATTN_BAND_SWA, a, error);
  if (status == SATTN_OK) status = check_order(a, error);
  if (status != SATTN_OK) return status;
  if (a->sink_tokens < 0) return refuse(error, "sink_tokens", a->sink_tokens, "a number of tokens must be 0 or more");
  if (a->sink_tokens > 0 && a->mode == SATTN_FULL) {
    return refuse_in_mode(error, "sink_tokens", a->sink_tokens, a->mode, "it must be 0, every token is visible already");
  }
  if (a->mode == SATTN_MOBA) {
    if (a->block < 1) return refuse_in_mode(error, "block", a->block, a->mode, "a block must hold at least 1 token");
    if (a->topk < 1) return refuse_in_mode(error, "topk", a->topk, a->mode, "a query must select at least 1 block, its own");
    return SATTN_OK;
  }
  if (a->block != 0) return refuse_in_mode(error, "block", a->block, a->mode, "it belongs to mode moba and must be 0");
  if (a->topk != 0) return refuse_in_mode(error, "topk", a->topk, a->mode, "it belongs to mode moba and must be 0");
  return SATTN_OK;
}

static sattn_status check_score(const sattn_attention *a, sattn_error *error) {
  if (!isfinite(a->scale) || fabs(a->scale) > (double)FLT_MAX) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "scale", "scale is %g: it must be finite in fp32, or 0 for 1/sqrt(head_dim)",
                      a->scale);
  }
  if (!isfinite(a->softcap) || a->softcap < 0) {
    return sattn_fail(error, SATTN_INVALID_ARGUMENT, "softcap", "softcap is %g: it must be positive and finite, or 0 for off", a->softcap);
  }
  return SATTN_OK;
}

static sattn_status check_gates(const sattn_attention *a, sattn_error *error) {
  const struct {
    const char *name;
    sattn_gate_shape shape;
  } gates[] = {{"gate_sa_shape", a->gate_sa_shape}, {"gate_swa_shape", a->gate_swa_shape}};
  for (size_t i = 0; i < 2; ++i) {
    if (gates[i].shape != SATTN_GATE_PER_HEAD && gates[i].shape != SATTN_GATE_PER_ELEMENT) {
      return refuse(error, gates[i].name, (int64_t)gates[i].shape, "it must be SATTN_GATE_PER_HEAD or SATTN_GATE_PER_ELEMENT");
    }
    if (gates[i].shape != SATTN_GATE_PER_HEAD && a->mode != SATTN_GATED) {
      return refuse_in_mode(error, gates[i].name, (int64_t)gates[i].shape, a->mode, "only mode gated has gates");
    }
  }
  if (a->gate_dtype != SATTN_FP32 && a->gate_dtype != a->dtype) {
    return refuse(error, "gate_dtype", (int64_t)a->gate_dtype, "it must be SATTN_FP32 or the dtype of the call");
  }
  return SATTN_OK;
}

static sattn_status check_flags(const sattn_attention *a, sattn_error *error) {
  const struct {
    const char *name;
    int32_t value;
  } flags[] = {{"has_lengths", a->has_lengths}, {"has_query_start", a->has_query_start}, {"has_sink_logits", a->has_sink_logits}};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; ++i) {
    if (flags[i].value != 0 && flags[i].value != 1) return refuse(error, flags[i].name, flags[i].value, "it must be 0 or 1");
  }
  return SATTN_OK;
}

/* Copies the caller's struct (which may be of an older version) and checks the copy. */
static sattn_status check_all(const sattn_attention *attention, sattn_attention *a, sattn_error *error) {
  sattn_attention_init(a);
  sattn_status status = sattn_copy_struct("attention", attention, sizeof *a, a, error);
  if (status == SATTN_OK) status = check_shape(a, error);
  if (status == SATTN_OK) status = check_visibility(a, error);
  if (status == SATTN_OK) status = check_score(a, error);
  if (status == SATTN_OK) status = check_gates(a, error);
  if (status == SATTN_OK) status = check_flags(a, error);
  return status;
}

sattn_status sattn_attention_validate(const sattn_attention *attention, sattn_error *out_error) {
  sattn_attention copy;
  return check_all(attention, &copy, out_error);
}

static int32_t clamp_count(int64_t count) {
  return count > INT32_MAX ? INT32_MAX : (int32_t)count;
}

/* fp32 must not turn a tiny scale into 0, which would be another number's meaning; nobody can tell such scores apart. */
static float resolve_scale(double scale, int64_t head_dim) {
  if (scale == 0) return (float)(1.0 / sqrt((double)head_dim));
  if (fabs(scale) < (double)FLT_MIN) return scale < 0 ? -FLT_MIN : FLT_MIN;
  return (float)scale;
}

/* A tiny softcap must not become 0, which means off; a huge one must keep score / softcap out of the subnormals. Beyond 1e30 no score that
 * fp32 can hold to full precision is changed by it. */
static float resolve_softcap(double softcap) {
  if (softcap == 0) return 0;
  if (softcap < (double)FLT_MIN) return FLT_MIN;
  return softcap > 1e30 ? 1e30f : (float)softcap;
}

static void resolve_window(sattn_band band, const sattn_attention *a, int32_t *left, int32_t *right) {
  int64_t wide_left = 0, wide_right = 0;
  (void)sattn_window_resolve(band, a->causal, band == SATTN_BAND_SA ? a->window_sa : a->window_swa, &wide_left, &wide_right, NULL);
  *left = clamp_count(wide_left);
  *right = clamp_count(wide_right);
}

sattn_status sattn_problem_resolve(const sattn_attention *attention, sattn_problem *out_problem, sattn_error *error) {
  sattn_attention a;
  sattn_status status = check_all(attention, &a, error);
  if (status != SATTN_OK) return status;
  sattn_problem problem = {0};
  problem.mode = a.mode;
  problem.dtype = a.dtype;
  problem.heads = (int32_t)a.heads;
  problem.kv_heads = (int32_t)(a.kv_heads == 0 ? a.heads : a.kv_heads);
  problem.group = problem.heads / problem.kv_heads;
  problem.head_dim = (int32_t)a.head_dim;
  problem.causal = a.causal != 0;
  problem.uses_sa = uses_sa(a.mode);
  problem.uses_swa = uses_swa(a.mode);
  if (problem.uses_sa) resolve_window(SATTN_BAND_SA, &a, &problem.left_sa, &problem.right_sa);
  if (problem.uses_swa) resolve_window(SATTN_BAND_SWA, &a, &problem.left_swa, &problem.right_swa);
  problem.wrap = a.wrap != 0;
  problem.order_length = (int32_t)a.order_length;
  problem.sharing = a.sharing;
  problem.sink_tokens = clamp_count(a.sink_tokens);
  problem.block = clamp_count(a.block);
  problem.topk = clamp_count(a.topk);
  problem.scale = resolve_scale(a.scale, a.head_dim);
  problem.softcap = resolve_softcap(a.softcap);
  problem.gate_sa_shape = a.gate_sa_shape;
  problem.gate_swa_shape = a.gate_swa_shape;
  problem.gate_dtype = a.gate_dtype;
  problem.has_lengths = a.has_lengths != 0;
  problem.has_query_start = a.has_query_start != 0;
  problem.has_sink_logits = a.has_sink_logits != 0;
  *out_problem = problem;
  return SATTN_OK;
}
