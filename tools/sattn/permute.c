/* sattn permute: the permutation of format version 1, drawn on the host. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "npy.h"
#include "options.h"

typedef struct settings {
  int64_t n;
  bool n_given;
  sattn_permutation_key key;
  const char *out;
  const char *slot;
} settings;

static sattn_npy as_array(uint32_t *values, int64_t n) {
  sattn_npy array;
  memset(&array, 0, sizeof array);
  array.type = SATTN_NPY_UINT32;
  array.dimensions = 1;
  array.shape[0] = n;
  array.count = (uint64_t)n;
  array.data = values;
  return array;
}

static bool draw_and_write(const settings *s, uint32_t *order, uint32_t *slot, sattn_npy_writer *writer, sattn_report *report) {
  sattn_error error = {SATTN_OK, 0, "", ""};
  if (!sattn_tool_check(report, sattn_permutation_draw(s->n, &s->key, order, slot, &error), &error)) return false;
  sattn_npy order_array = as_array(order, s->n), slot_array = as_array(slot, s->n);
  if (s->out && !sattn_npy_writer_add(writer, s->out, &order_array, report)) return false;
  if (s->slot && !sattn_npy_writer_add(writer, s->slot, &slot_array, report)) return false;
  return sattn_npy_writer_commit(writer, report);
}

bool sattn_command_permute(int argc, char **argv, sattn_report *report) {
  settings s;
  memset(&s, 0, sizeof s);
  const sattn_option options[] = {
      {SATTN_OPTION_INT64, "--n", "N", &s.n, &s.n_given, NULL, "how many tokens (required)"},
      {SATTN_OPTION_UINT64, "--seed", "S", &s.key.seed, NULL, NULL, "default 0, as the next three"},
      {SATTN_OPTION_UINT32, "--layer", "L", &s.key.layer, NULL, NULL, "the layer that uses the permutation"},
      {SATTN_OPTION_UINT32, "--substream", "T", &s.key.substream, NULL, NULL, "anything else to keep apart, such as heads"},
      {SATTN_OPTION_UINT32, "--step", "P", &s.key.step, NULL, NULL, "the training step"},
      {SATTN_OPTION_TEXT, "--out", "F", &s.out, NULL, NULL, "order[slot] = token, uint32 [N]"},
      {SATTN_OPTION_TEXT, "--slot", "F", &s.slot, NULL, NULL, "slot[token] = slot, uint32 [N]"},
      {SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}};
  const sattn_command command = {"permute --n N --out order.npy [--slot slot.npy] [--seed S] [--layer L] [--substream T] [--step P]",
                                 "Draws the random order of N tokens (format version 1: the same everywhere, for ever).", options};
  bool help = false;
  if (!sattn_options_read(options, argc, argv, &help, report)) return false;
  if (help) return sattn_options_print_help(&command), true;
  if (!s.n_given) return sattn_tool_misuse(report, "--n: needed");
  if (!s.out && !s.slot) return sattn_tool_misuse(report, "--out or --slot: needed");
  if (s.n < 0 || s.n > INT32_MAX) return sattn_tool_refuse(report, "--n %lld: must be from 0 to 2^31-1", (long long)s.n);
  uint32_t *order = sattn_tool_allocate(report, "order", (uint64_t)s.n, sizeof *order);
  uint32_t *slot = order ? sattn_tool_allocate(report, "slot", (uint64_t)s.n, sizeof *slot) : NULL;
  sattn_npy_writer writer = {0};
  bool fine = slot && draw_and_write(&s, order, slot, &writer, report);
  sattn_npy_writer_discard(&writer);
  free(order);
  free(slot);
  return fine;
}
