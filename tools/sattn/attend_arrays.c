/* Files of `sattn attend` into the library's call and back. */
#include <stdlib.h>
#include <string.h>

#include "attend.h"

typedef enum element { STORAGE, REAL32, INTEGER32, TOKEN } element;

static const struct {
  const char *name;
  const char *letters; /* arrays.h; NULL: checked apart */
  element type;
} INPUTS[IN_COUNT] = {
    [IN_QUERY] = {"q", "BqHd", STORAGE},
    [IN_KEY] = {"k", "BkGd", STORAGE},
    [IN_VALUE] = {"v", "BkGd", STORAGE},
    [IN_GATE_SA] = {"gate_sa", "BqHg", REAL32},
    [IN_GATE_SWA] = {"gate_swa", "BqHg", REAL32},
    [IN_SINK_LOGITS] = {"sink_logits", "H", REAL32},
    [IN_LENGTHS] = {"lengths", "B", INTEGER32},
    [IN_QUERY_START] = {"query_start", "B", INTEGER32},
    [IN_GRAD_OUT] = {"grad_out", "BqHd", STORAGE},
    [IN_GRAD_LSE] = {"grad_lse", "BHq", REAL32},
    [IN_GRAD_LSE_SA] = {"grad_lse_sa", "BHq", REAL32},
    [IN_GRAD_LSE_SWA] = {"grad_lse_swa", "BHq", REAL32},
    [IN_ORDER] = {"order", NULL, TOKEN},
};

static const struct {
  const char *name;
  const char *letters;
  element type;
  sattn_attend_input gate; /* for 'g': the logits whose shape it takes */
} OUTPUTS[OUT_COUNT] = {
    [OUT_OUT] = {"out", "BqHd", STORAGE, IN_COUNT},
    [OUT_LSE] = {"lse", "BHq", REAL32, IN_COUNT},
    [OUT_LSE_SA] = {"lse_sa", "BHq", REAL32, IN_COUNT},
    [OUT_LSE_SWA] = {"lse_swa", "BHq", REAL32, IN_COUNT},
    [OUT_DQ] = {"dq", "BqHd", STORAGE, IN_COUNT},
    [OUT_DK] = {"dk", "BkGd", STORAGE, IN_COUNT},
    [OUT_DV] = {"dv", "BkGd", STORAGE, IN_COUNT},
    [OUT_DGATE_SA] = {"dgate_sa", "BqHg", REAL32, IN_GATE_SA},
    [OUT_DGATE_SWA] = {"dgate_swa", "BqHg", REAL32, IN_GATE_SWA},
    [OUT_DSINK_LOGITS] = {"dsink_logits", "H", REAL32, IN_COUNT},
};

static bool given(const sattn_attend *a, sattn_attend_input input) {
  return a->input_path[input] != NULL;
}

static bool choose_dtype(sattn_attend *a, sattn_report *report) {
  if (a->dtype_given) return true;
  for (int i = 0; i < IN_COUNT; i++) {
    if (!given(a, (sattn_attend_input)i) || INPUTS[i].type != STORAGE) continue;
    if (a->input[i].type != a->input[IN_QUERY].type)
      return sattn_tool_refuse(report, "%s is %s but q is %s: they must agree, or --dtype must say what to convert them to", INPUTS[i].name,
                               sattn_npy_type_name(a->input[i].type), sattn_npy_type_name(a->input[IN_QUERY].type));
  }
  if (a->input[IN_QUERY].type == SATTN_NPY_FLOAT64)
    return sattn_tool_refuse(report, "q is float64: float32 or float16 is needed, or --dtype must say what to convert it to");
  a->dtype = (a->input[IN_QUERY].type == SATTN_NPY_FLOAT16 ? SATTN_FP16 : SATTN_FP32) - 1;
  return true;
}

static bool needs_type(const sattn_npy *array, sattn_npy_type type, const char *name, sattn_report *report) {
  if (array->type == type) return true;
  return sattn_tool_refuse(report, "%s: element type %s; %s is needed", name, sattn_npy_type_name(array->type), sattn_npy_type_name(type));
}

