#include "visible.h"

static uint32_t at_most(uint64_t value, uint32_t limit) {
  return value < limit ? (uint32_t)value : limit;
}

static sattn_status band_of_width(sattn_band kind, int64_t width, bool causal, uint32_t n, sattn_field_band *out_band,
                                  sattn_error *out_error) {
  int64_t left = 0;
  int64_t right = 0;
  const sattn_status status = sattn_window_resolve(kind, causal, sattn_window_width(width), &left, &right, out_error);
  if (status == SATTN_OK) {
    *out_band = (sattn_field_band){true, at_most((uint64_t)left, n - 1), at_most((uint64_t)right, n - 1)};
  }
  return status;
}

sattn_status sattn_field_pattern_make(sattn_mode mode, uint32_t n, int64_t width_swa, int64_t width_sa, bool causal, bool wrap,
                                      sattn_field_pattern *out_pattern, sattn_error *out_error) {
  sattn_field_pattern pattern = {.n = n, .causal = causal, .wrap = wrap};
  sattn_status status = SATTN_OK;
  if (mode == SATTN_FULL) {
    pattern.swa = (sattn_field_band){true, n - 1, n - 1};
  } else {
    if (mode != SATTN_STOCHASTIC) {
      status = band_of_width(SATTN_BAND_SWA, width_swa, causal, n, &pattern.swa, out_error);
    }
    if (status == SATTN_OK && mode != SATTN_SLIDING_WINDOW) {
      status = band_of_width(SATTN_BAND_SA, width_sa, causal, n, &pattern.sa, out_error);
    }
  }
  if (status == SATTN_OK) {
    *out_pattern = pattern;
  }
  return status;
}

static bool in_band(uint32_t n, bool wrap, uint32_t at, uint32_t other, sattn_field_band band) {
  if (other <= at ? at - other <= band.left : other - at <= band.right) {
    return true;
  }
  /* the same two tokens, the other way round the circle */
  return wrap && (other <= at ? n - (at - other) <= band.right : n - (other - at) <= band.left);
}

bool sattn_field_sees_swa(const sattn_field_pattern *pattern, uint32_t i, uint32_t j) {
  return pattern->swa.used && (!pattern->causal || j <= i) && in_band(pattern->n, false, i, j, pattern->swa);
}

bool sattn_field_sees_sa(const sattn_field_pattern *pattern, const uint32_t *slot, uint32_t i, uint32_t j) {
  return pattern->sa.used && (!pattern->causal || j <= i) && in_band(pattern->n, pattern->wrap, slot[i], slot[j], pattern->sa);
}

bool sattn_field_sees(const sattn_field_pattern *pattern, const uint32_t *slot, uint32_t i, uint32_t j) {
  return sattn_field_sees_swa(pattern, i, j) || sattn_field_sees_sa(pattern, slot, i, j);
}

int sattn_field_band_ranges(uint32_t n, bool wrap, uint32_t at, uint32_t left, uint32_t right, sattn_field_range out_ranges[2]) {
  const uint32_t before = left < at ? left : at;
  const uint32_t after = right < n - 1 - at ? right : n - 1 - at;
  out_ranges[0] = (sattn_field_range){at - before, at + after};
  if (!wrap || (before == left && after == right)) {
    return 1;
  }
  if ((uint64_t)left + right + 1 >= n) {
    out_ranges[0] = (sattn_field_range){0, n - 1};
    return 1;
  }
  /* a band shorter than the circle crosses its end on one side only */
  out_ranges[1] = before < left ? (sattn_field_range){n - (left - before), n - 1} : (sattn_field_range){0, right - after - 1};
  return 2;
}

uint32_t sattn_field_allowed(const sattn_field_pattern *pattern, uint32_t i) {
  return pattern->causal ? i + 1 : pattern->n;
}

uint32_t sattn_field_max_degree(const sattn_field_pattern *pattern) {
  uint64_t others = 0;
  if (pattern->swa.used) {
    others += (uint64_t)pattern->swa.left + (pattern->causal ? 0u : pattern->swa.right);
  }
  if (pattern->sa.used) {
    others += (uint64_t)pattern->sa.left + pattern->sa.right;
  }
  return at_most(others + 1, pattern->n);
}
