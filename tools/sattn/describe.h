/* The options that describe an attention (mode, windows, permutation, score) into sattn_attention; shared by the subcommands. */
#ifndef SATTN_TOOL_DESCRIBE_H
#define SATTN_TOOL_DESCRIBE_H

#include "options.h"

/* Words in the order of sattn_mode, sattn_dtype and sattn_sharing, NULL at the end. Position + 1 is the value of mode and dtype. */
extern const char *const SATTN_MODE_WORDS[];
extern const char *const SATTN_DTYPE_WORDS[];
extern const char *const SATTN_SHARING_WORDS[];

typedef struct sattn_window_words {
  int64_t width, left, right;
  bool has_width, has_left, has_right;
} sattn_window_words;

/* `band` is "sa" or "swa", for messages. One side without the other, and a width together with sides, is a misuse. */
bool sattn_window_from_words(const char *band, const sattn_window_words *words, sattn_window *out_window, sattn_report *report);

#endif
