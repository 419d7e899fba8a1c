/* gather_rows and scatter_rows: entry of the backend's table. */
#ifndef SATTN_REFERENCE_ROWS_H
#define SATTN_REFERENCE_ROWS_H

#include "backend.h"

sattn_status sattn_reference_move_rows(sattn_context *context, const sattn_rows_args *args, int inverse, const sattn_submission *submission,
                                       sattn_error *error);

#endif
