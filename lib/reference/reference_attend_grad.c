/* Backward, one query after the other, every probability recomputed in double from Q and K. Of what forward saved only MOBA's selection is
 * read: O, LSE and the branches of GATED were rounded to their storage, and a yardstick has no reason to start from rounded numbers.
 *
 *     dP_j   = <dY, V_j>                    dY = dO, in GATED sigmoid(g) * dO
 *     delta  = sum_j P_j dP_j               (equals <dY, Y>)
 *     dS_j   = P_j (dP_j - delta + dLSE) slope_j
 *     dQ    += scale dS_j K_j     dK_j += scale dS_j Q     dV_j += P_j dY
 *     dsink += P_sink (dLSE - delta)
 *     dg     = dO Y sigmoid(g) sigmoid(-g), per head summed over the elements
 */
#include <math.h>
#include <string.h>

#include "reference_array.h"
#include "reference_attend.h"
#include "reference_gate.h"
#include "reference_select.h"

typedef struct backward_call {
  const sattn_backward_args *args;
  const sattn_problem *problem;
  sattn_sizes sizes;
  sattn_reference_inputs inputs;
  sattn_reference_head head;
} backward_call;

/* One query under way. */
typedef struct query_state {
  int64_t h, i, position;
  double query[SATTN_REFERENCE_MAX_WIDTH];
  double grad_out[SATTN_REFERENCE_MAX_WIDTH];
  double grad_query[SATTN_REFERENCE_MAX_WIDTH];
} query_state;

/* ---- one softmax ---- */

static double load_grad_lse(const backward_call *call, const sattn_array *array, const query_state *state) {
  if (!array->buffer || call->head.row.lse == -INFINITY) return 0;
  int64_t index = (call->head.b * call->problem->heads + state->h) * call->sizes.queries + state->i;
  return sattn_reference_load(array, sattn_reference_wide(call->problem->dtype), index);
}

/* The row is in head->row. */
static void grad_softmax(backward_call *call, query_state *state, const double *grad_y, const sattn_array *grad_lse_array) {
  sattn_reference_head *head = &call->head;
  int64_t width = call->problem->head_dim;
  double grad_lse = load_grad_lse(call, grad_lse_array, state), delta = 0;
  for (int64_t k = 0; k < head->row.count; ++k) {
    head->grad_probability[k] = sattn_reference_dot(grad_y, head->value + (int64_t)head->row.key[k] * width, width);
    delta += head->row.probability[k] * head->grad_probability[k];
  }
  for (int64_t k = 0; k < head->row.count; ++k) {
    double probability = head->row.probability[k];
    double grad_score = probability * (head->grad_probability[k] - delta + grad_lse) * head->row.slope[k] * call->problem->scale;
    int64_t row = (int64_t)head->row.key[k] * width;
    for (int64_t c = 0; c < width; ++c) {
      state->grad_query[c] += grad_score * head->key[row + c];
      head->grad_key[row + c] += grad_score * state->query[c];
      head->grad_value[row + c] += probability * grad_y[c];
    }
  }
  if (call->problem->has_sink_logits) head->grad_sink[state->h] += head->row.sink * (grad_lse - delta);
}

/* ---- one query ---- */

/* The blocks that forward selected. They come from the caller's memory: anything but existing blocks in ascending order is passed over. */
static int64_t load_selected(backward_call *call, const query_state *state) {
  int64_t topk = call->problem->topk, count = 0;
  int64_t first = ((call->head.b * call->problem->heads + state->h) * call->sizes.queries + state->i) * topk;
  for (int64_t t = 0; t < topk; ++t) {
    uint32_t block = sattn_reference_load_uint32(&call->args->saved->selected, first + t);
    if (block == SATTN_REFERENCE_UNUSED_BLOCK) break;
    if (block >= call->head.blocks || (count > 0 && block <= call->head.selected[count - 1])) continue;
    call->head.selected[count++] = block;
  }
  return count;
}

static void grad_plain(backward_call *call, query_state *state) {
  int64_t selected_count = call->problem->mode == SATTN_MOBA ? load_selected(call, state) : 0;
  sattn_reference_head_row(&call->head, SATTN_REFERENCE_WHOLE, state->h, state->position, state->query, call->head.selected,
                           selected_count);
  grad_softmax(call, state, state->grad_out, &call->args->grad_lse);
}

