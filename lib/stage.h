/* The time of a call's stages, for plans that profile. Backends wait for the device at each change of stage, then tell it here. */
#ifndef SATTN_LIB_STAGE_H
#define SATTN_LIB_STAGE_H

#include <time.h>

#include <sattn/plan.h>

typedef enum sattn_stage {
  SATTN_STAGE_NONE = 0,
  SATTN_STAGE_PERMUTE = 1,
  SATTN_STAGE_PACK = 2,
  SATTN_STAGE_ATTEND = 3,
  SATTN_STAGE_OTHER = 4
} sattn_stage;

typedef struct sattn_stopwatch {
  sattn_profile *profile; /* NULL: not profiling */
  sattn_stage stage;
  struct timespec start;
} sattn_stopwatch;

/* `profile` NULL: nothing is timed; else it is reset. */
void sattn_stopwatch_start(sattn_stopwatch *watch, sattn_profile *profile);

/* Adds the time since the last change to the stage that ends, and goes on with `next`. Only while profiling. */
void sattn_stopwatch_change(sattn_stopwatch *watch, sattn_stage next);

#endif
