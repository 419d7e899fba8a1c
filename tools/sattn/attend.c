/* sattn attend: one attention call on .npy files. */
#include "attend.h"

#include <stdio.h>
#include <string.h>

#include "commands.h"

static bool call_once(sattn_attend *a, const sattn_place *place, sattn_status *out_status, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  sattn_context *context = NULL;
  *out_status = SATTN_UNAVAILABLE;
  if (!sattn_place_open(place, &context, report)) return false;
  const sattn_device_info *device = sattn_context_device(context);
  if (!sattn_place_is_explicit(place)) fprintf(stderr, "device: %s, %s\n", device->id, device->name);
  a->call.context = context;
  *out_status = sattn_attention_host(&a->call, &error);
  a->call.context = NULL;
  sattn_context_destroy(&context);
  return sattn_tool_check(report, *out_status, &error);
}

/* Nobody asked for a certain device: what the best one cannot do, the reference can. */
static bool call_library(sattn_attend *a, sattn_report *report) {
  const sattn_place reference = {sattn_backend_name(SATTN_BACKEND_REFERENCE), NULL};
  sattn_status status = SATTN_OK;
  if (call_once(a, &a->place, &status, report)) return true;
  if (status != SATTN_UNSUPPORTED || sattn_place_is_explicit(&a->place)) return false;
  fprintf(stderr, "not there: %s\ndevice: %s instead\n", report->message, reference.backend);
  return call_once(a, &reference, &status, report);
}

bool sattn_command_attend(int argc, char **argv, sattn_report *report) {
  sattn_attend attend;
  bool help = false;
  memset(&attend, 0, sizeof attend);
  bool fine = sattn_attend_read_options(&attend, argc, argv, &help, report);
  if (fine && !help)
    fine = sattn_attend_prepare(&attend, report) && call_library(&attend, report) && sattn_attend_write_outputs(&attend, report);
  sattn_attend_free(&attend);
  return fine;
}
