#include "settings.h"

#include "../sattn/options.h"

/* Sets of measures, one bit each. */
enum {
  GROWTH = 1 << SATTN_FIELD_GROWTH,
  PAIRS = 1 << SATTN_FIELD_PAIRS,
  WORLD = 1 << SATTN_FIELD_SMALL_WORLD,
  SPECTRUM = 1 << SATTN_FIELD_SPECTRUM,
  APPROXIMATION = 1 << SATTN_FIELD_APPROXIMATION,
  PICTURE = 1 << SATTN_FIELD_PICTURE,
  FIELD = GROWTH | PAIRS | WORLD | SPECTRUM | APPROXIMATION,
  ALL = FIELD | PICTURE,
  MOST_TOKENS = 1 << 27, /* their orders are held in memory: 8 bytes a token and layer, and 24 while one is drawn */
  PICTURE_TOKENS = 256
};

static const char *const measure_names[] = {"growth", "pairs", "small-world", "spectrum", "approximation", NULL};
static const char *const mode_names[] = {"full", "swa", "sa", "union", "gated", NULL};

/* What a measure takes where an option is not given. */
static const struct {
  uint32_t n, window, layers, seeds;
} defaults[SATTN_FIELD_MEASURES] = {{4096, 64, 8, 4}, {1024, 64, 1, 4000}, {130000, 1, 1, 1},
                                    {4096, 64, 6, 4}, {512, 256, 1, 32},   {32, 6, 1, 1}};

typedef struct {
  sattn_option option;
  unsigned measures; /* that know it */
  int64_t least;     /* of a number */
  bool given;
} known_option;

enum { OPTIONS = 25 };

typedef struct {
  sattn_field_settings settings;
  int measure, mode;
  int64_t n, window, window_sa, window_swa, layers, seeds, tokens, pairs, degree, sources, head_dim;
  known_option known[OPTIONS];
  sattn_option table[OPTIONS + 1];
} reader;

#define NUMBER(name, letter, target, measures, least, help) \
  { {SATTN_OPTION_INT64, name, letter, target, NULL, NULL, help}, measures, least, false }

static void fill_table(reader *r) {
  sattn_field_settings *const s = &r->settings;
  const known_option known[OPTIONS] = {
      {{SATTN_OPTION_CHOICE, "--measure", "NAME", &r->measure, NULL, measure_names,
        "growth (default): receptive fields per layer and coverage depth; pairs: how often a pair is visible; small-world: clustering and "
        "paths of the graph of who sees whom; spectrum: how fast layers mix; approximation: bias and variance of SA against full "
        "attention"},
       FIELD,
       0,
       false},
      NUMBER("--n", "N", &r->n, ALL, 2, "tokens (growth: all of them up to 65536, a sample beyond)"),
      {{SATTN_OPTION_CHOICE, "--mode", "MODE", &r->mode, NULL, mode_names,
        "growth: full, swa, sa (default), union or gated, which reaches what union reaches"},
       GROWTH,
       0,
       false},
      NUMBER("--window", "W", &r->window, ALL & ~WORLD, 1, "width of both windows"),
      NUMBER("--window-sa", "W", &r->window_sa, ALL & ~WORLD, 1, "width of the SA window"),
      NUMBER("--window-swa", "W", &r->window_swa, GROWTH | PICTURE, 1, "width of the SWA window"),
      NUMBER("--layers", "L", &r->layers, GROWTH | SPECTRUM, 1, "layers of the stack (growth, spectrum)"),
      NUMBER("--seeds", "S", &r->seeds, FIELD & ~WORLD, 1, "how many seeds"),
      {{SATTN_OPTION_UINT64, "--seed", "S", &s->seed, NULL, NULL, "the first seed; default 0"}, ALL, 0, false},
      {{SATTN_OPTION_UINT32, "--layer", "L", &s->layer, NULL, NULL, "the layer whose permutation is drawn; default 0"}, PICTURE, 0, false},
      {{SATTN_OPTION_FLAG, "--causal", NULL, &s->causal, NULL, NULL, "a token sees no later one (default)"},
       GROWTH | APPROXIMATION | PICTURE,
       0,
       false},
      {{SATTN_OPTION_CLEAR, "--no-causal", NULL, &s->causal, NULL, NULL,
        "two-way (pairs shows both; small-world and spectrum are two-way)"},
       GROWTH | APPROXIMATION | PICTURE,
       0,
       false},
      {{SATTN_OPTION_FLAG, "--wrap", NULL, &s->wrap, NULL, NULL, "circular slot distance"}, ALL & ~WORLD & ~SPECTRUM, 0, false},
      NUMBER("--tokens", "T", &r->tokens, GROWTH, 1, "growth: search from T sampled tokens instead of all; default 64 beyond 65536"),
      NUMBER("--pairs", "P", &r->pairs, PAIRS, 1, "pairs: how many are watched; default 256"),
      NUMBER("--degree", "K", &r->degree, WORLD, 4, "small-world: connections per node, an even number; default 26"),
      NUMBER("--sources", "T", &r->sources, WORLD, 1, "small-world: nodes that distances are measured from; default 64"),
      {{SATTN_OPTION_TEXT, "--q", "F", &s->query, NULL, NULL, "approximation: .npy, [n, heads, d]; random data without files"},
       APPROXIMATION,
       0,
       false},
      {{SATTN_OPTION_TEXT, "--k", "F", &s->key, NULL, NULL, "[n, key/value heads, d]"}, APPROXIMATION, 0, false},
      {{SATTN_OPTION_TEXT, "--v", "F", &s->value, NULL, NULL, "as --k"}, APPROXIMATION, 0, false},
      NUMBER("--head-dim", "D", &r->head_dim, APPROXIMATION, 1, "approximation on random data: default 64"),
      NUMBER("--sink-tokens", "N", &s->sink_tokens, APPROXIMATION, 0, "approximation: the first N tokens stay visible; default 0"),
      {{SATTN_OPTION_FLAG, "--json", NULL, &s->json, NULL, NULL, "one object instead of a table"}, FIELD, 0, false},
      {{SATTN_OPTION_TEXT, "--plot", "F", &s->plot, NULL, NULL, "F.svg or F.png, drawn by gnuplot"}, ALL, 0, false},
      {{SATTN_OPTION_END, NULL, NULL, NULL, NULL, NULL, NULL}, 0, 0, false}};
  int rows = 0;
  const unsigned wanted = s->measure == SATTN_FIELD_PICTURE ? PICTURE : FIELD;
  for (int o = 0; o < OPTIONS; o++) {
    r->known[o] = known[o];
    if ((known[o].measures & wanted) == 0) continue;
    r->table[rows] = known[o].option;
    r->table[rows++].given = &r->known[o].given;
  }
  r->table[rows] = known[OPTIONS - 1].option;
}

