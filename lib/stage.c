#include "stage.h"

#include <string.h>

static double *seconds_of(sattn_profile *profile, sattn_stage stage) {
  switch (stage) {
    case SATTN_STAGE_PERMUTE:
      return &profile->permute_seconds;
    case SATTN_STAGE_PACK:
      return &profile->pack_seconds;
    case SATTN_STAGE_ATTEND:
      return &profile->attend_seconds;
    case SATTN_STAGE_OTHER:
      return &profile->other_seconds;
    case SATTN_STAGE_NONE:
      break;
  }
  return NULL;
}

void sattn_stopwatch_start(sattn_stopwatch *watch, sattn_profile *profile) {
  memset(watch, 0, sizeof *watch);
  watch->profile = profile;
  if (!profile) return;
  size_t size = profile->struct_size;
  memset(profile, 0, sizeof *profile);
  profile->struct_size = size;
}

void sattn_stopwatch_change(sattn_stopwatch *watch, sattn_stage next) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double *seconds = seconds_of(watch->profile, watch->stage);
  if (seconds) *seconds += (double)(now.tv_sec - watch->start.tv_sec) + 1e-9 * (double)(now.tv_nsec - watch->start.tv_nsec);
  watch->stage = next;
  watch->start = now;
}
