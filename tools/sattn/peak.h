/* The yardstick: how many fused multiply-adds a device really does, measured where and when the modes are. */
#ifndef SATTN_TOOL_PEAK_H
#define SATTN_TOOL_PEAK_H

#include "report.h"

typedef struct sattn_peak sattn_peak;

struct sattn_peak {
  /* One short run, in GFLOP/s (2 per fused multiply-add); NAN if it failed. */
  double (*measure)(sattn_peak *peak);
  void (*destroy)(sattn_peak *peak);
};

/* For the context's device. *out_peak is NULL, without a failure, where the tool has no such measurement; `out_reason` then says why. */
bool sattn_peak_create(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report);
void sattn_peak_destroy(sattn_peak **peak);

/* Parts of sattn_peak_create, one a backend. */
bool sattn_peak_create_host(sattn_peak **out_peak, sattn_report *report);
bool sattn_peak_create_opencl(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report);

#endif