static void grad_branch(backward_call *call, sattn_reference_branch branch, query_state *state) {
  const sattn_problem *problem = call->problem;
  const sattn_backward_args *args = call->args;
  bool sa = branch == SATTN_REFERENCE_SA;
  bool per_element = (sa ? problem->gate_sa_shape : problem->gate_swa_shape) == SATTN_GATE_PER_ELEMENT;
  int64_t gate_width = per_element ? problem->head_dim : 1;
  double y[SATTN_REFERENCE_MAX_WIDTH], grad_y[SATTN_REFERENCE_MAX_WIDTH] = {0}, gate[SATTN_REFERENCE_MAX_WIDTH],
                                       grad_gate[SATTN_REFERENCE_MAX_WIDTH] = {0};
  sattn_reference_load_row(sa ? &args->gate_sa : &args->gate_swa, problem->gate_dtype, call->head.b, state->i, state->h, gate_width, gate);
  sattn_reference_head_row(&call->head, branch, state->h, state->position, state->query, NULL, 0);
  sattn_reference_weighted_values(&call->head, y);
  for (int64_t c = 0; c < problem->head_dim; ++c) {
    int64_t at = per_element ? c : 0;
    /* 1 - sigmoid(g) would lose all digits of a large g. */
    double open = sattn_reference_sigmoid(gate[at]), shut = sattn_reference_sigmoid(-gate[at]);
    grad_y[c] = open * state->grad_out[c];
    grad_gate[at] += state->grad_out[c] * y[c] * open * shut;
  }
  grad_softmax(call, state, grad_y, sa ? &args->grad_lse_sa : &args->grad_lse_swa);
  sattn_reference_store_row(sa ? &args->grad_gate_sa : &args->grad_gate_swa, problem->gate_dtype, call->head.b, state->i, state->h,
                            gate_width, grad_gate);
}

static void leave_empty(backward_call *call, const query_state *state) {
  const sattn_problem *problem = call->problem;
  const sattn_backward_args *args = call->args;
  const double zeros[SATTN_REFERENCE_MAX_WIDTH] = {0};
  if (problem->mode != SATTN_GATED) return;
  sattn_reference_store_row(&args->grad_gate_sa, problem->gate_dtype, call->head.b, state->i, state->h,
                            problem->gate_sa_shape == SATTN_GATE_PER_ELEMENT ? problem->head_dim : 1, zeros);
  sattn_reference_store_row(&args->grad_gate_swa, problem->gate_dtype, call->head.b, state->i, state->h,
                            problem->gate_swa_shape == SATTN_GATE_PER_ELEMENT ? problem->head_dim : 1, zeros);
}

static void grad_query(backward_call *call, int64_t h, int64_t i) {
  const sattn_problem *problem = call->problem;
  query_state state = {.h = h, .i = i, .position = sattn_reference_position(&call->head, i)};
  if (state.position < 0) {
    leave_empty(call, &state);
  } else {
    sattn_reference_load_row(&call->args->query, problem->dtype, call->head.b, i, h, problem->head_dim, state.query);
    sattn_reference_load_row(&call->args->grad_out, problem->dtype, call->head.b, i, h, problem->head_dim, state.grad_out);
    if (problem->mode == SATTN_GATED) {
      grad_branch(call, SATTN_REFERENCE_SA, &state);
      grad_branch(call, SATTN_REFERENCE_SWA, &state);
    } else {
      grad_plain(call, &state);
    }
  }
  sattn_reference_store_row(&call->args->grad_query, problem->dtype, call->head.b, i, h, problem->head_dim, state.grad_query);
}

/* ---- the call ---- */

static void grad_head(backward_call *call, int64_t b, int64_t g) {
  const sattn_problem *problem = call->problem;
  sattn_reference_head *head = &call->head;
  int64_t width = problem->head_dim, elements = call->sizes.keys * width;
  for (int64_t e = 0; e < elements; ++e) head->grad_key[e] = head->grad_value[e] = 0;
  /* Without queries there may be no permutation either. */
  if (call->sizes.queries > 0) sattn_reference_head_enter(head, b, g);
  for (int64_t h = g * problem->group; h < (g + 1) * problem->group; ++h) {
    for (int64_t i = 0; i < call->sizes.queries; ++i) grad_query(call, h, i);
  }
  for (int64_t j = 0; j < call->sizes.keys; ++j) {
    sattn_reference_store_row(&call->args->grad_key, problem->dtype, b, j, g, width, head->grad_key + j * width);
    sattn_reference_store_row(&call->args->grad_value, problem->dtype, b, j, g, width, head->grad_value + j * width);
  }
}

sattn_status sattn_reference_backward(const sattn_plan *plan, const sattn_backward_args *args, const sattn_submission *submission,
                                      sattn_error *error) {
  (void)error;
  const sattn_problem *problem = &plan->problem;
  backward_call call = {.args = args, .problem = problem, .sizes = args->saved->sizes};
  call.inputs = (sattn_reference_inputs){.problem = problem,
                                         .profiled = plan->profiling != 0,
                                         .sizes = call.sizes,
                                         .permutation = args->saved->permutation,
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
  sattn_reference_head_begin(&call.inputs, SATTN_PASS_BACKWARD, workspace, &call.head);
  for (int64_t h = 0; h < problem->heads; ++h) call.head.grad_sink[h] = 0;
  for (int64_t b = 0; b < call.sizes.batch; ++b) {
    for (int64_t g = 0; g < problem->kv_heads; ++g) grad_head(&call, b, g);
  }
  for (int64_t h = 0; problem->has_sink_logits && h < problem->heads; ++h) {
    sattn_reference_store(&args->grad_sink_logits, sattn_reference_wide(problem->dtype), h, call.head.grad_sink[h]);
  }
  sattn_reference_profile(plan, &call.head, start);
  if (submission->out_event) *submission->out_event = (sattn_event){NULL};
  return SATTN_OK;
}
