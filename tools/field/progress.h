/* A progress bar on standard error, silent unless that is a terminal. */
#ifndef SATTN_TOOLS_FIELD_PROGRESS_H
#define SATTN_TOOLS_FIELD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  const char *label;
  uint64_t total, done;
  int shown; /* per mille last drawn */
  bool visible;
} sattn_field_progress;

sattn_field_progress sattn_field_progress_begin(const char *label, uint64_t total);
void sattn_field_progress_step(sattn_field_progress *progress, uint64_t steps);
void sattn_field_progress_end(sattn_field_progress *progress);

#endif
