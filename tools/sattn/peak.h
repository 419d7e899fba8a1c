/* The yardstick: what a device really does, measured where and when the modes are. */
#ifndef SATTN_TOOL_PEAK_H
#define SATTN_TOOL_PEAK_H

#include "report.h"

typedef struct sattn_peak sattn_peak;

struct sattn_peak {
  /* One short run, in GFLOP/s (2 per fused multiply-add); NAN if it failed. */
  double (*measure)(sattn_peak *peak);
  /* The same for products of 16-bit tiles on matrix units, and the bytes that go to and from memory, in GB/s; NULL where the tool has no
   * such measurement. */
  double (*measure_mma)(sattn_peak *peak, sattn_dtype dtype);
  double (*measure_bandwidth)(sattn_peak *peak);
  void (*destroy)(sattn_peak *peak);
};

/* For the context's device. *out_peak is NULL, without a failure, where the tool has no such measurement; `out_reason` then says why. */
bool sattn_peak_create(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report);
void sattn_peak_destroy(sattn_peak **peak);

/* Parts of sattn_peak_create, one a backend. */
bool sattn_peak_create_host(sattn_peak **out_peak, sattn_report *report);
bool sattn_peak_create_opencl(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report);
bool sattn_peak_create_cuda(sattn_context *context, sattn_peak **out_peak, const char **out_reason, sattn_report *report);

#endif
