#include "progress.h"

#include <stdio.h>
#include <unistd.h>

enum { BAR_CELLS = 40 };

sattn_field_progress sattn_field_progress_begin(const char *label, uint64_t total) {
  return (sattn_field_progress){.label = label, .total = total > 0 ? total : 1, .shown = -1, .visible = isatty(STDERR_FILENO) == 1};
}

void sattn_field_progress_step(sattn_field_progress *progress, uint64_t steps) {
  progress->done += steps;
  if (!progress->visible) {
    return;
  }
  const uint64_t done = progress->done < progress->total ? progress->done : progress->total;
  const int per_mille = (int)((double)done * 1000.0 / (double)progress->total);
  if (per_mille == progress->shown) {
    return;
  }
  progress->shown = per_mille;
  char bar[BAR_CELLS + 1];
  for (int cell = 0; cell < BAR_CELLS; cell++) {
    bar[cell] = cell * 1000 < per_mille * BAR_CELLS ? '#' : '.';
  }
  bar[BAR_CELLS] = '\0';
  fprintf(stderr, "\r%s [%s] %5.1f %%", progress->label, bar, per_mille / 10.0);
  fflush(stderr);
}

void sattn_field_progress_end(sattn_field_progress *progress) {
  if (progress->visible && progress->shown >= 0) {
    /* erase the line: the table that follows must not start behind a bar */
    fputs("\r\033[K", stderr);
    fflush(stderr);
  }
}
