/* The measures of `sattn field`. Each computes, prints a table or JSON on standard output, and draws its plot where one is asked for. */
#ifndef SATTN_TOOLS_FIELD_MEASURES_H
#define SATTN_TOOLS_FIELD_MEASURES_H

#include "settings.h"

sattn_status sattn_field_growth(const sattn_field_settings *settings, sattn_error *out_error);
sattn_status sattn_field_pairs(const sattn_field_settings *settings, sattn_error *out_error);
sattn_status sattn_field_small_world(const sattn_field_settings *settings, sattn_error *out_error);
sattn_status sattn_field_spectrum(const sattn_field_settings *settings, sattn_error *out_error);
sattn_status sattn_field_approximation(const sattn_field_settings *settings, sattn_error *out_error);
sattn_status sattn_field_picture(const sattn_field_settings *settings, sattn_error *out_error);

#endif
