/* Plots, drawn by gnuplot as a child process: its script goes in by a file, the image comes out by a file, no shell between. */
#ifndef SATTN_TOOLS_FIELD_PLOT_H
#define SATTN_TOOLS_FIELD_PLOT_H

#include <stdio.h>

#include <sattn/status.h>

/* One colour per mode and meaning, the same in every plot. */
#define SATTN_FIELD_COLOUR_SWA    "#2563a8"
#define SATTN_FIELD_COLOUR_SA     "#d9720a"
#define SATTN_FIELD_COLOUR_BOTH   "#4b2a63"
#define SATTN_FIELD_COLOUR_BOUND  "#7a7a7a"
#define SATTN_FIELD_COLOUR_FUTURE "#ececec"

typedef struct {
  FILE *script; /* write gnuplot commands here; the terminal is set already */
  const char *file;
} sattn_field_plot;

/* Refuses a name that ends neither in .svg nor in .png. `file` must outlive the plot. */
sattn_status sattn_field_plot_begin(const char *file, int width, int height, sattn_field_plot *out_plot, sattn_error *out_error);

/* Runs gnuplot and puts the image at its place whole, or not at all. Ends the plot either way. */
sattn_status sattn_field_plot_finish(sattn_field_plot *plot, sattn_error *out_error);

#endif
