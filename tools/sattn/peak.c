/* Which measurement fits a device. */
#include "peak.h"

#include <stddef.h>

bool sattn_peak_create(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report) {
  *out_peak = NULL;
  *out_reason = "";
  switch (sattn_context_device(context)->backend) {
    case SATTN_BACKEND_REFERENCE:
      return sattn_peak_create_host(out_peak, report);
    case SATTN_BACKEND_OPENCL:
      return sattn_peak_create_opencl(context, out_peak, out_reason, report);
    case SATTN_BACKEND_CUDA:
      return sattn_peak_create_cuda(context, out_peak, out_reason, report);
    default:
      *out_reason = "the tool measures no peak on this backend";
      return true;
  }
}

void sattn_peak_destroy(sattn_peak **peak) {
  if (*peak) (*peak)->destroy(*peak);
  *peak = NULL;
}
