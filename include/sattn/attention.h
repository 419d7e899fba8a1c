/* What is computed: modes, windows and options of one attention call. Pure description; nothing here touches a device.
 *
 * Symbols (contract section 1): B batch, n_q and n_k tokens of query and key, H query heads, H_kv key/value heads, d head dimension.
 * Query head h reads key/value head h / (H / H_kv). Query i of batch b has position p(i) = query_start[b] + i, key j has position j;
 * without query_start, p(i) = n_k - n_q + i: the last query stands on the last key ("bottom-right", as in FlashAttention 2.1 and later).
 *
 *     score    s(i,j) = scale * <Q[i], K[j]>, then softcap * tanh(s / softcap) if softcap > 0
 *     LSE[i] = log( sum over visible j of exp s(i,j)  +  exp(sink_logit[h]) )       (natural logarithm; the sink term only if given)
 *     O[i]   = sum over visible j of exp(s(i,j) - LSE[i]) * V[j]
 *
 * Which keys are visible (and, if causal, j <= p(i); causality always compares ORIGINAL positions):
 *
 *     SATTN_FULL            all
 *     SATTN_SLIDING_WINDOW  p(i) - left_swa <= j <= p(i) + right_swa
 *     SATTN_STOCHASTIC      slot[p(i)] - left_sa <= slot[j] <= slot[p(i)] + right_sa      (circular with `wrap`)
 *     SATTN_UNION           what SLIDING_WINDOW or STOCHASTIC sees, under ONE softmax: a key seen by both counts once
 *     SATTN_GATED           both, each its own softmax: Y = sigmoid(g_sa) * Y_sa + sigmoid(g_swa) * Y_swa
 *     SATTN_MOBA            keys of the blocks that the query selected
 *
 * Worked example, n = 6, order = [3,0,5,1,4,2], width 3; the visible sets of tokens 0..5:
 *
 *     causal SLIDING_WINDOW   {0} {0,1} {0,1,2} {1,2,3} {2,3,4} {3,4,5}
 *     causal STOCHASTIC       {0} {0,1} {1,2} {0,3} {1,2,4} {0,1,3,4,5}
 *     two-way STOCHASTIC      {0,3,5} {1,4,5} {2,4} {0,3} {1,2,4} {0,1,5}
 *
 * A query at a position >= lengths[b] is an empty row: O = 0, LSE = -infinity, no gradient flows from it. No other row can be empty.
 * NaN or infinity in a key or value row that a query does not see never reaches that query's output.
 *
 * Source: contract sections 1, 2, 4, 5; paper (arXiv 2604.00754) for STOCHASTIC and GATED.
 */
#ifndef SATTN_ATTENTION_H
#define SATTN_ATTENTION_H

#include <sattn/permutation.h>
#include <sattn/status.h>

SATTN_BEGIN_DECLS

typedef enum sattn_mode {
  SATTN_FULL = 1,
  SATTN_SLIDING_WINDOW = 2,
  SATTN_STOCHASTIC = 3,
  SATTN_UNION = 4,
  SATTN_GATED = 5,
  SATTN_MOBA = 6
} sattn_mode;

/* "full", "swa", "sa", "union", "gated", "moba" (the tool's words); NULL for any other value. */
SATTN_API const char *sattn_mode_name(sattn_mode mode);

/* Storage of Q, K, V, O and their gradients: one per call. Sums, softmax and LSE are fp32 or wider whatever the storage. */
typedef enum sattn_dtype { SATTN_FP32 = 1, SATTN_FP16 = 2, SATTN_BF16 = 3 } sattn_dtype;

/* "fp32", "fp16", "bf16"; NULL for any other value. */
SATTN_API const char *sattn_dtype_name(sattn_dtype dtype);
/* 4, 2, 2; 0 for any other value. */
SATTN_API size_t sattn_dtype_size(sattn_dtype dtype);

/* Round to nearest even, as the library itself does; for callers that prepare half arrays on the host. */
SATTN_API uint16_t sattn_fp16_from_float(float value);
SATTN_API float sattn_fp16_to_float(uint16_t bits);
SATTN_API uint16_t sattn_bf16_from_float(float value);
SATTN_API float sattn_bf16_to_float(uint16_t bits);

/* ---- windows ---- */

/* For a side of a window: no limit. */
#define SATTN_UNBOUNDED INT64_MAX

typedef enum sattn_window_kind {
  SATTN_WINDOW_NONE = 0,  /* not given (default) */
  SATTN_WINDOW_WIDTH = 1, /* a width, turned into sides by sattn_window_resolve */
  SATTN_WINDOW_SIDES = 2  /* counts of keys to the left and right */
} sattn_window_kind;

/* left and right are counts >= 0 or SATTN_UNBOUNDED, NOT including the token itself. Zero means no key on that side, never "off";
 * negative values are refused by name, and so is a width below 1. */