static bool convert(sattn_npy *array, element type, sattn_dtype dtype, const char *name, sattn_report *report) {
  switch (type) {
    case STORAGE:
      return sattn_to_storage(array, dtype, name, report);
    case REAL32:
      return needs_type(array, SATTN_NPY_FLOAT32, name, report);
    case INTEGER32:
      return needs_type(array, SATTN_NPY_INT32, name, report);
    default:
      return sattn_to_uint32(array, name, report);
  }
}

static bool read_inputs(sattn_attend *a, sattn_report *report) {
  for (int i = 0; i < IN_COUNT; i++)
    if (given(a, (sattn_attend_input)i) && !sattn_npy_read(a->input_path[i], &a->input[i], report)) return false;
  sattn_extents_init(&a->extents);
  a->extents.has_batch = a->input[IN_QUERY].dimensions != 3;
  if (!a->extents.has_batch) a->extents.batch = 1;
  if (!choose_dtype(a, report)) return false;
  for (int i = 0; i < IN_COUNT; i++) {
    if (!given(a, (sattn_attend_input)i)) continue;
    if (INPUTS[i].letters && !sattn_extents_match(&a->extents, INPUTS[i].name, &a->input[i], INPUTS[i].letters, report)) return false;
    if (!convert(&a->input[i], INPUTS[i].type, (sattn_dtype)(a->dtype + 1), INPUTS[i].name, report)) return false;
  }
  int dimensions = a->input[IN_ORDER].dimensions;
  if (given(a, IN_ORDER) && dimensions != 1 && dimensions != 2)
    return sattn_tool_refuse(report, "order: %d dimensions, must be [length] or [count, length]", dimensions);
  return true;
}

static bool wanted(const sattn_attend *a, sattn_attend_output output) {
  bool gated = a->mode + 1 == SATTN_GATED, backward = given(a, IN_GRAD_OUT);
  switch (output) {
    case OUT_OUT:
      return true;
    case OUT_LSE:
    case OUT_LSE_SA:
    case OUT_LSE_SWA:
      return a->output_path[output] != NULL;
    case OUT_DGATE_SA:
    case OUT_DGATE_SWA:
      return backward && gated;
    case OUT_DSINK_LOGITS:
      return backward && given(a, IN_SINK_LOGITS);
    default:
      return backward;
  }
}

static bool make_outputs(sattn_attend *a, sattn_report *report) {
  for (int i = 0; i < OUT_COUNT; i++) {
    if (!wanted(a, (sattn_attend_output)i)) continue;
    bool half = OUTPUTS[i].type == STORAGE && a->dtype + 1 != SATTN_FP32;
    sattn_attend_input gate = OUTPUTS[i].gate;
    int64_t gate_extent = gate == IN_COUNT ? 1 : a->input[gate].shape[a->input[gate].dimensions - 1];
    a->output[i] = sattn_extents_shape(&a->extents, OUTPUTS[i].letters, half ? SATTN_NPY_FLOAT16 : SATTN_NPY_FLOAT32, gate_extent);
    a->output[i].data = sattn_tool_allocate(report, OUTPUTS[i].name, a->output[i].count, half ? 2 : 4);
    if (!a->output[i].data) return false;
  }
  return true;
}

