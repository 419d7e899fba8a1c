#include "reference_head.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "reference_array.h"
#include "reference_select.h"

/* ---- workspace ---- */

/* Walks through the workspace handing out arrays. Without memory it only counts, so that size and layout cannot disagree. */
typedef struct workspace_carver {
  unsigned char *memory; /* NULL: count */
  uint64_t used;
  bool overflow;
} workspace_carver;

enum { ALIGNMENT = 64 };

static void *carve(workspace_carver *carver, uint64_t count, uint64_t size) {
  uint64_t bytes = 0, padded = 0, used = 0;
  if (!sattn_checked_multiply(count, size, &bytes) || !sattn_checked_add(bytes, ALIGNMENT - 1, &padded) ||
      !sattn_checked_add(carver->used, padded & ~(uint64_t)(ALIGNMENT - 1), &used)) {
    carver->overflow = true;
    return NULL;
  }
  void *array = carver->memory ? carver->memory + carver->used : NULL;
  carver->used = used;
  return array;
}

static void lay_out(const sattn_problem *problem, const sattn_sizes *sizes, sattn_pass pass, workspace_carver *carver,
                    sattn_reference_head *head) {
  uint64_t keys = (uint64_t)sizes->keys, elements = keys * (uint64_t)problem->head_dim;
  head->key = carve(carver, elements, sizeof *head->key);
  head->value = carve(carver, elements, sizeof *head->value);
  head->row.key = carve(carver, keys, sizeof *head->row.key);
  head->row.probability = carve(carver, keys, sizeof *head->row.probability);
  head->row.slope = carve(carver, keys, sizeof *head->row.slope);
  if (problem->uses_sa) {
    head->slots.token = carve(carver, keys, sizeof *head->slots.token);
    head->slots.rank = carve(carver, keys, sizeof *head->slots.rank);
    head->slots.slot = carve(carver, keys, sizeof *head->slots.slot);
  }
  if (problem->mode == SATTN_MOBA) {
    uint64_t blocks = (uint64_t)sattn_reference_block_count(sizes->keys, problem->block);
    head->mean = carve(carver, blocks * (uint64_t)problem->head_dim, sizeof *head->mean);
    head->score = carve(carver, blocks, sizeof *head->score);
    head->selected = carve(carver, blocks, sizeof *head->selected);
  }
  if (pass == SATTN_PASS_BACKWARD) {
    head->grad_probability = carve(carver, keys, sizeof *head->grad_probability);
    head->grad_key = carve(carver, elements, sizeof *head->grad_key);
    head->grad_value = carve(carver, elements, sizeof *head->grad_value);
    head->grad_sink = carve(carver, (uint64_t)problem->heads, sizeof *head->grad_sink);
  }
}

sattn_status sattn_reference_workspace(const sattn_problem *problem, const sattn_sizes *sizes, sattn_pass pass, uint64_t allowed,
                                       uint64_t *out_bytes, sattn_error *error) {
  sattn_reference_head head = {0};
  workspace_carver carver = {NULL, ALIGNMENT, false}; /* room to align a workspace that begins at any address */
  lay_out(problem, sizes, pass, &carver, &head);
  if (carver.overflow || (allowed > 0 && carver.used > allowed)) {
    return sattn_fail(error, SATTN_OUT_OF_MEMORY, "maxima",
                      "the workspace for %" PRId64 " keys needs %" PRIu64 " bytes%s, one allocation on this device may have %" PRIu64,
                      sizes->keys, carver.used, carver.overflow ? " and more" : "", allowed);
  }
  *out_bytes = carver.used;
  return SATTN_OK;
}

void sattn_reference_head_begin(const sattn_reference_inputs *inputs, sattn_pass pass, void *workspace, sattn_reference_head *head) {
  uintptr_t address = (uintptr_t)workspace;
  unsigned char *aligned = (unsigned char *)workspace + (ALIGNMENT - address % ALIGNMENT) % ALIGNMENT;
  workspace_carver carver = {aligned, 0, false};
  *head = (sattn_reference_head){.inputs = inputs};
  lay_out(inputs->problem, &inputs->sizes, pass, &carver, head);
}

