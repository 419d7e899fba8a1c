/* Two partial results into one: entry of the backend's table. */
#ifndef SATTN_REFERENCE_MERGE_H
#define SATTN_REFERENCE_MERGE_H

#include "backend.h"

sattn_status sattn_reference_merge(sattn_context *context, const sattn_merge_args *args, const sattn_submission *submission,
                                   sattn_error *error);

#endif
