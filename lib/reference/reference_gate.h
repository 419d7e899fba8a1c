/* Gates: the sigmoid that mixes the branches of GATED, and the projections that make its logits. Contract section 4. */
#ifndef SATTN_REFERENCE_GATE_H
#define SATTN_REFERENCE_GATE_H

#include "backend.h"

/* 1 / (1 + exp(-logit)); exactly 1 and 0 at the infinities. */
double sattn_reference_sigmoid(double logit);

/* Entries of the backend's table. */
sattn_status sattn_reference_gate_prepare(sattn_gate_plan *plan, sattn_error *error);
void sattn_reference_gate_destroy(sattn_gate_plan *plan);
sattn_status sattn_reference_gate_run(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward,
                                      const sattn_submission *submission, sattn_error *error);

#endif
