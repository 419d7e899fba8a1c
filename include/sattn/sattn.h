/* Stochastic Attention as a portable C library. Includes every header but the interop ones (opencl.h, cuda.h).
 *
 * Read in this order: status.h (rules of the whole API), attention.h (what is computed), host.h (one call on host arrays), then device.h,
 * buffer.h, permutation.h and plan.h (caller's queues and buffers, nothing allocated while running), rows.h and gate.h (small helpers).
 */
#ifndef SATTN_SATTN_H
#define SATTN_SATTN_H

#include <sattn/attention.h>
#include <sattn/buffer.h>
#include <sattn/device.h>
#include <sattn/gate.h>
#include <sattn/host.h>
#include <sattn/permutation.h>
#include <sattn/plan.h>
#include <sattn/rows.h>
#include <sattn/status.h>
#include <sattn/version.h>

#endif
