/* Forward, one query after the other:
 *
 *     keys the query sees  ->  scores, softmax, LSE  ->  sum of P V        (GATED: twice, mixed by the gates)
 *
 * Nothing is read of keys that are not in the list, so what they hold cannot matter. */
#include "reference_attend.h"

#include <math.h>
#include <string.h>

#include "reference_array.h"
#include "reference_gate.h"
#include "reference_select.h"

typedef struct forward_call {
  const sattn_forward_args *args;
  const sattn_problem *problem;
  sattn_reference_inputs inputs;
  sattn_reference_head head;
} forward_call;

void sattn_reference_weighted_values(const sattn_reference_head *head, double *out) {
  int64_t width = head->inputs->problem->head_dim;
  memset(out, 0, (size_t)width * sizeof *out);
  for (int64_t k = 0; k < head->row.count; ++k) {
    double probability = head->row.probability[k];
    const double *value = head->value + (int64_t)head->row.key[k] * width;
    for (int64_t c = 0; c < width; ++c) out[c] += probability * value[c];
  }
}

/* ---- what a row leaves behind ---- */

static void store_lse(const forward_call *call, const sattn_array *array, int64_t h, int64_t i, double lse) {
  if (!array->buffer) return;
  int64_t index = (call->head.b * call->problem->heads + h) * call->args->sizes.queries + i;
  sattn_reference_store(array, sattn_reference_wide(call->problem->dtype), index, lse);
}

static void store_branch(const forward_call *call, const sattn_array *array, int64_t h, int64_t i, const double *row) {
  int64_t heads = call->problem->heads, width = call->problem->head_dim;
  sattn_tensor packed = {array->buffer, array->offset, call->args->sizes.queries * heads * width, heads * width, width};
  sattn_reference_store_row(&packed, call->problem->dtype, call->head.b, i, h, width, row);
}

static void store_selected(const forward_call *call, int64_t h, int64_t i, const uint32_t *selected, int64_t count) {
  int64_t topk = call->problem->topk;
  int64_t first = ((call->head.b * call->problem->heads + h) * call->args->sizes.queries + i) * topk;
  for (int64_t t = 0; t < topk; ++t) {
    uint32_t block = t < count ? selected[t] : SATTN_REFERENCE_UNUSED_BLOCK;
    sattn_reference_store_uint32(&call->args->saved->selected, first + t, block);
  }
}

/* ---- one query ---- */

static void attend_plain(forward_call *call, int64_t h, int64_t i, int64_t position, double *out) {
  sattn_reference_head *head = &call->head;
  const sattn_problem *problem = call->problem;
  double query[SATTN_REFERENCE_MAX_WIDTH];
  int64_t selected_count = 0;
  sattn_reference_load_row(&call->args->query, problem->dtype, head->b, i, h, problem->head_dim, query);
  if (problem->mode == SATTN_MOBA) {
    selected_count = sattn_reference_select(query, head->mean, head->blocks, problem->head_dim, problem->block, problem->topk,
                                            problem->causal, position, head->score, head->selected);
    if (call->args->saved) store_selected(call, h, i, head->selected, selected_count);
  }
  sattn_reference_head_row(head, SATTN_REFERENCE_WHOLE, h, position, query, head->selected, selected_count);
  sattn_reference_weighted_values(head, out);
  store_lse(call, &call->args->lse, h, i, head->row.lse);
}

