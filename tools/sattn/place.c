#include "place.h"

#include <stdlib.h>
#include <string.h>

bool sattn_place_is_explicit(const sattn_place *place) {
  return place->backend || place->device || getenv("SATTN_DEVICE");
}

static bool known_backend(const char *name, sattn_report *report) {
  for (int b = 1; b <= SATTN_BACKEND_COUNT; b++)
    if (strcmp(sattn_backend_name((sattn_backend)b), name) == 0) return true;
  return sattn_tool_misuse(report, "--backend %s: must be one of reference, opencl, cuda", name);
}

bool sattn_place_open(const sattn_place *place, sattn_context **out_context, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  if (place->backend && !known_backend(place->backend, report)) return false;
  if (place->backend && place->device) {
    size_t length = strlen(place->backend);
    bool same = strncmp(place->device, place->backend, length) == 0 && (place->device[length] == ':' || place->device[length] == '\0');
    if (!same) return sattn_tool_misuse(report, "--device %s is not a device of --backend %s", place->device, place->backend);
  }
  const char *id = place->device ? place->device : place->backend;
  return sattn_tool_check(report, sattn_context_create(id, NULL, out_context, &error), &error);
}
