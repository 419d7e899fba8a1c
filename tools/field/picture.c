/* `sattn picture`: who sees whom, one panel per mode. */
#include <stdio.h>

#include "measures.h"
#include "orders.h"
#include "plot.h"
#include "visible.h"

enum { PANEL_PIXELS = 300, TITLE_PIXELS = 60 };

typedef enum { UNSEEN, BY_SWA, BY_SA, BY_BOTH, FUTURE, KINDS } cell_kind;

static cell_kind kind_of(const sattn_field_pattern *pattern, const uint32_t *slot, uint32_t i, uint32_t j) {
  if (pattern->causal && j > i) return FUTURE;
  const bool swa = sattn_field_sees_swa(pattern, i, j);
  const bool sa = sattn_field_sees_sa(pattern, slot, i, j);
  return swa && sa ? BY_BOTH : swa ? BY_SWA : sa ? BY_SA : UNSEEN;
}

/* One box per run of equal cells in a row: column range, row, kind. Returns how many cells are visible. */
static uint64_t write_cells(FILE *script, int panel, const sattn_field_pattern *pattern, const uint32_t *slot) {
  uint64_t visible = 0;
  for (int kind = BY_SWA; kind < KINDS; kind++) {
    fprintf(script, "$p%dk%d << EOD\n", panel, kind);
    /* a kind that no cell has still needs a block that can be plotted */
    fprintf(script, "-10 -10 -10 -10 -10 -10\n");
    for (uint32_t i = 0; i < pattern->n; i++) {
      uint32_t j = 0;
      while (j < pattern->n) {
        if ((int)kind_of(pattern, slot, i, j) != kind) {
          j++;
          continue;
        }
        const uint32_t first = j;
        /* the future is one grey region; visible cells stay apart so that they can be counted */
        do {
          j++;
        } while (kind == FUTURE && j < pattern->n && kind_of(pattern, slot, i, j) == FUTURE);
        const double gap = kind == FUTURE ? 0.5 : 0.44;
        fprintf(script, "%g %u %g %g %g %g\n", (first + j - 1) / 2.0, i, first - gap, j - 1 + gap, i - gap, i + gap);
        visible += kind == FUTURE ? 0 : j - first;
      }
    }
    fprintf(script, "EOD\n");
  }
  return visible;
}

static void plot_panel(FILE *script, int panel, const char *window_colour) {
  const char *const colours[KINDS] = {"", window_colour, SATTN_FIELD_COLOUR_SA, SATTN_FIELD_COLOUR_BOTH, SATTN_FIELD_COLOUR_FUTURE};
  fprintf(script, "plot ");
  for (int kind = FUTURE; kind >= BY_SWA; kind--) {
    fprintf(script, "$p%dk%d using 1:2:3:4:5:6 with boxxyerror fillstyle solid 1 noborder linecolor rgb '%s' notitle%s\n", panel, kind,
            colours[kind], kind > BY_SWA ? ", \\" : "");
  }
}

sattn_status sattn_field_picture(const sattn_field_settings *settings, sattn_error *out_error) {
  static const struct {
    sattn_mode mode;
    const char *title;
  } panels[] = {
      {SATTN_FULL, "full"}, {SATTN_SLIDING_WINDOW, "sliding window"}, {SATTN_STOCHASTIC, "stochastic"}, {SATTN_UNION, "union, gated"}};
  enum { PANELS = sizeof panels / sizeof panels[0] };
  const sattn_permutation_key key = {.seed = settings->seed, .layer = settings->layer};
  uint32_t slot[256];
  sattn_status status = sattn_permutation_draw(settings->n, &key, NULL, slot, out_error);
  if (status != SATTN_OK) return status;
  sattn_field_pattern patterns[PANELS];
  for (int p = 0; p < PANELS; p++) {
    status = sattn_field_pattern_make(panels[p].mode, settings->n, settings->window_swa, settings->window_sa, settings->causal,
                                      settings->wrap, &patterns[p], out_error);
    if (status != SATTN_OK) return status;
  }
  sattn_field_plot plot;
  status = sattn_field_plot_begin(settings->plot, PANELS * PANEL_PIXELS, PANEL_PIXELS + TITLE_PIXELS, &plot, out_error);
  if (status != SATTN_OK) return status;
  FILE *const script = plot.script;
  uint64_t visible[PANELS];
  for (int p = 0; p < PANELS; p++) {
    visible[p] = write_cells(script, p, &patterns[p], slot);
  }
  fprintf(script,
          "set multiplot layout 1,%d margins screen 0.04, 0.99, 0.1, 0.86 spacing screen 0.045, 0\nset size ratio -1\nunset key\nset tics "
          "scale 0 format ''\nset xrange [-0.5:%g]\nset yrange [%g:-0.5]\n",
          PANELS, settings->n - 0.5, settings->n - 0.5);
  fprintf(script, "set border linecolor rgb '#999999'\nset xlabel 'token seen' offset 0,0.8\nset ylabel 'token that looks' offset 1.2,0\n");
  for (int p = 0; p < PANELS; p++) {
    fprintf(script, "set title \"%s\\n%llu pairs\" offset 0,-0.4\n", panels[p].title, (unsigned long long)visible[p]);
    plot_panel(script, p, panels[p].mode == SATTN_FULL ? SATTN_FIELD_COLOUR_BOUND : SATTN_FIELD_COLOUR_SWA);
  }
  fprintf(script, "unset multiplot\n");
  return sattn_field_plot_finish(&plot, out_error);
}
