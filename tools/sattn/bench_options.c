/* Options of `sattn bench`. */
#include <inttypes.h>

#include "bench.h"

/* Values that no library could take are refused like those that it refuses itself (exit status 1); --repeat is the tool's own (2). */
static bool check_rules(sattn_bench *b, sattn_report *report) {
  if (!b->kv_heads_given) b->kv_heads = b->heads;
  if (b->repeat < 1 || b->repeat > 100000) return sattn_tool_misuse(report, "--repeat %" PRId64 ": must be from 1 to 100000", b->repeat);
  const struct {
    const char *name;
    int64_t value;
  } sizes[] = {{"--batch", b->batch}, {"--heads", b->heads}, {"--kv-heads", b->kv_heads}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    if (sizes[i].value < 1 || sizes[i].value > INT32_MAX)
      return sattn_tool_refuse(report, "%s %" PRId64 ": must be from 1 to 2^31-1", sizes[i].name, sizes[i].value);
  }
  for (int i = 0; i < b->lengths.count; i++) {
    int64_t n = b->lengths.values[i];
    if (n < 1 || n > INT32_MAX) return sattn_tool_refuse(report, "--n %" PRId64 ": must be from 1 to 2^31-1", n);
    if (b->queries_given && (b->queries < 1 || b->queries > n))
      return sattn_tool_refuse(report, "--queries %" PRId64 ": must be from 1 to n = %" PRId64, b->queries, n);
  }
  for (int i = 0; i < b->head_dims.count; i++)
    if (b->head_dims.values[i] < 1 || b->head_dims.values[i] > 256)
      return sattn_tool_refuse(report, "--head-dim %" PRId64 ": must be from 1 to 256", b->head_dims.values[i]);
  return true;
}

bool sattn_bench_read_options(sattn_bench *b, int argc, char **argv, bool *out_help, sattn_report *report) {
  static const char *const layouts[] = {"bnhd", "bhnd", NULL};
  b->causal = true;
  b->modes = (sattn_choice_list){3, {SATTN_FULL - 1, SATTN_SLIDING_WINDOW - 1, SATTN_STOCHASTIC - 1}};
  b->dtypes = (sattn_choice_list){1, {SATTN_FP32 - 1}};
  b->lengths = (sattn_int64_list){2, {2048, 8192}};
  b->head_dims = (sattn_int64_list){1, {64}};
  b->window = 256;
  b->batch = 1;
  b->heads = 12;
  b->block = 128;
  b->topk = 2;
  b->repeat = 5;
  b->seed = 1;
  const sattn_option options[] = {
      {SATTN_OPTION_CHOICE_LIST, "--modes", "LIST", &b->modes, NULL, SATTN_MODE_WORDS,
       "of full, swa, sa, union, gated, moba, separated by commas (default full,swa,sa)"},
      {SATTN_OPTION_INT64_LIST, "--n", "LIST", &b->lengths, NULL, NULL, "numbers of keys (default 2048,8192)"},
      {SATTN_OPTION_INT64, "--queries", "N", &b->queries, &b->queries_given, NULL, "the last N tokens ask (default: all)"},
      {SATTN_OPTION_INT64, "--window", "W", &b->window, NULL, NULL, "width of every window, in union and gated of both (default 256)"},
      {SATTN_OPTION_INT64, "--batch", "B", &b->batch, NULL, NULL, "default 1"},
      {SATTN_OPTION_INT64, "--heads", "H", &b->heads, NULL, NULL, "query heads (default 12)"},
      {SATTN_OPTION_INT64, "--kv-heads", "H", &b->kv_heads, &b->kv_heads_given, NULL, "key/value heads (default: as --heads)"},
      {SATTN_OPTION_INT64_LIST, "--head-dim", "LIST", &b->head_dims, NULL, NULL, "default 64"},
      {SATTN_OPTION_CHOICE_LIST, "--dtype", "LIST", &b->dtypes, NULL, SATTN_DTYPE_WORDS, "of fp32, fp16, bf16 (default fp32)"},
      {SATTN_OPTION_CHOICE, "--layout", "L", &b->layout, NULL, layouts, "bnhd (default) or bhnd"},
      {SATTN_OPTION_FLAG, "--causal", NULL, &b->causal, NULL, NULL, "default"},
      {SATTN_OPTION_CLEAR, "--no-causal", NULL, &b->causal, NULL, NULL, "keys on both sides"},
      {SATTN_OPTION_FLAG, "--backward", NULL, &b->backward, NULL, NULL, "time the gradients as well, in rows of their own"},
      {SATTN_OPTION_INT64, "--block", "N", &b->block, NULL, NULL, "moba: tokens of a block (default 128)"},
      {SATTN_OPTION_INT64, "--topk", "N", &b->topk, NULL, NULL, "moba: blocks of a query (default 2)"},
      {SATTN_OPTION_INT64, "--sink-tokens", "N", &b->sink_tokens, NULL, NULL, "the first N tokens stay visible, in every mode but full"},
      {SATTN_OPTION_INT64, "--repeat", "N", &b->repeat, NULL, NULL, "timed rounds (default 5), after one that is not"},
      {SATTN_OPTION_UINT64, "--seed", "S", &b->seed, NULL, NULL, "of the random inputs and the permutation (default 1)"},
      SATTN_PLACE_OPTIONS(&b->place),
      {SATTN_OPTION_FLAG, "--json", NULL, &b->json, NULL, NULL, "one JSON object instead of a table"},
      {SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  const sattn_command command = {"bench [OPTION]...",
                                 "Times modes against each other on one device. All modes and sizes take turns in every round; shares and "
                                 "speed-ups use the fastest round. "
                                 "Seconds cover everything a caller waits for: drawing the permutation, sorting, packing, attention, and "
                                 "writing back; compiling stands apart. "
                                 "Useful work is 4 d operations per visible (query, key, head) triple forward, 10 d backward; the peak is "
                                 "fused multiply-adds in fp32, for half types on CUDA products of matrix units, "
                                 "measured in the same run on the same device.",
                                 options};
  if (!sattn_options_read(options, argc, argv, out_help, report)) return false;
  if (*out_help) return sattn_options_print_help(&command), true;
  return check_rules(b, report);
}
