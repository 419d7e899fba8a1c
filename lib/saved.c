#include <string.h>

#include "calls.h"

void sattn_saved_init(sattn_saved *saved) {
  if (saved == NULL) return;
  memset(saved, 0, sizeof *saved);
  saved->struct_size = sizeof *saved;
}

void sattn_saved_fill(const sattn_plan *plan, const sattn_forward_args *args, sattn_saved *saved) {
  saved->out = args->out;
  saved->lse = args->lse;
  saved->lse_sa = args->lse_sa;
  saved->lse_swa = args->lse_swa;
  saved->permutation = args->permutation;
  saved->permutation_id = args->permutation != NULL ? args->permutation->id : 0;
  saved->permutation_hash = args->permutation != NULL ? args->permutation->hash : 0;
  saved->plan_id = plan->id;
  saved->sizes = args->sizes;
}