/* One branch of GATED: adds sigmoid(gate) * Y to out. Y is rounded only where it is saved. */
static void attend_branch(forward_call *call, sattn_reference_branch branch, int64_t h, int64_t i, int64_t position, double *out) {
  const sattn_problem *problem = call->problem;
  const sattn_forward_args *args = call->args;
  bool sa = branch == SATTN_REFERENCE_SA;
  bool per_element = (sa ? problem->gate_sa_shape : problem->gate_swa_shape) == SATTN_GATE_PER_ELEMENT;
  double query[SATTN_REFERENCE_MAX_WIDTH], y[SATTN_REFERENCE_MAX_WIDTH], gate[SATTN_REFERENCE_MAX_WIDTH];
  sattn_reference_load_row(&args->query, problem->dtype, call->head.b, i, h, problem->head_dim, query);
  sattn_reference_load_row(sa ? &args->gate_sa : &args->gate_swa, problem->gate_dtype, call->head.b, i, h,
                           per_element ? problem->head_dim : 1, gate);
  sattn_reference_head_row(&call->head, branch, h, position, query, NULL, 0);
  sattn_reference_weighted_values(&call->head, y);
  for (int64_t c = 0; c < problem->head_dim; ++c) out[c] += sattn_reference_sigmoid(gate[per_element ? c : 0]) * y[c];
  store_lse(call, sa ? &args->lse_sa : &args->lse_swa, h, i, call->head.row.lse);
  if (args->saved) store_branch(call, sa ? &args->saved->y_sa : &args->saved->y_swa, h, i, y);
}

static void leave_empty(forward_call *call, int64_t h, int64_t i, const double *zeros) {
  const sattn_forward_args *args = call->args;
  store_lse(call, &args->lse, h, i, -INFINITY);
  store_lse(call, &args->lse_sa, h, i, -INFINITY);
  store_lse(call, &args->lse_swa, h, i, -INFINITY);
  if (args->saved && call->problem->mode == SATTN_MOBA) store_selected(call, h, i, NULL, 0);
  if (args->saved && call->problem->mode == SATTN_GATED) {
    store_branch(call, &args->saved->y_sa, h, i, zeros);
    store_branch(call, &args->saved->y_swa, h, i, zeros);
  }
}

static void attend_query(forward_call *call, int64_t h, int64_t i) {
  double out[SATTN_REFERENCE_MAX_WIDTH] = {0};
  int64_t position = sattn_reference_position(&call->head, i);
  if (position < 0) {
    leave_empty(call, h, i, out);
  } else if (call->problem->mode == SATTN_GATED) {
    attend_branch(call, SATTN_REFERENCE_SA, h, i, position, out);
    attend_branch(call, SATTN_REFERENCE_SWA, h, i, position, out);
  } else {
    attend_plain(call, h, i, position, out);
  }
  sattn_reference_store_row(&call->args->out, call->problem->dtype, call->head.b, i, h, call->problem->head_dim, out);
}

/* ---- the call ---- */

sattn_status sattn_reference_forward(const sattn_plan *plan, const sattn_forward_args *args, const sattn_submission *submission,
                                     sattn_error *error) {
  (void)error;
  const sattn_problem *problem = &plan->problem;
  forward_call call = {.args = args, .problem = problem};
  call.inputs = (sattn_reference_inputs){.problem = problem,
                                         .profiled = plan->profiling != 0,
                                         .sizes = args->sizes,
                                         .permutation = args->permutation,
                                         .query = args->query,
                                         .key = args->key,
                                         .value = args->value,
                                         .gate_sa = args->gate_sa,
                                         .gate_swa = args->gate_swa,
                                         .lengths = args->lengths,
                                         .query_start = args->query_start,
                                         .sink_logits = args->sink_logits};
  double start = sattn_reference_seconds();
  unsigned char *workspace = (unsigned char *)args->workspace->impl + args->workspace_offset;
  sattn_reference_head_begin(&call.inputs, SATTN_PASS_FORWARD, workspace, &call.head);
  for (int64_t b = 0; b < args->sizes.batch; ++b) {
    for (int64_t g = 0; g < problem->kv_heads; ++g) {
      sattn_reference_head_enter(&call.head, b, g);
      for (int64_t h = g * problem->group; h < (g + 1) * problem->group; ++h) {
        for (int64_t i = 0; i < args->sizes.queries; ++i) attend_query(&call, h, i);
      }
    }
  }
  sattn_reference_profile(plan, &call.head, start);
  if (submission->out_event) *submission->out_event = (sattn_event){NULL};
  return SATTN_OK;
}