static bool fill_description(sattn_attend *a, sattn_report *report) {
  sattn_attention *attention = &a->call.attention;
  attention->mode = (sattn_mode)(a->mode + 1);
  attention->dtype = (sattn_dtype)(a->dtype + 1);
  attention->heads = a->extents.heads;
  attention->kv_heads = a->extents.kv_heads;
  attention->head_dim = a->extents.head_dim;
  attention->causal = a->causal;
  attention->wrap = a->wrap;
  attention->order_length = a->order_length;
  attention->sharing = (sattn_sharing)a->sharing;
  attention->sink_tokens = a->sink_tokens;
  attention->block = a->block;
  attention->topk = a->topk;
  attention->scale = a->scale;
  attention->softcap = a->softcap;
  const struct {
    sattn_attend_input input;
    sattn_gate_shape *shape;
  } gates[] = {{IN_GATE_SA, &attention->gate_sa_shape}, {IN_GATE_SWA, &attention->gate_swa_shape}};
  for (int i = 0; i < 2; i++) {
    const sattn_npy *logits = &a->input[gates[i].input];
    bool per_element = given(a, gates[i].input) && logits->shape[logits->dimensions - 1] != 1;
    *gates[i].shape = per_element ? SATTN_GATE_PER_ELEMENT : SATTN_GATE_PER_HEAD;
  }
  return sattn_window_from_words("sa", &a->window_sa, &attention->window_sa, report) &&
         sattn_window_from_words("swa", &a->window_swa, &attention->window_swa, report);
}

static void fill_arrays(sattn_attend *a) {
  sattn_host_call *call = &a->call;
  call->batch = a->extents.batch;
  call->queries = a->extents.queries;
  call->keys = a->extents.keys;
  call->query.data = a->input[IN_QUERY].data;
  call->key.data = a->input[IN_KEY].data;
  call->value.data = a->input[IN_VALUE].data;
  call->gate_sa.data = a->input[IN_GATE_SA].data;
  call->gate_swa.data = a->input[IN_GATE_SWA].data;
  call->lengths = a->input[IN_LENGTHS].data;
  call->query_start = a->input[IN_QUERY_START].data;
  call->sink_logits = a->input[IN_SINK_LOGITS].data;
  call->permutation_key = a->key;
  if (given(a, IN_ORDER)) {
    const sattn_npy *order = &a->input[IN_ORDER];
    call->order = order->data;
    call->order_count = order->dimensions == 2 ? order->shape[0] : 1;
    call->order_size = order->shape[order->dimensions - 1];
  }
  call->out.data = a->output[OUT_OUT].data;
  call->lse = a->output[OUT_LSE].data;
  call->lse_sa = a->output[OUT_LSE_SA].data;
  call->lse_swa = a->output[OUT_LSE_SWA].data;
  call->grad_out.data = a->input[IN_GRAD_OUT].data;
  call->grad_lse = a->input[IN_GRAD_LSE].data;
  call->grad_lse_sa = a->input[IN_GRAD_LSE_SA].data;
  call->grad_lse_swa = a->input[IN_GRAD_LSE_SWA].data;
  call->grad_query.data = a->output[OUT_DQ].data;
  call->grad_key.data = a->output[OUT_DK].data;
  call->grad_value.data = a->output[OUT_DV].data;
  call->grad_gate_sa.data = a->output[OUT_DGATE_SA].data;
  call->grad_gate_swa.data = a->output[OUT_DGATE_SWA].data;
  call->grad_sink_logits = a->output[OUT_DSINK_LOGITS].data;
}

bool sattn_attend_prepare(sattn_attend *a, sattn_report *report) {
  sattn_host_call_init(&a->call);
  if (!read_inputs(a, report) || !make_outputs(a, report) || !fill_description(a, report)) return false;
  fill_arrays(a);
  return true;
}

bool sattn_attend_write_outputs(sattn_attend *a, sattn_report *report) {
  sattn_npy_writer writer = {0};
  bool fine = true;
  for (int i = 0; fine && i < OUT_COUNT; i++) {
    if (!a->output_path[i]) continue;
    if (OUTPUTS[i].type == STORAGE) fine = sattn_from_storage(&a->output[i], (sattn_dtype)(a->dtype + 1), OUTPUTS[i].name, report);
    fine = fine && sattn_npy_writer_add(&writer, a->output_path[i], &a->output[i], report);
  }
  fine = fine && sattn_npy_writer_commit(&writer, report);
  sattn_npy_writer_discard(&writer);
  return fine;
}

void sattn_attend_free(sattn_attend *a) {
  for (int i = 0; i < IN_COUNT; i++) sattn_npy_free(&a->input[i]);
  for (int i = 0; i < OUT_COUNT; i++) sattn_npy_free(&a->output[i]);
}
