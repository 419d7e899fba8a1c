/* Where a command runs: --backend and --device into a context. */
#ifndef SATTN_TOOL_PLACE_H
#define SATTN_TOOL_PLACE_H

#include "options.h"

typedef struct sattn_place {
  const char *backend; /* NULL: not given */
  const char *device;
} sattn_place;

#define SATTN_PLACE_OPTIONS(place)                                                                                            \
  {SATTN_OPTION_TEXT,                                                                                                         \
   "--backend",                                                                                                               \
   "NAME",                                                                                                                    \
   &(place)->backend,                                                                                                         \
   NULL,                                                                                                                      \
   NULL,                                                                                                                      \
   "reference, opencl or cuda; runs there or fails (default: the best available)"},                                           \
  {                                                                                                                           \
    SATTN_OPTION_TEXT, "--device", "ID", &(place)->device, NULL, NULL, "a device as `sattn info` prints it, such as opencl:0" \
  }

/* True when the caller, or the environment variable SATTN_DEVICE, names a place: then nothing else may be tried instead. */
bool sattn_place_is_explicit(const sattn_place *place);

bool sattn_place_open(const sattn_place *place, sattn_context **out_context, sattn_report *report);

#endif
