/* The arguments of the two subcommands. */
#ifndef SATTN_TOOLS_FIELD_SETTINGS_H
#define SATTN_TOOLS_FIELD_SETTINGS_H

#include "../sattn/report.h"

typedef enum {
  SATTN_FIELD_GROWTH,
  SATTN_FIELD_PAIRS,
  SATTN_FIELD_SMALL_WORLD,
  SATTN_FIELD_SPECTRUM,
  SATTN_FIELD_APPROXIMATION,
  SATTN_FIELD_PICTURE,
  SATTN_FIELD_MEASURES
} sattn_field_measure;

typedef struct {
  sattn_field_measure measure;
  sattn_mode mode; /* growth */
  uint32_t n;
  int64_t window_sa, window_swa;
  uint32_t layers;
  uint32_t seeds;
  uint64_t seed; /* the first one */
  bool causal, wrap, json;
  const char *plot;                /* NULL: none */
  uint32_t tokens;                 /* growth: how many are searched instead of all; 0 decides by n */
  uint32_t pairs;                  /* pairs: how many are watched */
  uint32_t degree;                 /* small-world: connections per node */
  uint32_t sources;                /* small-world: nodes that distances are measured from */
  uint32_t head_dim;               /* approximation, random data */
  int64_t sink_tokens;             /* approximation: first tokens that stay visible */
  const char *query, *key, *value; /* approximation: .npy files; NULL: random data */
  uint32_t layer;                  /* picture */
} sattn_field_settings;

/* Reads the words after `field` (picture false) or `picture`. Returns false with a misuse in report. *out_help: the help was printed
 * instead. */
bool sattn_field_settings_read(bool picture, int argc, char **argv, sattn_field_settings *out_settings, bool *out_help,
                               sattn_report *report);

#endif
