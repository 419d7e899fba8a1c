/* Options of `sattn attend` and the rules among them that need no array. */
#include <string.h>

#include "attend.h"

#define TEXT(name, argument, target, help) \
  { SATTN_OPTION_TEXT, name, argument, target, NULL, NULL, help }
#define INPUT(name, index, help)  TEXT(name, "F", &a->input_path[index], help)
#define OUTPUT(name, index, help) TEXT(name, "F", &a->output_path[index], help)
#define HEADING(text) \
  { SATTN_OPTION_HEADING, NULL, NULL, NULL, NULL, NULL, text }

static bool check_outputs(const sattn_attend *a, sattn_report *report) {
  static const struct {
    sattn_attend_output output;
    const char *name;
    bool gated;     /* needs --mode gated */
    bool not_gated; /* refuses it */
    bool backward;
  } RULES[] = {{OUT_OUT, "--out", false, false, false},
               {OUT_LSE, "--lse", false, true, false},
               {OUT_LSE_SA, "--lse-sa", true, false, false},
               {OUT_LSE_SWA, "--lse-swa", true, false, false},
               {OUT_DQ, "--dq", false, false, true},
               {OUT_DK, "--dk", false, false, true},
               {OUT_DV, "--dv", false, false, true},
               {OUT_DGATE_SA, "--dgate-sa", true, false, true},
               {OUT_DGATE_SWA, "--dgate-swa", true, false, true},
               {OUT_DSINK_LOGITS, "--dsink-logits", false, false, true}};
  bool gated = a->mode + 1 == SATTN_GATED, any = false;
  for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
    if (!a->output_path[RULES[i].output]) continue;
    any = true;
    if (RULES[i].gated && !gated) return sattn_tool_misuse(report, "%s: belongs to --mode gated", RULES[i].name);
    if (RULES[i].not_gated && gated) return sattn_tool_misuse(report, "%s: --mode gated has --lse-sa and --lse-swa instead", RULES[i].name);
    if (RULES[i].backward && !a->input_path[IN_GRAD_OUT]) return sattn_tool_misuse(report, "%s: needs --grad-out", RULES[i].name);
  }
  if (!any) return sattn_tool_misuse(report, "--out or another output is needed");
  if (a->output_path[OUT_DSINK_LOGITS] && !a->input_path[IN_SINK_LOGITS])
    return sattn_tool_misuse(report, "--dsink-logits: needs --sink-logits");
  return true;
}

static bool check_inputs(const sattn_attend *a, sattn_report *report) {
  static const struct {
    sattn_attend_input input;
    const char *name;
    bool gated, not_gated, backward, required;
  } RULES[] = {{IN_QUERY, "--q", false, false, false, true},
               {IN_KEY, "--k", false, false, false, true},
               {IN_VALUE, "--v", false, false, false, true},
               {IN_GATE_SA, "--gate-sa", true, false, false, false},
               {IN_GATE_SWA, "--gate-swa", true, false, false, false},
               {IN_GRAD_LSE, "--grad-lse", false, true, true, false},
               {IN_GRAD_LSE_SA, "--grad-lse-sa", true, false, true, false},
               {IN_GRAD_LSE_SWA, "--grad-lse-swa", true, false, true, false}};
  bool gated = a->mode + 1 == SATTN_GATED;
  for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
    bool given = a->input_path[RULES[i].input] != NULL;
    if (!given && RULES[i].required) return sattn_tool_misuse(report, "%s: needed", RULES[i].name);
    if (!given) continue;
    if (RULES[i].gated && !gated) return sattn_tool_misuse(report, "%s: belongs to --mode gated", RULES[i].name);
    if (RULES[i].not_gated && gated)
      return sattn_tool_misuse(report, "%s: --mode gated has --grad-lse-sa and --grad-lse-swa instead", RULES[i].name);
    if (RULES[i].backward && !a->input_path[IN_GRAD_OUT]) return sattn_tool_misuse(report, "%s: needs --grad-out", RULES[i].name);
  }
  if (gated && (!a->input_path[IN_GATE_SA] || !a->input_path[IN_GATE_SWA]))
    return sattn_tool_misuse(report, "--mode gated needs --gate-sa and --gate-swa");
  return true;
}

