/* The two passes. */
#ifndef SATTN_REFERENCE_ATTEND_H
#define SATTN_REFERENCE_ATTEND_H

#include "backend.h"
#include "reference_head.h"

/* sum of probability * V over the row in head->row. */
void sattn_reference_weighted_values(const sattn_reference_head *head, double *out);

/* Entries of the backend's table. */
sattn_status sattn_reference_forward(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission,
                                     sattn_error *error);
sattn_status sattn_reference_backward(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission,
                                      sattn_error *error);

#endif