/* What one option alone cannot tell. */
static bool agree(const reader *r, sattn_report *report) {
  const sattn_field_settings *const s = &r->settings;
  for (int o = 0; o < OPTIONS; o++) {
    const known_option *const known = &r->known[o];
    if (!known->given) continue;
    if ((known->measures >> s->measure & 1) == 0) {
      return sattn_tool_misuse(report, "%s: has no meaning for %s", known->option.name, measure_names[s->measure]);
    }
    const int64_t value = known->option.kind == SATTN_OPTION_INT64 ? *(const int64_t *)known->option.value : known->least;
    if (value < known->least || value > INT32_MAX) {
      return sattn_tool_misuse(report, "%s %lld: must be from %lld to 2^31-1", known->option.name, (long long)value,
                               (long long)known->least);
    }
  }
  if (s->n > MOST_TOKENS) return sattn_tool_misuse(report, "--n %u: at most %d", s->n, MOST_TOKENS);
  const int files = (s->query != NULL) + (s->key != NULL) + (s->value != NULL);
  if (files != 0 && files != 3) return sattn_tool_misuse(report, "--q, --k, --v: all three or none");
  if (s->measure == SATTN_FIELD_PICTURE && s->plot == NULL) return sattn_tool_misuse(report, "--plot: needed");
  if (s->measure == SATTN_FIELD_PICTURE && s->n > PICTURE_TOKENS) {
    return sattn_tool_misuse(report, "--n %u: a picture shows at most %d tokens", s->n, PICTURE_TOKENS);
  }
  if (s->measure == SATTN_FIELD_SMALL_WORLD && (s->degree % 2 != 0 || s->degree >= s->n)) {
    return sattn_tool_misuse(report, "--degree %u: must be even and below n = %u", s->degree, s->n);
  }
  return true;
}

static uint32_t chosen(int64_t given, uint32_t otherwise) {
  return given > 0 ? (uint32_t)given : otherwise;
}

static void settle(reader *r) {
  sattn_field_settings *const s = &r->settings;
  if (s->measure != SATTN_FIELD_PICTURE) s->measure = (sattn_field_measure)r->measure;
  s->mode = (sattn_mode)(SATTN_FULL + r->mode);
  s->n = chosen(r->n, defaults[s->measure].n);
  const uint32_t window = chosen(r->window, defaults[s->measure].window);
  s->window_sa = chosen(r->window_sa, window);
  s->window_swa = chosen(r->window_swa, window);
  s->layers = chosen(r->layers, defaults[s->measure].layers);
  s->seeds = chosen(r->seeds, defaults[s->measure].seeds);
  s->tokens = chosen(r->tokens, 0);
  s->pairs = chosen(r->pairs, 256);
  s->degree = chosen(r->degree, 26);
  s->sources = chosen(r->sources, 64);
  s->head_dim = chosen(r->head_dim, 64);
}

bool sattn_field_settings_read(bool picture, int argc, char **argv, sattn_field_settings *out_settings, bool *out_help,
                               sattn_report *report) {
  static const char *const usages[] = {"field [--measure NAME] [OPTION]...", "picture --plot F [OPTION]..."};
  static const char *const summaries[] = {
      "Measures what the theory claims about visible sets, and prints claim and measurement side by side.",
      "Draws who sees whom: one panel per mode, a row per token that looks, a column per token that is seen."};
  reader r = {.measure = SATTN_FIELD_GROWTH, .mode = SATTN_STOCHASTIC - SATTN_FULL};
  r.settings.measure = picture ? SATTN_FIELD_PICTURE : SATTN_FIELD_GROWTH;
  r.settings.causal = true;
  fill_table(&r);
  const sattn_command command = {usages[picture], summaries[picture], r.table};
  if (!sattn_options_read(r.table, argc, argv, out_help, report)) return false;
  if (*out_help) {
    sattn_options_print_help(&command);
    return true;
  }
  settle(&r);
  if (!agree(&r, report)) return false;
  *out_settings = r.settings;
  return true;
}
