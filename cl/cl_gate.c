#include "cl_gate.h"
sattn_status sattn_cl_gate_prepare(sattn_gate_plan *plan, sattn_error *error) {
  return sattn_unsupported(plan->context, "gate logits", error);
}
void sattn_cl_gate_destroy(sattn_gate_plan *plan) {
  (void)plan;
}
sattn_status sattn_cl_gate_run(const sattn_gate_plan *plan, const sattn_gate_args *args, int backward, const sattn_submission *submission,
                               sattn_error *error) {
  (void)args;
  (void)backward;
  (void)submission;
  return sattn_unsupported(plan->context, "gate logits", error);
}
