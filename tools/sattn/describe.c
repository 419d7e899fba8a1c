#include "describe.h"

#include <string.h>

const char *const SATTN_MODE_WORDS[] = {"full", "swa", "sa", "union", "gated", "moba", NULL};
const char *const SATTN_DTYPE_WORDS[] = {"fp32", "fp16", "bf16", NULL};
const char *const SATTN_SHARING_WORDS[] = {"call", "head", "batch", "batch-and-head", NULL};

bool sattn_window_from_words(const char *band, const sattn_window_words *words, sattn_window *out_window, sattn_report *report) {
  if (words->has_width && (words->has_left || words->has_right))
    return sattn_tool_misuse(report, "--window-%s together with --%s-%s: give a width, or both sides", band,
                             words->has_left ? "left" : "right", band);
  if (words->has_left != words->has_right)
    return sattn_tool_misuse(report, "--%s-%s without --%s-%s: both sides of the window are needed", words->has_left ? "left" : "right",
                             band, words->has_left ? "right" : "left", band);
  memset(out_window, 0, sizeof *out_window);
  if (words->has_width) *out_window = sattn_window_width(words->width);
  if (words->has_left) *out_window = sattn_window_sides(words->left, words->right);
  return true;
}