/* ---- profiling ---- */

double sattn_reference_seconds(void) {
  struct timespec now = {0};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void sattn_reference_profile(const sattn_plan *plan, const sattn_reference_head *head, double start) {
  if (!plan->profiling) return;
  /* Plans are made by the core as ordinary objects; only their profile changes while they are const to a call. */
  sattn_profile *profile = &((sattn_plan *)plan)->profile;
  profile->permute_seconds = head->permute_seconds;
  profile->pack_seconds = 0;
  profile->attend_seconds = sattn_reference_seconds() - start - head->permute_seconds;
  profile->other_seconds = 0;
}

/* ---- one batch entry and key/value head ---- */

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

static void read_sizes(sattn_reference_head *head) {
  const sattn_reference_inputs *inputs = head->inputs;
  int64_t keys = inputs->sizes.keys, last_start = keys - inputs->sizes.queries;
  head->tokens = keys;
  if (inputs->problem->has_lengths) head->tokens = clamp(sattn_reference_load_int32(&inputs->lengths, head->b), 0, keys);
  head->start = last_start;
  if (inputs->problem->has_query_start) head->start = clamp(sattn_reference_load_int32(&inputs->query_start, head->b), 0, last_start);
}

void sattn_reference_head_enter(sattn_reference_head *head, int64_t b, int64_t g) {
  const sattn_reference_inputs *inputs = head->inputs;
  const sattn_problem *problem = inputs->problem;
  int64_t width = problem->head_dim;
  head->b = b;
  head->g = g;
  read_sizes(head);
  for (int64_t j = 0; j < head->tokens; ++j) {
    sattn_reference_load_row(&inputs->key, problem->dtype, b, j, g, width, head->key + j * width);
    sattn_reference_load_row(&inputs->value, problem->dtype, b, j, g, width, head->value + j * width);
  }
  if (problem->uses_sa) {
    const sattn_permutation *permutation = inputs->permutation;
    int64_t index = sattn_permutation_index(permutation->sharing, problem->kv_heads, b, g);
    const uint32_t *order = permutation->order + index * permutation->length;
    double start = inputs->profiled ? sattn_reference_seconds() : 0;
    sattn_reference_permute(order, permutation->length, head->tokens, problem->order_length > 0, &head->slots);
    if (inputs->profiled) head->permute_seconds += sattn_reference_seconds() - start;
  }
  if (problem->mode == SATTN_MOBA) {
    head->blocks = sattn_reference_block_count(head->tokens, problem->block);
    sattn_reference_block_means(head->key, head->tokens, width, problem->block, head->mean);
  }
}

int64_t sattn_reference_position(const sattn_reference_head *head, int64_t i) {
  int64_t position = head->start + i;
  return position < head->tokens ? position : -1;
}

double sattn_reference_sink_logit(const sattn_reference_head *head, int64_t h) {
  const sattn_problem *problem = head->inputs->problem;
  if (!problem->has_sink_logits) return -INFINITY;
  return sattn_reference_load(&head->inputs->sink_logits, sattn_reference_wide(problem->dtype), h);
}

void sattn_reference_head_row(sattn_reference_head *head, sattn_reference_branch branch, int64_t h, int64_t position, const double *query,
                              const uint32_t *selected, int64_t selected_count) {
  const sattn_problem *problem = head->inputs->problem;
  sattn_reference_bands bands = sattn_reference_bands_of(problem, branch, head->tokens, &head->slots);
  head->row.count = sattn_reference_visible(&bands, position, selected, selected_count, head->row.key);
  sattn_reference_softmax(problem, query, head->key, sattn_reference_sink_logit(head, h), &head->row);
}
