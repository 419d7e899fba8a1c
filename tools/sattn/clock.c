#include "clock.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

double sattn_clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void sattn_progress(int done, int total, const char *what) {
  enum { BAR = 30 };
  if (!isatty(STDERR_FILENO)) return;
  if (done >= total) {
    fprintf(stderr, "\r%79s\r", "");
    return;
  }
  int filled = total > 0 ? BAR * done / total : 0;
  fprintf(stderr, "\r[%.*s%*s] %d/%d %-24.24s", filled, "##############################", BAR - filled, "", done, total, what);
  fflush(stderr);
}
