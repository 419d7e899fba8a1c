/* The parts of `sattn attend`: options, arrays, and the call between them. */
#ifndef SATTN_TOOL_ATTEND_H
#define SATTN_TOOL_ATTEND_H

#include "arrays.h"
#include "describe.h"
#include "place.h"

typedef enum sattn_attend_input {
  IN_QUERY,
  IN_KEY,
  IN_VALUE,
  IN_GATE_SA,
  IN_GATE_SWA,
  IN_SINK_LOGITS,
  IN_LENGTHS,
  IN_QUERY_START,
  IN_GRAD_OUT,
  IN_GRAD_LSE,
  IN_GRAD_LSE_SA,
  IN_GRAD_LSE_SWA,
  IN_ORDER,
  IN_COUNT
} sattn_attend_input;

typedef enum sattn_attend_output {
  OUT_OUT,
  OUT_LSE,
  OUT_LSE_SA,
  OUT_LSE_SWA,
  OUT_DQ,
  OUT_DK,
  OUT_DV,
  OUT_DGATE_SA,
  OUT_DGATE_SWA,
  OUT_DSINK_LOGITS,
  OUT_COUNT
} sattn_attend_output;

typedef struct sattn_attend {
  /* as given */
  int mode; /* position in SATTN_MODE_WORDS */
  int dtype;
  bool mode_given, dtype_given;
  bool causal, wrap, topk_given, block_given;
  sattn_window_words window_sa, window_swa;
  int64_t sink_tokens, order_length, block, topk;
  bool order_length_given;
  double scale, softcap;
  sattn_permutation_key key;
  bool key_given;
  int sharing;
  sattn_place place;
  const char *input_path[IN_COUNT];
  const char *output_path[OUT_COUNT];
  /* as read and made */
  sattn_npy input[IN_COUNT];
  sattn_npy output[OUT_COUNT];
  sattn_extents extents;
  sattn_host_call call;
} sattn_attend;

/* Options into the struct, and the rules among them. Sets *out_help when only help was asked for (and printed). */
bool sattn_attend_read_options(sattn_attend *a, int argc, char **argv, bool *out_help, sattn_report *report);

/* Reads every input file, checks shapes, converts to the dtype, and fills a->call but for the place. */
bool sattn_attend_prepare(sattn_attend *a, sattn_report *report);

bool sattn_attend_write_outputs(sattn_attend *a, sattn_report *report);
void sattn_attend_free(sattn_attend *a);

#endif