typedef struct sattn_window {
  sattn_window_kind kind;
  int64_t width; /* only with SATTN_WINDOW_WIDTH, else 0 */
  int64_t left;  /* only with SATTN_WINDOW_SIDES, else 0 */
  int64_t right;
} sattn_window;

static inline sattn_window sattn_window_width(int64_t width) {
  sattn_window window = {SATTN_WINDOW_WIDTH, 0, 0, 0};
  window.width = width;
  return window;
}

static inline sattn_window sattn_window_sides(int64_t left, int64_t right) {
  sattn_window window = {SATTN_WINDOW_SIDES, 0, 0, 0};
  window.left = left;
  window.right = right;
  return window;
}

/* The band that a window belongs to. */
typedef enum sattn_band { SATTN_BAND_SWA = 1, SATTN_BAND_SA = 2 } sattn_band;

/* The meaning of a width w >= 1, as (left, right):
 *
 *              causal        not causal
 *     SWA      (w-1, 0)      (w/2, w-1-w/2)
 *     SA       (w-1, w-1)    (w/2, w-1-w/2)
 *
 * The causal SA preset takes both sides because half of them lie in the future: every pair of tokens within w slots is seen once, by the
 * later one, so the number of visible pairs is exactly that of causal SWA of the same w. A window of sides is returned as it is.
 * Refused: kind NONE or unknown, width < 1, a negative side, sides together with a width. */
SATTN_API sattn_status sattn_window_resolve(sattn_band band, int causal, sattn_window window, int64_t *out_left, int64_t *out_right,
                                            sattn_error *out_error);

/* ---- gates ---- */

typedef enum sattn_gate_shape {
  SATTN_GATE_PER_HEAD = 0,   /* [B, n_q, H, 1] (default) */
  SATTN_GATE_PER_ELEMENT = 1 /* [B, n_q, H, d] */
} sattn_gate_shape;

/* ---- the description ---- */

typedef struct sattn_attention {
  size_t struct_size;

  /* --- required --- */
  sattn_mode mode;
  sattn_dtype dtype;      /* default SATTN_FP32 */
  int64_t heads;          /* H >= 1, a multiple of kv_heads */
  int64_t kv_heads;       /* H_kv >= 1; default 0 means equal to heads */
  int64_t head_dim;       /* d, 1..256 */
  int64_t value_head_dim; /* 0 (default) means head_dim; any other value than head_dim is refused today */

  /* --- visibility --- */
  int32_t causal;          /* 1 (default) or 0 */
  sattn_window window_sa;  /* exactly in STOCHASTIC, UNION, GATED */
  sattn_window window_swa; /* exactly in SLIDING_WINDOW, UNION, GATED */
  int32_t wrap; /* 1: slot distance is circular modulo the number of slots; a key reached twice counts once. SA, UNION, GATED. Default 0 */
  /* L > 0: the permutation is drawn over L >= n_k tokens and slots are counted there, whether or not the tokens exist yet, so that visible
   * causal sets never change as the sequence grows. 0 (default): drawn over the tokens that exist. SA, UNION, GATED. */
  int64_t order_length;
  sattn_sharing sharing; /* how many permutations the call has; default one. SA, UNION, GATED */
  int64_t sink_tokens;   /* N >= 0: keys at positions < N are visible too (if causal, j <= p(i)). Every mode but FULL. Default 0 */
  int64_t block;         /* MOBA: tokens of a block, >= 1; else 0 */
  int64_t topk;          /* MOBA: blocks that a query selects, its own included, >= 1; else 0 */

  /* --- score --- */
  double scale;   /* 0 (default) means 1/sqrt(d); any other finite number is taken as it is */
  double softcap; /* c > 0; 0 (default) is off; negative or not finite is refused */

  /* --- gates (GATED only) --- */
  sattn_gate_shape gate_sa_shape; /* default per head */
  sattn_gate_shape gate_swa_shape;
  sattn_dtype gate_dtype; /* SATTN_FP32 (default) or the call's dtype */

  /* --- optional arrays that the calls will bring: 1 yes, 0 (default) no --- */
  int32_t has_lengths;     /* int32 [B], 0..n_k: tokens at positions >= lengths[b] do not exist for batch b */
  int32_t has_query_start; /* int32 [B], 0..n_k-n_q: position of the first query; default n_k - n_q */
  /* fp32 [H], finite or -infinity (no sink): takes part in the denominator only; in GATED in both softmaxes. NaN and +infinity are refused
   * where the host sees the values; in plan calls the results of that head are then undefined. */
  int32_t has_sink_logits;
} sattn_attention;

SATTN_API void sattn_attention_init(sattn_attention *attention);

/* Checks everything that does not depend on a device or on actual sizes. Every refusal names argument, value and rule. Thread-safety: safe.
 */
SATTN_API sattn_status sattn_attention_validate(const sattn_attention *attention, sattn_error *out_error);

SATTN_END_DECLS

#endif
