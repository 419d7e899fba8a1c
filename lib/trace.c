#include "trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *word;
  uint32_t levels;
} words[] = {
    {"error", SATTN_TRACE_ERROR},
    {"dispatch", SATTN_TRACE_DISPATCH},
    {"build", SATTN_TRACE_BUILD},
    {"all", SATTN_TRACE_ERROR | SATTN_TRACE_DISPATCH | SATTN_TRACE_BUILD},
};

enum { WORD_COUNT = sizeof words / sizeof words[0], LINE_CAPACITY = 2048 };

uint32_t sattn_trace_parse(const char *text) {
  uint32_t levels = 0;
  while (text != NULL && *text != '\0') {
    size_t length = strcspn(text, ",");
    for (size_t i = 0; i < WORD_COUNT; ++i) {
      if (strlen(words[i].word) == length && strncmp(words[i].word, text, length) == 0) levels |= words[i].levels;
    }
    text += length;
    if (*text == ',') ++text;
  }
  return levels;
}

void sattn_trace(uint32_t levels, sattn_trace_level level, const char *format, ...) {
  if ((levels & (uint32_t)level) == 0) return;
  char line[LINE_CAPACITY];
  va_list values;
  va_start(values, format);
  vsnprintf(line, sizeof line, format, values);
  va_end(values);
  const char *word = level == SATTN_TRACE_ERROR ? "error" : level == SATTN_TRACE_DISPATCH ? "dispatch" : "build";
  /* One call, so that lines of several threads do not mix. */
  fprintf(stderr, "sattn:%s: %s\n", word, line);
}
