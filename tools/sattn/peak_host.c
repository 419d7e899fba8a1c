/* Multiply-adds of plain C on one core, which is what the reference backend is made of. */
#include <stdlib.h>

#include "clock.h"
#include "peak.h"

/* Independent sums, enough of them to hide the latency of an addition at any vector width. */
enum { SUMS = 64, STEPS = 1 << 20 };

static float run(int steps, volatile const float *factors) {
  float sums[SUMS], b = factors[0], c = factors[1], total = 0;
  for (int i = 0; i < SUMS; i++) sums[i] = (float)i;
  for (int s = 0; s < steps; s++)
    for (int i = 0; i < SUMS; i++) sums[i] = sums[i] * b + c;
  for (int i = 0; i < SUMS; i++) total += sums[i];
  return total;
}

static double measure(sattn_peak *peak) {
  static volatile const float FACTORS[2] = {0.999f, 0.001f};
  volatile float sink;
  (void)peak;
  double start = sattn_clock_seconds();
  sink = run(STEPS, FACTORS);
  (void)sink;
  return 2.0 * SUMS * STEPS / (sattn_clock_seconds() - start) * 1e-9;
}

static void destroy(sattn_peak *peak) {
  free(peak);
}

bool sattn_peak_create_host(sattn_peak **out_peak, sattn_report *report) {
  sattn_peak *peak = sattn_tool_allocate(report, "peak", 1, sizeof *peak);
  if (!peak) return false;
  peak->measure = measure;
  peak->destroy = destroy;
  *out_peak = peak;
  return true;
}
