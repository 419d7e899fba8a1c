/* For builds without the OpenCL backend. */
#include "peak.h"

bool sattn_peak_create_opencl(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report) {
  (void)context;
  (void)report;
  *out_peak = NULL;
  *out_reason = "built without OpenCL";
  return true;
}
