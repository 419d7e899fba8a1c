/* Whether kernels may use the tile instructions of x86-64 processors (AMX). */
#ifndef SATTN_CL_AMX_H
#define SATTN_CL_AMX_H

#include "objects.h"

/* Finds out, once for a context: the processor's flags, leave of the system, and a small kernel whose answer is known. Builds that kernel
 * where everything before it was a yes. */
void sattn_cl_amx_find(sattn_context *context);

/* NULL: they may be used; else one clause why not. Only after sattn_cl_amx_find. */
const char *sattn_cl_amx_refusal(const sattn_context *context);

#endif