static bool check_rules(const sattn_attend *a, sattn_report *report) {
  int mode = a->mode + 1;
  if (!a->mode_given) return sattn_tool_misuse(report, "--mode: needed");
  if (a->input_path[IN_ORDER] && a->key_given)
    return sattn_tool_misuse(report, "--order together with --seed, --layer, --substream or --step: one permutation, please");
  bool permuted = mode == SATTN_STOCHASTIC || mode == SATTN_UNION || mode == SATTN_GATED;
  if (!permuted && (a->input_path[IN_ORDER] || a->key_given))
    return sattn_tool_misuse(report, "--order, --seed, --layer, --substream, --step: --mode %s has no permutation",
                             SATTN_MODE_WORDS[a->mode]);
  /* The library's description cannot tell 0 from "not given"; here it can be told. */
  if (a->order_length_given && a->order_length < 1)
    return sattn_tool_refuse(report, "--order-length %lld: must be at least the number of keys", (long long)a->order_length);
  return check_inputs(a, report) && check_outputs(a, report);
}

bool sattn_attend_read_options(sattn_attend *a, int argc, char **argv, bool *out_help, sattn_report *report) {
  a->causal = true;
  const sattn_option options[] = {
      {SATTN_OPTION_CHOICE, "--mode", "MODE", &a->mode, &a->mode_given, SATTN_MODE_WORDS, "full, swa, sa, union, gated or moba (required)"},
      INPUT("--q", IN_QUERY, "queries [B, n, H, d] or [n, H, d], float32 or float16"),
      INPUT("--k", IN_KEY, "keys [B, n, H_kv, d]; H must be a multiple of H_kv"),
      INPUT("--v", IN_VALUE, "values, shaped as the keys"),
      {SATTN_OPTION_CHOICE, "--dtype", "T", &a->dtype, &a->dtype_given, SATTN_DTYPE_WORDS,
       "fp32, fp16 or bf16: converts q, k, v and grad-out (round to nearest even); without it they must agree"},
      SATTN_PLACE_OPTIONS(&a->place),
      HEADING("What a query sees:"),
      {SATTN_OPTION_FLAG, "--causal", NULL, &a->causal, NULL, NULL, "only keys at or before its own position (default)"},
      {SATTN_OPTION_CLEAR, "--no-causal", NULL, &a->causal, NULL, NULL, "keys on both sides"},
      {SATTN_OPTION_INT64, "--window-sa", "W", &a->window_sa.width, &a->window_sa.has_width, NULL,
       "width among the slots: W-1 to each side if causal (as many pairs as a sliding window of W), else W keys"},
      {SATTN_OPTION_INT64, "--window-swa", "W", &a->window_swa.width, &a->window_swa.has_width, NULL, "width among the positions: W keys"},
      {SATTN_OPTION_SIDE, "--left-sa", "N", &a->window_sa.left, &a->window_sa.has_left, NULL,
       "instead of a width: keys to the left, or `unbounded`"},
      {SATTN_OPTION_SIDE, "--right-sa", "N", &a->window_sa.right, &a->window_sa.has_right, NULL, "keys to the right"},
      {SATTN_OPTION_SIDE, "--left-swa", "N", &a->window_swa.left, &a->window_swa.has_left, NULL, "the same among the positions"},
      {SATTN_OPTION_SIDE, "--right-swa", "N", &a->window_swa.right, &a->window_swa.has_right, NULL, ""},
      {SATTN_OPTION_FLAG, "--wrap", NULL, &a->wrap, NULL, NULL, "slot distance is circular"},
      {SATTN_OPTION_INT64, "--sink-tokens", "N", &a->sink_tokens, NULL, NULL, "the first N tokens stay visible"},
      {SATTN_OPTION_INT64, "--block", "N", &a->block, &a->block_given, NULL, "moba: tokens of a block"},
      {SATTN_OPTION_INT64, "--topk", "N", &a->topk, &a->topk_given, NULL, "moba: blocks a query selects, its own included"},
      HEADING("The permutation (sa, union, gated):"),
      {SATTN_OPTION_UINT64, "--seed", "S", &a->key.seed, &a->key_given, NULL, "default 0, as the next three"},
      {SATTN_OPTION_UINT32, "--layer", "L", &a->key.layer, &a->key_given, NULL, ""},
      {SATTN_OPTION_UINT32, "--substream", "T", &a->key.substream, &a->key_given, NULL, ""},
      {SATTN_OPTION_UINT32, "--step", "P", &a->key.step, &a->key_given, NULL, ""},
      INPUT("--order", IN_ORDER, "instead: uint32, int32 or int64 [length] or [count, length]"),
      {SATTN_OPTION_INT64, "--order-length", "L", &a->order_length, &a->order_length_given, NULL,
       "the permutation is drawn over L tokens, so that visible sets stay as the sequence grows"},
      {SATTN_OPTION_CHOICE, "--permutation-per", "WHAT", &a->sharing, NULL, SATTN_SHARING_WORDS,
       "head, batch or batch-and-head (default: one for the call; head = key/value head)"},
      HEADING("Score and rows:"),
      {SATTN_OPTION_REAL, "--scale", "X", &a->scale, NULL, NULL, "default 1/sqrt(d)"},
      {SATTN_OPTION_REAL, "--softcap", "X", &a->softcap, NULL, NULL, "scores become X tanh(score / X)"},
      INPUT("--sink-logits", IN_SINK_LOGITS, "float32 [H]: takes part in the denominator only"),
      INPUT("--lengths", IN_LENGTHS, "int32 [B]: tokens beyond do not exist"),
      INPUT("--query-start", IN_QUERY_START, "int32 [B]: position of the first query (default: the last query stands on the last key)"),
      INPUT("--gate-sa", IN_GATE_SA, "gated: logits, float32 [B, n, H, 1] or [B, n, H, d]"),
      INPUT("--gate-swa", IN_GATE_SWA, ""),
      HEADING("Results (float16 when the dtype is fp16, else float32; without B when q has none):"),
      OUTPUT("--out", OUT_OUT, "the output, shaped as q"),
      OUTPUT("--lse", OUT_LSE, "float32 [B, H, n]"),
      OUTPUT("--lse-sa", OUT_LSE_SA, "gated instead, one per branch"),
      OUTPUT("--lse-swa", OUT_LSE_SWA, ""),
      HEADING("Backward:"),
      INPUT("--grad-out", IN_GRAD_OUT, "gradient of the output; turns backward on"),
      INPUT("--grad-lse", IN_GRAD_LSE, "gradient of the LSE, float32 [B, H, n]"),
      INPUT("--grad-lse-sa", IN_GRAD_LSE_SA, "gated instead"),
      INPUT("--grad-lse-swa", IN_GRAD_LSE_SWA, ""),
      OUTPUT("--dq", OUT_DQ, "gradients; files that are not named are not written"),
      OUTPUT("--dk", OUT_DK, ""),
      OUTPUT("--dv", OUT_DV, ""),
      OUTPUT("--dgate-sa", OUT_DGATE_SA, "float32, shaped as the logits"),
      OUTPUT("--dgate-swa", OUT_DGATE_SWA, ""),
      OUTPUT("--dsink-logits", OUT_DSINK_LOGITS, "float32 [H]"),
      {SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  const sattn_command command = {"attend --mode MODE --q F --k F --v F [OPTION]... --out F",
                                 "One attention call on .npy files in C order. Output files are written whole or not at all.", options};
  if (!sattn_options_read(options, argc, argv, out_help, report)) return false;
  if (*out_help) return sattn_options_print_help(&command), true;
  return check_rules(a, report);
}
